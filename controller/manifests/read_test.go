package manifests

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"

	"sallyport/controller"
)

// text reads one file and returns the folder and its problems.
func text(t *testing.T, name, text string) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, name), text)
	return read(t, dir)
}

func get[T any](t *testing.T, f *Folder, kind, name string) *T {
	t.Helper()
	o, ok := f.objects[controller.Ref{Kind: kind, Namespace: "default", Name: name}].(any).(*T)
	if !ok {
		t.Fatalf("no %s %s; there are %v", kind, name, f.objects)
	}
	return o
}

const oldIngress = `
kind: Ingress
metadata: {name: a}
spec:
  backend: {serviceName: web, servicePort: http}
  tls: [{hosts: [a.test], secretName: s}]
  rules:
  - host: a.test
    http:
      paths:
      - path: /x
        backend: {serviceName: web, servicePort: 8080}
      - backend: {serviceName: api, servicePort: "80"}
        pathType: Exact
        path: /y
`

func TestIngressesOfEveryVersionBecomeTheSame(t *testing.T) {
	specific, exact := networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypeExact
	service := func(name string, port networkingv1.ServiceBackendPort) networkingv1.IngressBackend {
		return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: port}}
	}
	fallback := service("web", networkingv1.ServiceBackendPort{Name: "http"})
	want := networkingv1.IngressSpec{
		DefaultBackend: &fallback,
		TLS:            []networkingv1.IngressTLS{{Hosts: []string{"a.test"}, SecretName: "s"}},
		Rules: []networkingv1.IngressRule{{Host: "a.test", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
				{Path: "/x", PathType: &specific, Backend: service("web", networkingv1.ServiceBackendPort{Number: 8080})},
				{Path: "/y", PathType: &exact, Backend: service("api", networkingv1.ServiceBackendPort{Name: "80"})},
			}},
		}}},
	}
	for _, version := range []string{"networking.k8s.io/v1beta1", "extensions/v1beta1"} {
		f, problems := text(t, "a.yaml", "apiVersion: "+version+oldIngress)
		if problems != "" {
			t.Errorf("%s: problems %s", version, problems)
		}
		if diff := cmp.Diff(want, get[networkingv1.Ingress](t, f, "Ingress", "a").Spec); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", version, diff)
		}
	}
}

// One type reads both old versions; this is what allows it.
func TestBothOldVersionsOfIngressAreWrittenAlike(t *testing.T) {
	a := shape(reflect.TypeFor[networkingv1beta1.Ingress](), nil)
	b := shape(reflect.TypeFor[extensionsv1beta1.Ingress](), nil)
	if a != b {
		t.Errorf("networking.k8s.io/v1beta1 is\n%s\nand extensions/v1beta1 is\n%s", a, b)
	}
	if a, b := shape(reflect.TypeFor[networkingv1beta1.IngressClass](), nil), shape(reflect.TypeFor[networkingv1.IngressClass](), nil); a != b {
		t.Errorf("IngressClass v1beta1 is\n%s\nand v1 is\n%s", a, b)
	}
}

// shape writes a type as its JSON field names, all the way down.
func shape(t reflect.Type, around []reflect.Type) string {
	var b strings.Builder
	for _, f := range make(schemas).of(t) {
		b.WriteString(f.name)
		kind := f.kind
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if inner := object(f.kind); inner != nil {
			b.WriteString("{" + shape(inner, append(around, t)) + "}")
		} else {
			b.WriteString(":" + kind.Kind().String())
		}
		b.WriteString(" ")
	}
	return b.String()
}

func TestServicesGetTheDefaultsOfAnAPIServer(t *testing.T) {
	f, problems := text(t, "a.yaml", `
apiVersion: v1
kind: Service
metadata: {name: plain}
spec:
  ports: [{name: plain, port: 80}, {name: named, port: 81, targetPort: web}, {name: zero, port: 82, targetPort: 0, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec: {type: NodePort, sessionAffinity: ClientIP, ports: [{port: 80}]}
`)
	if problems != "" {
		t.Fatal(problems)
	}
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	if diff := cmp.Diff(corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &cluster,
		Ports: []corev1.ServicePort{
			{Name: "plain", Port: 80, TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP},
			{Name: "named", Port: 81, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP},
			{Name: "zero", Port: 82, TargetPort: intstr.FromInt32(82), Protocol: corev1.ProtocolUDP},
		},
	}, get[corev1.Service](t, f, "Service", "plain").Spec); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	sticky := get[corev1.Service](t, f, "Service", "sticky").Spec
	if got := *sticky.SessionAffinityConfig.ClientIP.TimeoutSeconds; got != 10800 {
		t.Errorf("affinity times out after %d s, want 10800", got)
	}
}

func TestEndpointsBecomeSlices(t *testing.T) {
	f, problems := text(t, "a.yaml", `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets:
- addresses: [{ip: 192.0.2.1, hostname: one}, {ip: "2001:db8::1"}]
  notReadyAddresses: [{ip: 192.0.2.2}]
  ports: [{name: http, port: 8080}]
`)
	if problems != "" {
		t.Fatal(problems)
	}
	ready, unready, name, port, tcp, one := true, false, "http", int32(8080), corev1.ProtocolTCP, "one"
	ports := []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}}
	got := get[discoveryv1.EndpointSlice](t, f, "EndpointSlice", "web-mirrored-1")
	if diff := cmp.Diff([]discoveryv1.Endpoint{
		{Addresses: []string{"192.0.2.1"}, Hostname: &one, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		{Addresses: []string{"192.0.2.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &unready}},
	}, got.Endpoints); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(ports, got.Ports); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Labels[discoveryv1.LabelServiceName] != "web" || got.AddressType != discoveryv1.AddressTypeIPv4 {
		t.Errorf("the slice has labels %v and type %s", got.Labels, got.AddressType)
	}
	if six := get[discoveryv1.EndpointSlice](t, f, "EndpointSlice", "web-mirrored-2"); six.AddressType != discoveryv1.AddressTypeIPv6 ||
		six.Endpoints[0].Addresses[0] != "2001:db8::1" {
		t.Errorf("the second slice is %v", six)
	}
	p := controller.Problem{Object: controller.Ref{Kind: "EndpointSlice", Namespace: "default", Name: "web-mirrored-1"}, Field: "endpoints[1].addresses[0]"}
	if f.Locate(&p); p.Object.Kind != "Endpoints" || p.Line != 12 || p.Field != "subsets[0].notReadyAddresses[0].ip" {
		t.Errorf("a problem of the slice is located at %v %s line %d, want the address in the Endpoints at line 12", p.Object, p.Field, p.Line)
	}
}

func TestSlicesWrittenByHandReplaceEndpoints(t *testing.T) {
	f, problems := text(t, "a.yaml", `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{port: 8080}]}]
---
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata: {name: mine, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [192.0.2.3], topology: {topology.kubernetes.io/zone: z1}}]
`)
	if problems != "" {
		t.Fatal(problems)
	}
	slice := get[discoveryv1.EndpointSlice](t, f, "EndpointSlice", "mine")
	if len(f.objects) != 2 || *slice.Endpoints[0].Zone != "z1" || *slice.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("objects %v, slice %v; want the Service and the slice with its zone and protocol", f.objects, slice)
	}
}

func TestSecretsMergeStringDataIntoData(t *testing.T) {
	f, problems := text(t, "a.yaml", `
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {a: b25l, b: dHdv}
stringData: {b: three, c: "four"}
`)
	secret := get[corev1.Secret](t, f, "Secret", "s")
	want := map[string][]byte{"a": []byte("one"), "b": []byte("three"), "c": []byte("four")}
	if diff := cmp.Diff(want, secret.Data); diff != "" || problems != "" || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("type %s, problems %s (-want +got)\n%s", secret.Type, problems, diff)
	}
}

func TestListsManyDocumentsAndOtherKinds(t *testing.T) {
	f, problems := text(t, "a.yaml", "\ufeff# a byte order mark, comments, CRLF\r\n---\r\n---\r\n"+
		strings.ReplaceAll(configMap("a", "1"), "\n", "\r\n")+`...
--- # a list
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {v: "1"}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
--- {apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: c}, data: {v: "1"}}]}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: somebody-elses}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: e, namespace: other}
data: &d {v: "1"}
...
%YAML 1.1
# a directive
---
apiVersion: v1
kind: ConfigMap
metadata: {name: g}
data: {<<: {v: "1"}}
`)
	if got := values(f); problems != "" || got != "a=1 b=1 c=1 e=1 g=1" {
		t.Errorf("read %q with problems %s", got, problems)
	}
	if diff := cmp.Diff(map[string]int{"Deployment": 1, "Service": 1}, f.Others()); diff != "" {
		t.Errorf("other kinds (-want +got)\n%s", diff)
	}
	if f.objects[controller.Ref{Kind: "ConfigMap", Namespace: "other", Name: "e"}] == nil {
		t.Error("e is not in its namespace")
	}
}

func TestScalarsMeanWhatKubectlReads(t *testing.T) {
	f, problems := text(t, "a.yaml", `
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {date: 2026-01-31, "8": eight, 80: eighty, on: key, tagged: !!str 8, version: 1.2.3, colon: a:b, v: ""}
`)
	want := map[string]string{"date": "2026-01-31", "8": "eight", "80": "eighty", "true": "key", "tagged": "8", "version": "1.2.3",
		"colon": "a:b", "v": ""}
	if diff := cmp.Diff(want, get[corev1.ConfigMap](t, f, "ConfigMap", "a").Data); diff != "" || problems != "" {
		t.Errorf("problems %s (-want +got)\n%s", problems, diff)
	}
}

func TestJSONIsReadAsJSON(t *testing.T) {
	f, problems := text(t, "a.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"v":"\ud83d\ude00\/"}}
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},
"data":{"v":8}}`)
	if got := get[corev1.ConfigMap](t, f, "ConfigMap", "a").Data["v"]; got != "😀/" {
		t.Errorf("v is %q, want 😀/", got)
	}
	if !strings.HasPrefix(problems, "a.json:3: error: ConfigMap default/b: data[v]: is the number 8") || strings.Contains(problems, "\n") {
		t.Errorf("problems %s, want one at line 3", problems)
	}
}

func TestLocateFindsTheLongestPartOfAPath(t *testing.T) {
	f, _ := text(t, "a.yaml", `apiVersion: networking.k8s.io/v1beta1
kind: Ingress
metadata:
  name: a
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "maybe"
spec:
  rules:
  - host: a.test
    http:
      paths:
      - path: /
        backend:
          serviceName: web
          servicePort: 80
`)
	for field, want := range map[string]struct {
		line  int
		field string
	}{
		"": {1, ""},
		"metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]": {6, "metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]"},
		"metadata.annotations[a.b/c]":                                    {5, "metadata.annotations[a.b/c]"},
		"spec.rules[0].host":                                             {9, "spec.rules[0].host"},
		"spec.rules[1].host":                                             {8, "spec.rules[1].host"},
		"spec.rules[0].http.paths[0].pathType":                           {12, "spec.rules[0].http.paths[0].pathType"},
		"spec.rules[0].http.paths[0].backend.service.name":               {14, "spec.rules[0].http.paths[0].backend.serviceName"},
		"spec.rules[0].http.paths[0].backend.service.port.number":        {15, "spec.rules[0].http.paths[0].backend.servicePort"},
		"spec.rules[0].http.paths[0].backend.service":                    {13, "spec.rules[0].http.paths[0].backend"},
		"spec.defaultBackend":                                            {7, "spec.backend"},
	} {
		p := controller.Problem{Object: controller.Ref{Kind: "Ingress", Namespace: "default", Name: "a"}, Field: field}
		f.Locate(&p)
		if p.Line != want.line || p.Field != want.field || filepath.Base(p.File) != "a.yaml" {
			t.Errorf("Locate(%s) = %s:%d %s, want line %d and %s", field, p.File, p.Line, p.Field, want.line, want.field)
		}
	}
	stranger := controller.Problem{Object: controller.Ref{Kind: "Ingress", Namespace: "x", Name: "a"}}
	if f.Locate(&stranger); stranger.File != "" {
		t.Errorf("an object of no file is located in %s", stranger.File)
	}
}

func TestDocumentsBesideABrokenOneAreServed(t *testing.T) {
	f, problems := text(t, "a.yaml", configMap("a", "1")+"---\nkey: \"never closed\n---\n"+configMap("b", "1"))
	if got := values(f); got != "a=1 b=1" || strings.Count(problems, "\n") != 0 || !strings.HasPrefix(problems, "a.yaml:6: error: not YAML: a quote") {
		t.Errorf("read %q with problems %s, want a and b, and the quote on line 6", got, problems)
	}
}

func TestOfAnObjectDefinedTwiceTheFirstCounts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), configMap("x", "second"))
	write(t, filepath.Join(dir, "a.yaml"), configMap("x", "first")+"---\n"+configMap("z", "1"))
	f, problems := read(t, dir)
	want := "b.yaml:1: error: ConfigMap default/x: is defined twice, at a.yaml:1 and at b.yaml:1; the first one counts (DuplicateObject)"
	if got := values(f); got != "x=first z=1" || problems != want {
		t.Errorf("read %q with problems %s, want the first x and %s", got, problems, want)
	}
}

// kubectl reads manifests with sigs.k8s.io/yaml: what it takes for a string, a number, a boolean is taken for that here.
func TestScalarsAreReadAsKubectlReadsThem(t *testing.T) {
	for _, s := range []string{
		"y", "Y", "yes", "n", "no", "on", "ON", "off", "oN", "true", "True", "TRUE", "tRUE", "false", "~", "null", "Null", "",
		"8", "+8", "-8", "08", "010", "0o10", "0x1F", "0b11", "1_000", "1.5", "1.", ".5", "1e3", "1.10", "1.2.3", "9223372036854775808",
		"2026-01-31", "2026-01-31T12:00:00Z", "12:30", "1:2:3", "a", "a b", "\"8\"", "'true'", "!!str 8", "10.0.0.1", "=", "-", "1k", "0.0",
	} {
		want, err := sigsyaml.YAMLToJSON([]byte("k: " + s + "\n"))
		if err != nil {
			continue // a lone dash begins a list
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte("k: "+s+"\n"), &n); err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		c := &checker{schemas: make(schemas)}
		c.value(n.Content[0], reflect.TypeFor[map[string]any](), "", 1)
		if string(c.out) != string(want) {
			t.Errorf("%q is read as %s, want %s", s, c.out, want)
		}
	}
}
