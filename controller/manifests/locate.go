package manifests

import (
	"strings"

	"sallyport/controller"
)

// Locate fills in the file and line of a problem found in building, from its object and field: the line of the field
// or, where it is not written, of the longest part of the path that is. Field and object are put in the words of the
// manifest, which may be an older API version, or Endpoints instead of the slices made of them.
//
// A problem with an object that is in no file stays as it is.
func (f *Folder) Locate(p *controller.Problem) {
	e := f.origin(p)
	if e == nil {
		return
	}
	p.Object = e.ref
	if isOld(e) {
		p.Field = oldWords.Replace(p.Field)
	}
	p.File, p.Line = e.file, lineOf(e, p.Field)
}

// isOld says whether an entry is an Ingress in the words of the versions before networking.k8s.io/v1.
func isOld(e *entry) bool { return strings.HasSuffix(e.version, "/v1beta1") && e.ref.Kind == "Ingress" }

// oldWords puts a path of networking.k8s.io/v1 in the words of the versions before. A path of the new version never
// contains the old words.
var oldWords = strings.NewReplacer(
	"spec.defaultBackend", "spec.backend",
	".service.name", ".serviceName",
	".service.port.number", ".servicePort",
	".service.port.name", ".servicePort",
	".service.port", ".servicePort",
	".service", "",
)

// origin is the entry a problem is about; nil when there is none.
func (f *Folder) origin(p *controller.Problem) *entry {
	if e := f.served[p.Object]; e != nil {
		return e
	}
	if p.Object.Kind != "EndpointSlice" {
		return nil
	}
	at := strings.LastIndex(p.Object.Name, mirrorName)
	if at < 0 {
		return nil
	}
	e := f.served[controller.Ref{Kind: "Endpoints", Namespace: p.Object.Namespace, Name: p.Object.Name[:at]}]
	if e != nil {
		p.Field = placeInEndpoints(e, p.Object.Name, p.Field)
	}
	return e
}

// lineOf is the line of a field, or of what is there of its path.
func lineOf(e *entry, path string) int {
	line, _, _ := follow(e.root, steps(path))
	return line
}
