package feature

import (
	"fmt"
	"net/http"
	"strings"

	"sallyport/proxy/upstream"
)

// Objects are what an annotation may name beside its Ingress. Whoever implements it remembers what was asked for, so that
// the Ingress is read again when that changes.
type Objects interface {
	// Secret returns the data of a Secret, ConfigMap that of a ConfigMap; ok is false where there is none.
	Secret(namespace, name string) (data map[string][]byte, ok bool)
	ConfigMap(namespace, name string) (data map[string]string, ok bool)
	// Backend returns what leads to the first TCP port of a Service, nil where there is none.
	Backend(namespace, service string) *Backend
}

// A Backend leads to a Service.
type Backend struct {
	http.Handler
	Pool *upstream.Pool
}

// Secret reads the name of a Secret, of the Ingress's own namespace unless allow-cross-namespace-resources is set, and
// returns its data. Nil: the annotation is absent or bad, or there is no such Secret.
func (a *Annotations) Secret(name, usage string) map[string][]byte {
	namespace, object := a.reference(name, "a Secret", usage)
	if object == "" || a.in.Objects == nil {
		return nil
	}
	data, ok := a.in.Objects.Secret(namespace, object)
	if !ok {
		a.RefuseFor(MissingSecret, name, fmt.Sprintf("no Secret is named %q in namespace %q", object, namespace))
		return nil
	}
	if data == nil {
		data = map[string][]byte{}
	}
	return data
}

// ConfigMap reads the name of a ConfigMap as Secret does that of a Secret.
func (a *Annotations) ConfigMap(name, usage string) map[string]string {
	namespace, object := a.reference(name, "a ConfigMap", usage)
	if object == "" || a.in.Objects == nil {
		return nil
	}
	data, ok := a.in.Objects.ConfigMap(namespace, object)
	if !ok {
		a.RefuseFor(MissingConfigMap, name, fmt.Sprintf("no ConfigMap is named %q in namespace %q", object, namespace))
		return nil
	}
	if data == nil {
		data = map[string]string{}
	}
	return data
}

// Backend reads the name of a Service of the Ingress's namespace. Nil: the annotation is absent or bad, or there is no such
// Service with a TCP port.
func (a *Annotations) Backend(name, usage string) *Backend {
	d := Declaration{Name: name, Values: "the name of a Service of the same namespace", Usage: usage}
	service := read(a, d, "", func(value string) (string, string) {
		return value, unless(isName(value), "expected the name of a Service of the same namespace")
	})
	if service == "" || a.in.Objects == nil {
		return nil
	}
	backend := a.in.Objects.Backend(a.in.Namespace, service)
	if backend == nil {
		a.RefuseFor(MissingService, name, fmt.Sprintf("no Service with a TCP port is named %q in namespace %q", service, a.in.Namespace))
	}
	return backend
}

// reference reads "name" or "namespace/name". What a key of the ConfigMap names may be anywhere: who writes that is the
// operator.
func (a *Annotations) reference(name, what, usage string) (namespace, object string) {
	d := Declaration{Name: name, Values: `the name of ` + what + `, as in "name" or "namespace/name"`, Usage: usage}
	_, _, annotated := a.find(name)
	annotated = annotated && !a.scope.onlyConfig
	full := read(a, d, "", func(value string) (string, string) {
		own := a.in.Namespace
		if !annotated && a.in.Config != nil {
			own = a.in.Config.namespace
		}
		namespace, object, found := strings.Cut(value, "/")
		if !found {
			namespace, object = own, value
		}
		if !isName(namespace) && namespace != own || !isName(object) {
			return "", "expected the name of " + what + `, as in "name" or "namespace/name"`
		}
		if annotated && namespace != a.in.Namespace && !a.crossNamespace() {
			return "", fmt.Sprintf("%s of another namespace than the Ingress's own, %q, may be named only where the ConfigMap says allow-cross-namespace-resources", what, a.in.Namespace)
		}
		return namespace + "/" + object, ""
	})
	namespace, object, _ = strings.Cut(full, "/")
	return namespace, object
}

func (a *Annotations) crossNamespace() bool {
	return a.in.AnyNamespace || a.in.Config.value("allow-cross-namespace-resources") == "true"
}

// isName reports whether text is a name that an object can have (RFC 1123 subdomain).
func isName(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}
