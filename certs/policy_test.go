package certs

import (
	"crypto/tls"
	"testing"
)

func host(policy *Policy, owner string, pairs ...*tls.Certificate) *Host {
	return &Host{Pairs: pairs, Policy: policy, Owner: owner}
}

func TestAConnectionIsGoodForHostsOfTheSamePolicy(t *testing.T) {
	a, b := pairFor(t, "a.test"), pairFor(t, "b.test")
	asking := func(id string) *Policy {
		return NewPolicy(&Clients{ID: id, Auth: tls.RequestClientCert}, nil)
	}
	var store Store
	store.Set(Certificates{Default: pairFor(t, "default.test"), ByHost: map[string]*Host{
		"a.test": host(nil, "one", a), "twin.test": host(nil, "one", b), "b.test": host(nil, "two", b), "nil.test": nil,
		"mtls.test": host(asking("ca"), "one", a), "mtls-too.test": host(asking("ca"), "one", a), "mtls-other.test": host(asking("cb"), "one", a),
		"*.mtls.test": host(asking("wild"), "one", a), "open.mtls.test": host(nil, "one", a), "copy.test": host(nil, "three", a),
		"few.test": host(NewPolicy(nil, Suites[:1]), "one", a),
	}})
	for _, c := range []struct {
		server, host string
		want         bool
	}{
		{"a.test", "a.test", true},
		{"A.Test", "a.test", true},
		{"a.test", "twin.test", true},
		{"a.test", "b.test", false}, // what is another owner's
		{"a.test", "copy.test", true},
		{"a.test", "none.test", true},
		{"a.test", "", true},
		{"a.test", "nil.test", true},
		{"", "a.test", true},
		{"none.test", "b.test", true},
		{"", "mtls.test", false},
		{"none.test", "mtls.test", false},
		{"a.test", "mtls.test", false},
		{"mtls.test", "a.test", false},
		{"mtls.test", "none.test", false},
		{"mtls.test", "", false},
		{"mtls.test", "mtls.test", true},
		{"MTLS.TEST", "mtls.test", true},
		{"mtls.test", "mtls-too.test", true},
		{"mtls.test", "mtls-other.test", false},
		{"x.mtls.test", "y.mtls.test", true},
		{"x.mtls.test", "mtls.test", false},
		{"x.mtls.test", "open.mtls.test", false},
		{"open.mtls.test", "x.mtls.test", false},
		{"*.mtls.test", "x.mtls.test", false}, // no name to ask for
		{"x.y.mtls.test", "x.mtls.test", false},
		{"few.test", "a.test", false},
		{"a.test", "few.test", false},
	} {
		_, met, err := store.Handshake(&tls.ClientHelloInfo{ServerName: c.server})
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Admits(met, c.host); got != c.want {
			t.Errorf("a request for %q after a handshake for %q: admitted %v, want %v", c.host, c.server, got, c.want)
		}
	}
}

func TestWhatAHostIsHeldToNowCounts(t *testing.T) {
	pair := pairFor(t, "a.test")
	policy := func(id string) *Policy { return NewPolicy(&Clients{ID: id, Auth: tls.RequestClientCert}, nil) }
	var store Store
	set := func(p *Policy) { store.Set(Certificates{ByHost: map[string]*Host{"a.test": host(p, "one", pair)}}) }
	set(policy("ca"))
	_, met, err := store.Handshake(&tls.ClientHelloInfo{ServerName: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  *Policy
		want bool
	}{{policy("ca"), true}, {policy("other"), false}, {nil, false}, {policy(""), false}, {policy("ca"), true}} {
		set(c.now)
		if got := store.Admits(met, "a.test"); got != c.want {
			t.Errorf("policy %v: admitted %v, want %v", c.now, got, c.want)
		}
	}
}

func TestAConfigurationIsMadeOnceAPolicy(t *testing.T) {
	pair := pairFor(t, "a.test")
	policy := func() *Policy { return NewPolicy(&Clients{ID: "ca", Auth: tls.RequestClientCert}, nil) }
	var store Store
	certificates := Certificates{ByHost: map[string]*Host{"a.test": host(policy(), "one", pair), "b.test": host(policy(), "two", pair), "c.test": host(nil, "one", pair)}}
	store.Set(certificates)
	config := func(name string) *tls.Config {
		got, err := store.GetConfigForClient(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a := config("a.test")
	if a != config("b.test") || a == config("c.test") || config("c.test") != config("") {
		t.Error("hosts of one policy have several configurations, or those of several have one")
	}
	if a.ClientAuth != tls.RequestClientCert || config("c.test").ClientAuth != tls.NoClientCert {
		t.Error("the policy is not in its configuration, or in another's")
	}
	store.Set(certificates)
	if config("a.test") != a {
		t.Error("the same certificates again made another configuration")
	}
	certificates.Protocol.Min = tls.VersionTLS13
	store.Set(certificates)
	if again := config("a.test"); again == a || again.MinVersion != tls.VersionTLS13 {
		t.Error("another protocol made no other configuration")
	}
	hello := &tls.ClientHelloInfo{ServerName: "a.test"}
	if n := testing.AllocsPerRun(1000, func() { store.Handshake(hello) }); n != 0 {
		t.Errorf("finding it takes %v allocations, want none", n)
	}
	_, met, _ := store.Handshake(hello)
	if n := testing.AllocsPerRun(1000, func() { store.Admits(met, "b.test") }); n != 0 {
		t.Errorf("comparing takes %v allocations, want none", n)
	}
}

func TestPoliciesThatNobodyHasAreForgotten(t *testing.T) {
	pair := pairFor(t, "a.test")
	var store Store
	for _, id := range []string{"one", "two", "three", "four"} {
		store.Set(Certificates{ByHost: map[string]*Host{"a.test": host(NewPolicy(&Clients{ID: id}, nil), "", pair)}})
		if _, err := store.GetConfigForClient(&tls.ClientHelloInfo{ServerName: "a.test"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(store.configs.current.Load().byID); n != 1 {
		t.Errorf("%d configurations are kept, want that of the policy in use", n)
	}
}

// resume makes two handshakes with one session cache, for two server names, and reports whether the second resumed.
func resume(t *testing.T, address, first, second string) bool {
	t.Helper()
	cache := tls.NewLRUClientSessionCache(1)
	resumed := false
	for _, name := range []string{first, second} {
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true, ClientSessionCache: oneSession{cache}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // which reads the ticket
			t.Fatal(err)
		}
		resumed = c.ConnectionState().DidResume
		c.Close()
	}
	return resumed
}

// oneSession is a cache that keeps a session whatever it was for.
type oneSession struct{ cache tls.ClientSessionCache }

func (o oneSession) Get(string) (*tls.ClientSessionState, bool)    { return o.cache.Get("") }
func (o oneSession) Put(_ string, session *tls.ClientSessionState) { o.cache.Put("", session) }

func TestASessionIsResumedWithinItsPolicyOnly(t *testing.T) {
	pair := pairFor(t, "a.test", "b.test", "mtls.test")
	ask := NewPolicy(&Clients{ID: "ca", Auth: tls.RequestClientCert}, nil)
	var store Store
	store.Set(Certificates{ByHost: map[string]*Host{
		"a.test": host(nil, "", pair), "b.test": host(nil, "", pair), "few.test": host(NewPolicy(nil, Suites[1:]), "", pair),
		"mtls.test": host(ask, "", pair), "mtls-too.test": host(ask, "", pair), "other.test": host(NewPolicy(&Clients{ID: "cb", Auth: tls.RequestClientCert}, nil), "", pair),
	}})
	address := listen(t, &store)
	for _, c := range []struct {
		first, second string
		want          bool
	}{
		{"a.test", "a.test", true},
		{"a.test", "b.test", true},
		{"a.test", "mtls.test", false},
		{"mtls.test", "mtls.test", true},
		{"mtls.test", "mtls-too.test", true},
		{"mtls.test", "a.test", false},
		{"mtls.test", "other.test", false},
		{"a.test", "few.test", false},
	} {
		if got := resume(t, address, c.first, c.second); got != c.want {
			t.Errorf("a session of %s at %s: resumed %v, want %v", c.first, c.second, got, c.want)
		}
	}
}

func TestTheCertificateIsOfAKindThatTheClientCanCheck(t *testing.T) {
	ecdsa, rsa := pairFor(t, "a.test"), rsaPairFor(t, "a.test")
	var store Store
	store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: Best([]*tls.Certificate{rsa, ecdsa})}}})
	address := listen(t, &store)
	for _, c := range []struct {
		suite uint16
		want  *tls.Certificate
	}{{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, rsa}, {tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, ecdsa}} {
		conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{c.suite}})
		if err != nil {
			t.Errorf("%s: %v", tls.CipherSuiteName(c.suite), err)
			continue
		}
		if got := conn.ConnectionState().PeerCertificates[0]; !got.Equal(c.want.Leaf) {
			t.Errorf("%s got the %v certificate", tls.CipherSuiteName(c.suite), got.PublicKeyAlgorithm)
		}
		conn.Close()
	}
	if got := handshake(t, address, "a.test").ConnectionState().PeerCertificates[0]; !got.Equal(ecdsa.Leaf) {
		t.Errorf("a client that checks both got the %v certificate, want the ECDSA one", got.PublicKeyAlgorithm)
	}
}

func TestNamesThatAreNobodysAreRefusedWhereThatIsAsked(t *testing.T) {
	var store Store
	store.Set(Certificates{
		ByHost:   map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pairFor(t, "a.test")}}, "nil.test": nil},
		Protocol: Protocol{Reject: true}, Known: func(name string) bool { return name == "plain.test" },
	})
	address := listen(t, &store)
	for name, want := range map[string]bool{"a.test": true, "A.TEST": true, "nil.test": true, "plain.test": true, "b.test": false, "": false, "*.a.test": false} {
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if (err == nil) != want {
			t.Errorf("server name %q: %v, want a handshake: %v", name, err, want)
		}
		if err != nil && err.Error() != "remote error: tls: unrecognized name" {
			t.Errorf("server name %q: %v, want the alert for an unrecognized name", name, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
