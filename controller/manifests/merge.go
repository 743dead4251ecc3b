package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

const keptNote = "; its last good version stays in service"

// merge makes one set of objects of all files, brings the snapshot up to it, and says whether anything changed: objects,
// problems, or the places where objects are written, which somebody may be showing.
func (f *Folder) merge(lost []source) bool {
	served := make(map[controller.Ref]*entry)
	others := make(map[string]int)
	var problems []controller.Problem
	for _, s := range lost {
		problems = append(problems, controller.Problem{Severity: controller.Error, Reason: controller.ReasonFileUnreadable,
			File: s.shown, Message: "the folder cannot be read: " + reasonOf(s.err).Error() + "; what it held stays in service"})
	}
	for _, file := range f.order {
		found := file.content.problems
		for _, e := range file.entries() {
			if first, ok := served[e.ref]; ok {
				found = append(slices.Clip(found), duplicate(e, first))
				continue
			}
			served[e.ref] = e
			if f.keep(e); e.kept {
				found = addLacks(slices.Clone(found), e)
			}
		}
		for kind, n := range file.content.others {
			others[kind] += n
		}
		problems = append(problems, f.noteKept(file, found)...)
	}
	problems = append(problems, lint(served)...)
	sortByPlace(problems, f.order)

	f.changes = changes(f.served, served)
	placesChanged := !maps.Equal(f.served, served)
	f.served, f.others = served, others
	objectsChanged := f.apply(served)
	problemsChanged := !slices.Equal(f.problems, problems)
	f.problems = problems
	return objectsChanged || problemsChanged || placesChanged
}

func duplicate(e, first *entry) controller.Problem {
	return controller.Problem{
		Object: e.ref, Severity: controller.Error, Reason: controller.ReasonDuplicate, File: e.file, Line: e.line,
		Message: fmt.Sprintf("is defined twice, at %s:%d and at %s:%d; the first one counts", first.file, first.line, e.file, e.line),
	}
}

// keep lets an entry stand for the object already in service: the same pointer if its content is the same, so that
// nothing is built again for it, and the last good version if it does not decode or lacks what that has.
func (f *Folder) keep(e *entry) {
	old := f.served[e.ref]
	if old == nil || old == e || old.made == nil {
		return
	}
	e.kept = len(e.lacks) > 0 && (len(old.lacks) == 0 || old.kept)
	if e.kept || e.bad && e.made == nil || e.made != nil && e.version == old.version && bytes.Equal(e.content, old.content) {
		e.made, e.from, e.content = old.made, old.from, old.content
	}
}

// addLacks tells that an Ingress is kept, at what it lacks or, where that only follows from a field that does not exist,
// at that field.
func addLacks(problems []controller.Problem, e *entry) []controller.Problem {
	for _, p := range e.lacks {
		cause := slices.IndexFunc(problems, func(known controller.Problem) bool {
			return known.Object == e.ref && known.Reason == controller.ReasonUnknownField && related(p.Field, known.Field)
		})
		if cause < 0 {
			p.Message += keptNote
			problems = append(problems, p)
		} else if !strings.HasSuffix(problems[cause].Message, keptNote) {
			problems[cause].Message += keptNote
		}
	}
	return problems
}

// noteKept adds to problems that would take objects out of service that they do not.
func (f *Folder) noteKept(file *file, problems []controller.Problem) []controller.Problem {
	noted := slices.Clone(problems)
	for i := range noted {
		p := &noted[i]
		kept := file.content.broken && file.good != nil && isFileProblem(p.Reason)
		for _, e := range file.content.entries {
			kept = kept || e.bad && e.made != nil && e.ref == p.Object && p.Reason != controller.ReasonUnknownField
		}
		if kept {
			p.Message += keptNote
		}
	}
	return noted
}

func isFileProblem(reason string) bool {
	return reason == controller.ReasonBadYAML || reason == controller.ReasonFileUnreadable
}

// lint finds what only the whole folder shows: addresses that belong to no Service.
func lint(served map[controller.Ref]*entry) []controller.Problem {
	var problems []controller.Problem
	for ref, e := range served {
		switch ref.Kind {
		case "Endpoints":
			if served[controller.Ref{Kind: "Service", Namespace: ref.Namespace, Name: ref.Name}] == nil {
				problems = append(problems, controller.Problem{
					Object: ref, Severity: controller.Warning, Reason: controller.ReasonServiceNotFound, Field: "metadata.name",
					Message: fmt.Sprintf("no Service is named %s in namespace %s: Endpoints belong to the Service of their name", ref.Name, ref.Namespace),
					File:    e.file, Line: lineOf(e, "metadata.name"),
				})
			}
		case "EndpointSlice":
			if e.made != nil && e.made[0].GetLabels()[discoveryv1.LabelServiceName] == "" {
				problems = append(problems, controller.Problem{
					Object: ref, Severity: controller.Warning, Reason: controller.ReasonInvalid,
					Field: "metadata.labels[" + discoveryv1.LabelServiceName + "]",
					Message: "is missing: an EndpointSlice belongs to the Service this label names; write " +
						discoveryv1.LabelServiceName + ": NAME under labels",
					File: e.file, Line: lineOf(e, "metadata.labels"),
				})
			}
		}
	}
	return problems
}

// apply brings the snapshot to the objects served and says whether it had to change.
func (f *Folder) apply(served map[controller.Ref]*entry) bool {
	sliced := servicesWithSlices(served)
	objects := make(map[controller.Ref]metav1.Object)
	for ref, e := range served {
		if ref.Kind == "Endpoints" && sliced[controller.Key{Namespace: ref.Namespace, Name: ref.Name}] {
			continue // slices written by hand say more, and two answers to one question would be one too many
		}
		for _, o := range e.made {
			objects[refOf(o)] = o
		}
	}
	changed := false
	for ref := range f.objects {
		if objects[ref] == nil {
			changed = f.snapshot.Delete(ref) || changed
		}
	}
	for ref, o := range objects {
		if f.objects[ref] != o {
			changed = f.snapshot.Set(o) || changed
		}
	}
	f.objects = objects
	return changed
}

func servicesWithSlices(served map[controller.Ref]*entry) map[controller.Key]bool {
	sliced := make(map[controller.Key]bool)
	for ref, e := range served {
		if ref.Kind == "EndpointSlice" && len(e.made) > 0 {
			sliced[controller.Key{Namespace: ref.Namespace, Name: e.made[0].GetLabels()[discoveryv1.LabelServiceName]}] = true
		}
	}
	return sliced
}

func refOf(o metav1.Object) controller.Ref {
	ref := controller.Ref{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *networkingv1.Ingress:
		ref.Kind = "Ingress"
	case *networkingv1.IngressClass:
		ref.Kind = "IngressClass"
	case *corev1.Service:
		ref.Kind = "Service"
	case *discoveryv1.EndpointSlice:
		ref.Kind = "EndpointSlice"
	case *corev1.Secret:
		ref.Kind = "Secret"
	case *corev1.ConfigMap:
		ref.Kind = "ConfigMap"
	case *corev1.Namespace:
		ref.Kind = "Namespace"
	}
	return ref
}

// sortByPlace orders problems by file as read, then by line.
func sortByPlace(problems []controller.Problem, order []*file) {
	at := make(map[string]int, len(order))
	for i, f := range order {
		at[f.path] = i
	}
	slices.SortStableFunc(problems, func(a, b controller.Problem) int {
		if a.File != b.File {
			if at[a.File] != at[b.File] {
				return at[a.File] - at[b.File]
			}
			return strings.Compare(a.File, b.File)
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Object.Compare(b.Object)
	})
}
