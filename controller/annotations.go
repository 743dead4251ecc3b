package controller

import "sallyport/controller/seam/feature"

// annotationProblem is a problem of a feature as one of the Ingress.
func annotationProblem(key Key, p feature.Problem) Problem {
	return Problem{Object: Ref{"Ingress", key.Namespace, key.Name}}
}
