package controller

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// classAnnotation named the class of an Ingress before there was a field for it.
const classAnnotation = "kubernetes.io/ingress.class"

// A choice says whether an Ingress is ours. Problem is the zero Problem, or why somebody may be surprised that it is not.
type choice struct {
	ours    bool
	problem Problem
}

// chosen decides by classes alone (reference A2): the field first, which needs an IngressClass object; else the
// annotation, which needs none; else whether Ingresses without a class are wanted. A field that names a foreign class
// beats an annotation that names ours.
func (o *Options) chosen(s *Snapshot, ingress *networkingv1.Ingress) choice {
	if o.ServeAllWithoutClasses && len(s.classes.objects) == 0 {
		return choice{ours: true}
	}
	if name := ingress.Spec.IngressClassName; name != nil {
		return o.chosenByField(s, ingress, *name)
	}
	if name, ok := ingress.Annotations[classAnnotation]; ok {
		return o.chosenByAnnotation(s, ingress, name)
	}
	if o.WatchWithoutClass {
		return choice{ours: true}
	}
	if !o.ServeAllWithoutClasses {
		return choice{}
	}
	if class := defaultClass(s); class != nil {
		return choice{ours: o.isOurs(class)}
	}
	return notServed(ingress, "spec.ingressClassName", "is missing and no IngressClass is the default one, so the Ingress is not served; IngressClasses here: "+classNames(s))
}

func (o *Options) chosenByField(s *Snapshot, ingress *networkingv1.Ingress, name string) choice {
	class := s.IngressClass(name)
	if class == nil && o.ServeAllWithoutClasses {
		return notServed(ingress, "spec.ingressClassName", fmt.Sprintf("no IngressClass is named %q, so the Ingress is not served; IngressClasses here: %s", name, classNames(s)))
	}
	return choice{ours: class != nil && o.isOurs(class)}
}

func (o *Options) chosenByAnnotation(s *Snapshot, ingress *networkingv1.Ingress, name string) choice {
	if name == o.IngressClass && name != "" {
		return choice{ours: true}
	}
	if o.ServeAllWithoutClasses && s.IngressClass(name) == nil {
		return notServed(ingress, annotationField(classAnnotation), fmt.Sprintf("%q is neither the class served here, %q, nor an IngressClass, so the Ingress is not served", name, o.IngressClass))
	}
	return choice{}
}

func (o *Options) isOurs(class *networkingv1.IngressClass) bool {
	if o.IngressClassByName && class.Name == o.IngressClass {
		return true
	}
	if len(o.ControllerClasses) == 0 {
		return class.Spec.Controller == DefaultControllerClass
	}
	return slices.Contains(o.ControllerClasses, class.Spec.Controller)
}

// defaultClass is the class an API server writes into an Ingress that names none: of those annotated as default the
// newest, of equally old ones the first by name.
func defaultClass(s *Snapshot) *networkingv1.IngressClass {
	var chosen *networkingv1.IngressClass
	for class := range s.IngressClasses() {
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if chosen == nil || chosen.CreationTimestamp.Before(&class.CreationTimestamp) ||
			chosen.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < chosen.Name {
			chosen = class
		}
	}
	return chosen
}

func classNames(s *Snapshot) string {
	var names []string
	for class := range s.IngressClasses() {
		names = append(names, class.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func notServed(ingress *networkingv1.Ingress, field, message string) choice {
	return choice{problem: Problem{Object: ingressRef(ingress), Severity: Warning, Reason: ReasonUnknownClass, Field: field, Message: message}}
}

func ingressRef(ingress *networkingv1.Ingress) Ref {
	return Ref{"Ingress", ingress.Namespace, ingress.Name}
}

func annotationField(key string) string { return "metadata.annotations[" + key + "]" }
