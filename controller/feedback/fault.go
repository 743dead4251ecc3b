package feedback

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// gone says that an object is no more, or that another has its name by now.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// failed logs what could not be done, and why. Everything is tried again later.
func (w *Writer) failed(what string, err error) {
	if apierrors.IsForbidden(err) {
		// The API server's own words name user, verb, resource and group.
		w.log.Error("a permission is missing; see deploy/base/rbac.yaml", "to", what, "err", err)
		return
	}
	w.log.Warn("cannot "+what, "err", err)
}
