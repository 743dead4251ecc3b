package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

const elsewhere = "kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: site.test, ports: [{name: http, port: 80}, {name: tls, port: 443, targetPort: 8443}, {name: dns, port: 53, protocol: UDP}]}"

// known is a Resolution with these addresses.
func known(addresses ...string) (r Resolution) {
	for _, a := range addresses {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(a))
	}
	return r
}

func TestPortOfAnExternalName(t *testing.T) {
	without := "kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: site.test}"
	problem := func(field, reason string) string {
		return "error Ingress default/a: spec.defaultBackend.service." + field + ": " + reason
	}
	for _, c := range []struct{ claim, service, port, pools, problem string }{
		{"a number needs no port of the Service", without, "number: 8080", "web:8080 192.0.2.1:8080", ""},
		{"a name needs one", without, "name: http", "", problem("port.name", "PortNotFound")},
		{"a name finds one", elsewhere, "name: http", "web:http 192.0.2.1:80", ""},
		{"a number finds one", elsewhere, "number: 80", "web:http 192.0.2.1:80", ""},
		{"whose targetPort is where to connect", elsewhere, "name: tls", "web:tls 192.0.2.1:8443", ""},
		{"a number that is only a targetPort is a number", elsewhere, "number: 8443", "web:8443 192.0.2.1:8443", ""},
		{"another name is none", elsewhere, "name: htp", "", problem("port.name", "PortNotFound")},
		{"UDP is not served", elsewhere, "name: dns", "", problem("port.name", "UnsupportedBackend")},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := everyIngress()
			s := snapshotOf(t, c.service, backendOf(c.port))
			s.SetName("site.test", known("192.0.2.1"))
			r := NewBuilder(o).Build(s)
			if got := endpointsIn(o.Pools); got != c.pools {
				t.Errorf("pools: %s, want %s", got, c.pools)
			}
			if c.problem == "" {
				wantProblems(t, r.Problems)
			} else {
				wantProblems(t, r.Problems, c.problem)
			}
		})
	}
}

func TestNamesThatLeadNowhereElse(t *testing.T) {
	for name, good := range map[string]bool{
		"site.test": true, "site.test.": true, "site": true, "a-b.c1": true, "192.0.2.1": true, "127.1": true, // a name, which does not exist
		"localhost": false, "LOCALHOST.": false, "web.localhost": false, "localhost.localdomain": false, "localhost6.localdomain6": false, "nas.localdomain": true, "ip6-localhost": false,
		"my_site.test": false, "-a.test": false, "a..b": false, "": false, "a b": false, "http://site.test": false, "site.test:80": false, strings.Repeat("a", 64) + ".test": true, // which no name server knows
		strings.Repeat("a.", 127) + "test": false,
	} {
		s := snapshotOf(t, fmt.Sprintf("kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: %q}", name), backendOf("number: 80"))
		b := NewBuilder(everyIngress())
		r := b.Build(s)
		if good {
			wantProblems(t, r.Problems)
			continue
		}
		wantProblems(t, r.Problems, "error Ingress default/a: spec.defaultBackend.service.name: UnsupportedBackend")
		if names := slices.Collect(b.Names()); len(names) != 0 {
			t.Errorf("%q is refused, and %q are followed", name, names)
		}
		if status, reason := ask(t, r, "any.test", "/"); status != 503 || reason != proxy.NoService {
			t.Errorf("%q: answered %d %s, want 503 %s", name, status, reason, proxy.NoService)
		}
	}
}

func TestAddressesThatNamesMayNotLeadTo(t *testing.T) {
	const api = `
kind: Service
metadata: {name: kubernetes}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"], ports: [{port: 443}]}
---
kind: EndpointSlice
metadata: {name: kubernetes, labels: {kubernetes.io/service-name: kubernetes}}
addressType: IPv4
ports: [{port: 6443}]
endpoints: [{addresses: [10.0.0.250]}]`
	for address, what := range map[string]string{
		"192.0.2.1": "", "10.0.0.1": "", "2001:db8::1": "", "::ffff:192.0.2.1": "", "64:ff9b::c000:201": "",
		"127.0.0.1": "this machine", "127.9.9.9": "this machine", "::1": "this machine", "::ffff:127.0.0.1": "this machine", "::127.0.0.1": "this machine", "64:ff9b::7f00:1": "this machine",
		"0.0.0.0": "no host at all", "0.1.2.3": "no host at all", "::": "no host at all",
		"169.254.169.254": "the metadata service of a cloud", "64:ff9b::a9fe:a9fe": "the metadata service of a cloud", "fd00:ec2::254": "the metadata service of a cloud", "100.100.100.200": "the metadata service of a cloud", "::ffff:100.100.100.200": "the metadata service of a cloud",
		"169.254.1.1": "a link-local address", "fe80::1": "a link-local address", "224.0.0.1": "no single host", "ff02::1": "no single host", "255.255.255.255": "no single host",
		"10.96.0.1": "the API server", "fd00::1": "the API server", "10.0.0.250": "the API server", "172.20.0.1": "the API server",
	} {
		for _, allow := range []bool{false, true} {
			o := everyIngress()
			o.AllowLoopback = true // which is about EndpointSlices of a folder, not about what name servers say
			o.APIServers = []netip.Addr{netip.MustParseAddr("172.20.0.1")}
			if allow {
				o.AllowExternalAddresses = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			}
			s := snapshotOf(t, elsewhere, api, backendOf("number: 80"))
			s.SetName("site.test", known(address, "192.0.2.99"))
			r := NewBuilder(o).Build(s)
			both := netip.AddrPortFrom(netip.MustParseAddr(address).Unmap(), 80).String() + " 192.0.2.99:80"
			if what == "" || allow {
				wantProblems(t, r.Problems)
				if got := endpointsIn(o.Pools); got != "web:http "+both {
					t.Errorf("%s, allowed %v: pools are %s, want both addresses", address, allow, got)
				}
				continue
			}
			wantProblems(t, r.Problems, "error Service default/web: spec.externalName: AddressRefused")
			if len(r.Problems) == 1 && !strings.Contains(r.Problems[0].Message, what) {
				t.Errorf("%s: told %q, want %q in it", address, r.Problems[0].Message, what)
			}
			if got := endpointsIn(o.Pools); got != "web:http 192.0.2.99:80" {
				t.Errorf("%s: pools are %s, want it left out", address, got)
			}
		}
	}
}

func TestExternalAddressIsTakenAsItStands(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1": "web:80 192.0.2.1:80", "169.254.169.254": "web:80"} {
		o := everyIngress()
		b := NewBuilder(o)
		r := b.Build(snapshotOf(t, "kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: "+address+"}", backendOf("number: 80")))
		if got := endpointsIn(o.Pools); got != want {
			t.Errorf("%s: pools are %s, want %s", address, got, want)
		}
		if refused := len(r.Problems) > 0; refused != (want == "web:80") {
			t.Errorf("%s: problems: %v", address, r.Problems)
		}
		if names := slices.Collect(b.Names()); len(names) != 0 {
			t.Errorf("%q are followed, want none", names)
		}
	}
}

func TestNameChangesThePoolAndNothingElse(t *testing.T) {
	o := everyIngress()
	b := NewBuilder(o)
	s := snapshotOf(t, elsewhere, backendOf("number: 80"))
	r := b.Build(s)
	wantProblems(t, r.Problems)
	if got := slices.Collect(b.Names()); !slices.Equal(got, []string{"site.test"}) {
		t.Fatalf("followed is %q", got)
	}
	table := r.Table
	for _, c := range []struct {
		now     Resolution
		pools   string
		problem string // severity; empty: none
	}{
		{known("192.0.2.1", "2001:db8::1"), "web:http 192.0.2.1:80 [2001:db8::1]:80", ""},
		{known("192.0.2.2"), "web:http 192.0.2.2:80", ""},
		{Resolution{Addresses: known("192.0.2.2").Addresses, Fault: "10.96.0.10 does not answer"}, "web:http 192.0.2.2:80", "warning"},
		{known("192.0.2.2"), "web:http 192.0.2.2:80", ""},
		{Resolution{Fault: "there is no such name"}, "web:http", "error"},
	} {
		if !s.SetName("site.test", c.now) || s.SetName("site.test", c.now) {
			t.Errorf("%v: it is another thing the first time, and the same the second", c.now)
		}
		r = b.Build(s)
		if r.TableChanged || r.Table != table {
			t.Errorf("%v: the table is another", c.now)
		}
		if got := endpointsIn(o.Pools); got != c.pools {
			t.Errorf("%v: pools are %s, want %s", c.now, got, c.pools)
		}
		if c.problem == "" {
			wantProblems(t, r.Problems)
		} else {
			wantProblems(t, r.Problems, c.problem+" Service default/web: spec.externalName: NameNotResolved")
		}
	}
	if status, reason := ask(t, r, "any.test", "/"); status != 503 || reason != proxy.NoEndpoints {
		t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoEndpoints)
	}
}

func TestPoolKeepsItsAddressesUntilANewNameIsKnown(t *testing.T) {
	o := everyIngress()
	b := NewBuilder(o)
	s := snapshotOf(t, elsewhere, backendOf("number: 80"))
	s.SetName("site.test", known("192.0.2.1"))
	b.Build(s)
	s.Set(objects(t, strings.ReplaceAll(elsewhere, "site.test", "other.test"))[0])
	b.Build(s)
	if got := slices.Collect(b.Names()); !slices.Equal(got, []string{"other.test"}) {
		t.Errorf("followed is %q, want the new name alone", got)
	}
	if got := endpointsIn(o.Pools); got != "web:http 192.0.2.1:80" {
		t.Errorf("while nothing is known of the new name, pools are %s", got)
	}
	s.SetName("other.test", known("192.0.2.2"))
	b.Build(s)
	if got := endpointsIn(o.Pools); got != "web:http 192.0.2.2:80" {
		t.Errorf("once it is known, pools are %s", got)
	}
	s.Delete(Ref{"Ingress", "default", "a"})
	b.Build(s)
	if got := slices.Collect(b.Names()); len(got) != 0 {
		t.Errorf("nobody leads there any more, and %q are followed", got)
	}
}

func TestExternalNamesCanBeTurnedOff(t *testing.T) {
	o := everyIngress()
	o.DisableExternalName = true
	b := NewBuilder(o)
	s := snapshotOf(t, elsewhere, backendOf("number: 80"))
	s.SetName("site.test", known("192.0.2.1"))
	r := b.Build(s)
	wantProblems(t, r.Problems, "error Ingress default/a: spec.defaultBackend.service.name: UnsupportedBackend")
	if status, reason := ask(t, r, "any.test", "/"); status != 503 || reason != proxy.NoService {
		t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoService)
	}
	if names := slices.Collect(b.Names()); len(names) != 0 {
		t.Errorf("%q are followed", names)
	}
}

func TestExternalNameCanBeTheDefaultBackend(t *testing.T) {
	o := everyIngress()
	o.DefaultBackend = Key{"default", "web"}
	b := NewBuilder(o)
	s := snapshotOf(t, elsewhere)
	s.SetName("site.test", known("192.0.2.1"))
	wantProblems(t, b.Build(s).Problems)
	if got := endpointsIn(o.Pools); got != "web:http 192.0.2.1:80" {
		t.Errorf("pools are %s", got)
	}
}
