package controller

import "sallyport/proxy/feature"

// annotationProblem is what a feature found, as a problem of the Ingress. A value that cannot be read, and an annotation
// without which the routes must not stand open, are errors: the Ingress is not served as asked. Any other name that nobody
// knows is a warning, and so is one of ingress-nginx that is not supported: manifests are full of them, and most only tune.
func (t *translated) annotationProblem(p feature.Problem) Problem {
	severity, reason := severityOf(p)
	return t.newProblem(severity, reason, annotationField(p.Annotation), "%s", p.Message)
}

// severityOf says how bad it is, and which kind of problem.
func severityOf(p feature.Problem) (Severity, string) {
	severity, reason := Error, ReasonBadAnnotation
	switch p.Reason {
	case feature.UnknownName:
		severity, reason = Warning, ReasonUnknownAnnotation
	case feature.Unsupported:
		severity, reason = Warning, ReasonUnsupportedAnnotation
	case feature.Inert:
		severity, reason = Warning, ReasonIgnoredAnnotation
	case feature.Doubtful:
		severity = Warning
	case feature.MissingSecret:
		reason = ReasonSecretNotFound
	case feature.MissingConfigMap:
		reason = ReasonConfigMapNotFound
	case feature.MissingService:
		reason = ReasonServiceNotFound
	}
	if p.Denies {
		severity = Error
	}
	return severity, reason
}
