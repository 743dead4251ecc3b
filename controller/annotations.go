package controller

import "sallyport/proxy/feature"

// annotationProblem is what a feature found, as a problem of the Ingress. A value that cannot be read, and an annotation
// without which the routes must not stand open, are errors: the Ingress is not served as asked. Any other name that nobody
// knows is a warning, and so is one of ingress-nginx that is not supported: manifests are full of them, and most only tune.
func (t *translated) annotationProblem(p feature.Problem) Problem {
	severity, reason := Warning, ReasonUnknownAnnotation
	switch p.Reason {
	case feature.BadValue:
		severity, reason = Error, ReasonBadAnnotation
	case feature.Unsupported:
		reason = ReasonUnsupportedAnnotation
	}
	if p.Denies {
		severity = Error
	}
	return t.newProblem(severity, reason, annotationField(p.Annotation), "%s", p.Message)
}
