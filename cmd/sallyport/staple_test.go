package main

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

// TestOCSPServersAreNoPlaceOfOurs holds that a certificate cannot have this process talk to what an ExternalName Service could
// not lead to either.
func TestOCSPServersAreNoPlaceOfOurs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	here := listener.Addr().String()
	options := controller.Options{APIServers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	builder := controller.NewBuilder(options)
	known := new(controller.Snapshot)
	known.Set(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "192.0.2.2"}})
	builder.Build(known)
	for address, want := range map[string]string{
		here: "this machine",
		"localhost" + here[strings.LastIndexByte(here, ':'):]: "this machine",
		"[::ffff:127.0.0.1]:80":                               "this machine",
		"0.0.0.0:80":                                          "no host at all",
		"169.254.169.254":                                     "the metadata service of a cloud",
		"100.100.100.200":                                     "the metadata service of a cloud",
		"[fd00:ec2::254]":                                     "the metadata service of a cloud",
		"169.254.1.1":                                         "a link-local address",
		"[64:ff9b::169.254.169.254]":                          "the metadata service of a cloud",
		"192.0.2.1:443":                                       "the API server",
		"192.0.2.2:443":                                       "the API server",
	} {
		answer, err := stapleClient(builder.RefuseAddress).Get("http://" + address)
		if err == nil {
			answer.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), " is "+want) {
			t.Errorf("an OCSP server at %s: %v, want it refused because that is %s", address, err, want)
		}
	}
	options.AllowExternalAddresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	answer, err := stapleClient(controller.NewBuilder(options).RefuseAddress).Get("http://" + here)
	if err != nil {
		t.Fatalf("an address that is allowed: %v", err)
	}
	answer.Body.Close()
}
