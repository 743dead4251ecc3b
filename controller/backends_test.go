package controller

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

func TestEndpointsAreSpokenToAsTheServicePortSays(t *testing.T) {
	for _, c := range []struct {
		appProtocol string
		annotation  string // backend-protocol
		want        upstream.Protocol
		unknown     bool
	}{
		{"", "", upstream.HTTP, false},
		{"http", "", upstream.HTTP, false},
		{"https", "", upstream.HTTPS, false},
		{"HTTPS", "", upstream.HTTPS, false},
		{"kubernetes.io/h2c", "", upstream.GRPC, false},
		{"kubernetes.io/ws", "", upstream.HTTP, false},
		{"kubernetes.io/wss", "", upstream.HTTPS, false},
		{"grpc", "", upstream.GRPC, false},
		{"mysql", "", upstream.HTTP, true},
		{"mysql", "HTTPS", upstream.HTTPS, false},
		{"grpc", "HTTP", upstream.HTTP, false},
		{"https", "GRPC", upstream.GRPC, false},
	} {
		service := "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, appProtocol: " + c.appProtocol + "}]}"
		slice := "kind: EndpointSlice\nmetadata: {name: s, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [10.0.0.1]}]"
		s := snapshotOf(t, service, slice, backendOf("number: 80"))
		ingress := s.Ingress(Key{"default", "a"})
		if c.annotation != "" {
			ingress.Annotations = map[string]string{"nginx.ingress.kubernetes.io/backend-protocol": c.annotation}
		}
		b := NewBuilder(everyIngress())
		r := b.Build(s)
		if got := b.hosts[""].fallback.protocol; got != c.want {
			t.Errorf("appProtocol %q, backend-protocol %q: protocol %d, want %d", c.appProtocol, c.annotation, got, c.want)
		}
		if c.unknown {
			wantProblems(t, r.Problems, "warning Ingress default/a: spec.defaultBackend.service.port.number: UnknownProtocol")
		} else {
			wantProblems(t, r.Problems)
		}
	}
}

func TestRouteIsMadeAnewWhenItsServiceSpeaksAnotherProtocol(t *testing.T) {
	s := snapshotOf(t, webService, backendOf("number: 80"))
	b := NewBuilder(everyIngress())
	b.Build(s)
	service := s.Service(Key{"default", "web"}).DeepCopy()
	grpc := "grpc"
	service.Spec.Ports[0].AppProtocol = &grpc
	s.Set(service)
	if r := b.Build(s); !r.TableChanged || b.hosts[""].fallback.protocol != upstream.GRPC {
		t.Errorf("table changed: %v, protocol: %d; want true and %d", r.TableChanged, b.hosts[""].fallback.protocol, upstream.GRPC)
	}
}

func TestChecksSpeakWhatRequestsDo(t *testing.T) {
	for _, c := range []struct {
		appProtocol, annotation string // backend-protocol
		want                    upstream.Protocol
		plain                   bool
	}{
		{"https", "", upstream.HTTPS, false},
		{"https", "GRPC", upstream.GRPC, false},
		{"grpc", "", upstream.GRPC, false},
		{"kubernetes.io/h2c", "", upstream.GRPC, true},
		{"kubernetes.io/h2c", "GRPC", upstream.GRPC, false},
	} {
		s := snapshotOf(t, "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, appProtocol: "+c.appProtocol+"}]}", backendOf("number: 80"))
		annotations := map[string]string{"nginx.ingress.kubernetes.io/health-check-path": "/"}
		if c.annotation != "" {
			annotations["nginx.ingress.kubernetes.io/backend-protocol"] = c.annotation
		}
		s.Ingress(Key{"default", "a"}).Annotations = annotations
		b := NewBuilder(everyIngress())
		b.Build(s)
		check := b.serviceOptions(poolID(Key{"default", "web"}, "80"), new(pooled)).Check
		if check.Path != "/" || check.Protocol != c.want || check.Plain != c.plain {
			t.Errorf("appProtocol %q, backend-protocol %q: checks of %q speak %d, plain %v; want %d, %v",
				c.appProtocol, c.annotation, check.Path, check.Protocol, check.Plain, c.want, c.plain)
		}
	}
}

// TestServiceOfErrorPagesIsNoServiceOfTheIngress: what the Ingress says of its Services is not said of the one that an
// annotation names, and does not have the Ingress be translated again and again.
func TestServiceOfErrorPagesIsNoServiceOfTheIngress(t *testing.T) {
	service := func(name string) string {
		return "kind: Service\nmetadata: {name: " + name + "}\nspec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}"
	}
	s := snapshotOf(t, service("web"), service("errors"), backendOf("number: 80"))
	ingress := s.Ingress(Key{"default", "a"})
	ingress.Annotations = map[string]string{}
	for name, value := range map[string]string{"health-check-path": "/hz", "default-backend": "errors", "service-upstream": "true"} {
		ingress.Annotations["nginx.ingress.kubernetes.io/"+name] = value
	}
	b := NewBuilder(everyIngress())
	b.Build(s)
	if asked := b.serviceOptions(poolID(Key{"default", "web"}, "80"+throughMark), new(pooled)); asked.Check.Path != "/hz" {
		t.Errorf("of the Service of the Ingress is asked %+v, want /hz", asked.Check)
	}
	if asked := b.serviceOptions(poolID(Key{"default", "errors"}, "80"), new(pooled)); asked != (upstream.ServiceOptions{}) {
		t.Errorf("of the Service of error pages is asked %+v, want nothing", asked.Check)
	}
	s.Set(ingress.DeepCopy())
	if r := b.Build(s); r.TableChanged {
		t.Error("the same Ingress made another table")
	}
}

// TestDefaultBackendOfTheProcessIsSpokenToAsItsPortSays has one that knows HTTP/2 alone.
func TestDefaultBackendOfTheProcessIsSpokenToAsItsPortSays(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	o := everyIngress()
	o.DefaultBackend, o.AllowLoopback = Key{"default", "web"}, true
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s := snapshotOf(t, "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}",
		"kind: EndpointSlice\nmetadata: {name: s, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: "+port+"}]\nendpoints: [{addresses: [127.0.0.1]}]")
	b := NewBuilder(o)
	b.Build(s)
	defer o.Pools.Forget(poolID(o.DefaultBackend, "80"))
	w := httptest.NewRecorder()
	e := &proxy.Exchange{ID: "test", Scheme: "http", Path: "/", Target: "/"}
	b.unrouted.ServeHTTP(w, proxy.With(httptest.NewRequest("GET", "/", nil), e))
	if w.Code != 200 || w.Body.String() != "HTTP/2.0" {
		t.Errorf("status %d, %q, reason %q; want 200 over HTTP/2.0", w.Code, w.Body, e.Reason)
	}
}

// TestServiceUpstreamLeadsToTheServiceItself is about where it leads; that an annotation asks for it is a script in e2e.
func TestServiceUpstreamLeadsToTheServiceItself(t *testing.T) {
	const service = "kind: Service\nmetadata: {name: web}\nspec: {clusterIP: %, ports: [{name: http, port: 80, targetPort: 8080}]}"
	web := Key{"default", "web"}
	external := "kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: site.test, ports: [{name: http, port: 80}]}"
	for _, c := range []struct {
		claim, service string
		mapped         bool
		want           string // port of the pool and its only endpoint; empty: the usual pool
		told           bool
	}{
		{"an address", "10.96.0.7", false, "http@service 10.96.0.7:80", false},
		{"of IPv6", "'fd00::7'", false, "http@service [fd00::7]:80", false},
		{"none, as in a folder", "''", false, "", true},
		{"none, headless", "None", false, "", true},
		{"one that is this machine", "127.0.0.1", false, "", true},
		{"--map says where", "10.96.0.7", true, "", false},
		{"a name", "", false, "", true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := everyIngress()
			if c.mapped {
				o.Map = map[MapKey][]netip.AddrPort{{web, "80"}: {netip.MustParseAddrPort("127.0.0.1:3000")}}
			}
			text := external
			if c.service != "" {
				text = service[:len("kind: Service\nmetadata: {name: web}\nspec: {clusterIP: ")] + c.service + service[len("kind: Service\nmetadata: {name: web}\nspec: {clusterIP: %"):]
			}
			s := snapshotOf(t, text)
			usual := target{id: poolID(web, "http")}
			got := o.through(s, usual)
			if (got.reason != "") != c.told {
				t.Errorf("told: %s %s", got.reason, got.message)
			}
			if c.want == "" {
				if got.id != usual.id {
					t.Errorf("it leads to %v, want the usual pool", got.id)
				}
				return
			}
			all, problems, _ := o.endpointsOf(s, got.id)
			if len(all) != 1 || len(problems) != 0 || got.id.Port+" "+all[0].String() != c.want {
				t.Errorf("it leads to %v with %v (%v), want %s", got.id, all, problems, c.want)
			}
		})
	}
}
