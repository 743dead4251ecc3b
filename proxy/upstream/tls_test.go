package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
)

// tlsQuick are quick options for endpoints that speak TLS.
func tlsQuick(p Protocol, config *tls.Config) Options {
	o := quick
	o.Protocol, o.TLS, o.ConnectTimeout = p, config, 5*time.Second // a handshake takes its time on a busy machine
	return o
}

// named sets what endpoints are told.
func named(host string, last http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.From(r).UpstreamHost = host
		last.ServeHTTP(w, r)
	})
}

func TestServerNameIsTheHostIfItCanBeOne(t *testing.T) {
	names := make(chan string, 1)
	config, _ := identity(t)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil
	}
	addr := secured(t, config, answers(ok2))
	for host, want := range map[string]string{
		"a.test": "a.test", "a.test:8443": "a.test", "under_score.test": "under_score.test",
		"10.0.0.1": "", "10.0.0.1:80": "", "[::1]:80": "", "a..test": "",
	} {
		f := front(t, 1, named(host, New(poolOf(t, addr), tlsQuick(HTTPS, nil))))
		f.get(t, "/")
		if name := <-names; name != want {
			t.Errorf("host %q: server name %q, want %q", host, name, want)
		}
	}
}

func TestCertificateIsVerifiedOnlyWhereItIsAskedFor(t *testing.T) {
	config, roots := identity(t)
	addr := secured(t, config, answers(ok2))
	for _, c := range []struct {
		name   string
		config *tls.Config
		host   string
		status int
	}{
		{"not asked for", nil, "other.test", 200},
		{"trusted", &tls.Config{RootCAs: roots}, "example.com", 200},
		{"trusted address", &tls.Config{RootCAs: roots}, "127.0.0.1:80", 200},
		{"trusted name of the configuration", &tls.Config{RootCAs: roots, ServerName: "example.com"}, "other.test", 200},
		{"another name", &tls.Config{RootCAs: roots}, "other.test", 502},
		{"no name at all", &tls.Config{RootCAs: roots}, "a..test", 502},
		{"unknown authority", &tls.Config{}, "example.com", 502},
		{"version", &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}, "example.com", 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := front(t, 1, named(c.host, New(poolOf(t, addr), tlsQuick(HTTPS, c.config))))
			got, e := f.get(t, "/"), f.exchange(t)
			if got.StatusCode != c.status || (e.Reason == proxy.UpstreamTLS) != (c.status == 502) || len(e.Attempts) != 1 {
				t.Errorf("status %d, reason %q, %d attempts; want %d after one", got.StatusCode, e.Reason, len(e.Attempts), c.status)
			}
		})
	}
}

func TestConnectionsOverTLSAreReused(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			config, _ := identity(t)
			config.MaxVersion = version
			f := front(t, 1, New(poolOf(t, secured(t, config, answers(ok2))), tlsQuick(HTTPS, nil)))
			for i := range 3 {
				got := f.do(t, f.request(t, "POST", "/", strings.NewReader("body")))
				if e := f.exchange(t); got.text != "ok" || e.Attempts[0].Reused != (i > 0) {
					t.Errorf("request %d: %q, reused %v", i, got.text, e.Attempts[0].Reused)
				}
			}
		})
	}
}

// TestConnectionsAreNotSharedAcrossLines: neither what is in the clear and what is not, nor what was made with another
// certificate or for another name.
func TestConnectionsAreNotSharedAcrossLines(t *testing.T) {
	config, _ := identity(t)
	pool := poolOf(t, secured(t, config, answers(ok2)))
	mine, others := &tls.Config{InsecureSkipVerify: true}, &tls.Config{InsecureSkipVerify: true}
	for i, c := range []struct {
		options Options
		host    string
		reused  bool
	}{
		{tlsQuick(HTTPS, mine), "a.test", false},
		{tlsQuick(HTTPS, others), "a.test", false},
		{tlsQuick(HTTPS, mine), "b.test", false},
		{tlsQuick(HTTPS, nil), "a.test", false},
		{tlsQuick(HTTP, nil), "a.test", false},
		{tlsQuick(HTTPS, mine), "a.test", true},
		{tlsQuick(HTTPS, mine), "a.test:443", true},
		{tlsQuick(HTTPS, nil), "a.test", true},
	} {
		f := front(t, 1, named(c.host, New(pool, c.options)))
		f.get(t, "/")
		if e := f.exchange(t); e.Attempts[0].Reused != c.reused {
			t.Errorf("request %d: reused %v, want %v", i, e.Attempts[0].Reused, c.reused)
		}
	}
}

// TestUnaskedAnswerOverTLSReachesNobody: TLS has read it already, or has it in the socket.
func TestUnaskedAnswerOverTLSReachesNobody(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	config, _ := identity(t)
	for name, send := range map[string]func(*session){
		"one record":  func(s *session) { s.send(ok2 + evil) },
		"two records": func(s *session) { s.send(ok2); s.send(evil) },
	} {
		t.Run(name, func(t *testing.T) {
			pool := poolOf(t, secured(t, config, func(s *session) {
				s.head()
				send(s)
				s.hang()
			}))
			f := front(t, 1, New(pool, tlsQuick(HTTPS, nil)))
			f.get(t, "/")
			f.exchange(t)
			if len(pool.members()[0].idle) > 0 {
				awaitUnquiet(t, pool.members()[0])
			}
			if got, e := f.get(t, "/"), f.exchange(t); got.text != "ok" || e.Attempts[0].Reused {
				t.Errorf("got %q, reused %v; want ok over a new connection", got.text, e.Attempts[0].Reused)
			}
		})
	}
}

func TestAutoHTTPFollowsTheClient(t *testing.T) {
	config, _ := identity(t)
	for scheme, addr := range map[string]*Pool{
		"http": poolOf(t, endpoint(t, answers(ok2))), "https": poolOf(t, secured(t, config, answers(ok2))), "": poolOf(t, endpoint(t, answers(ok2))),
	} {
		last := New(addr, tlsQuick(AutoHTTP, nil))
		f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxy.From(r).Scheme = scheme
			last.ServeHTTP(w, r)
		}))
		if got := f.get(t, "/"); got.text != "ok" {
			t.Errorf("scheme %q: status %d %q, want ok", scheme, got.StatusCode, got.text)
		}
	}
}

func TestHandshakeThatIsNotAnsweredIs504(t *testing.T) {
	o := tlsQuick(HTTPS, nil)
	o.Tries, o.ConnectTimeout = 1, quick.ConnectTimeout
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) { s.hang() })), o))
	begun := time.Now()
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 504 || e.Reason != proxy.ConnectTimeout || time.Since(begun) > 5*quick.ConnectTimeout {
		t.Errorf("status %d, reason %q after %v; want 504, connect_timeout", got.StatusCode, e.Reason, time.Since(begun))
	}
}

func TestEndpointThatSpeaksNoTLSIs502(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers("HTTP/1.1 400 Bad Request\r\n\r\n"))), tlsQuick(HTTPS, nil)))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 502 || e.Reason != proxy.UpstreamTLS {
		t.Errorf("status %d, reason %q; want 502, upstream_tls", got.StatusCode, e.Reason)
	}
}

func TestStallsOverTLSAreNoticed(t *testing.T) {
	config, _ := identity(t)
	for name, c := range map[string]struct {
		script func(*session)
		method string
		body   io.Reader
		status int
		reason proxy.Reason
	}{
		"no answer":   {stall(""), "POST", nil, 504, proxy.HeaderTimeout},
		"half a head": {stall("HTTP/1.1 200"), "GET", nil, 504, proxy.HeaderTimeout},
		"half a body": {stall("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx"), "GET", nil, 200, proxy.ReadTimeout},
		"no reading":  {func(s *session) { s.head(); <-s.done }, "POST", io.LimitReader(zeros{}, 64<<20), 504, proxy.SendTimeout},
		"half closed": {once("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx"), "GET", nil, 200, proxy.UpstreamReset},
	} {
		t.Run(name, func(t *testing.T) {
			f := front(t, 1, New(poolOf(t, secured(t, config, c.script)), tlsQuick(HTTPS, nil)))
			got, e := f.do(t, f.request(t, c.method, "/", c.body)), f.exchange(t)
			if got.StatusCode != c.status || e.Reason != c.reason {
				t.Errorf("status %d, reason %q; want %d, %q", got.StatusCode, e.Reason, c.status, c.reason)
			}
		})
	}
}

func TestSlowAnswerOverTLSIsWhole(t *testing.T) {
	config, _ := identity(t)
	f := front(t, 1, New(poolOf(t, secured(t, config, func(s *session) {
		s.head()
		for _, piece := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "one", "two"} {
			<-time.After(4 * patience) // past the deadline of a first read
			s.send(piece)
		}
		s.hang()
	})), tlsQuick(HTTPS, nil)))
	if got := f.get(t, "/"); got.text != "onetwo" || got.err != nil {
		t.Errorf("got %q, %v; want onetwo", got.text, got.err)
	}
}

func TestWebSocketPassesOverTLS(t *testing.T) {
	config, _ := identity(t)
	f := front(t, 1, New(poolOf(t, secured(t, config, func(s *session) {
		s.head()
		s.send(accepted)
		io.Copy(s.Conn, s.in)
		s.Conn.(*tls.Conn).CloseWrite()
	})), Options{Protocol: HTTPS}))
	c, in := f.raw(t, handshake)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v; want 101", res, err)
	}
	io.WriteString(c, "through the tunnel")
	c.CloseWrite()
	if b, err := io.ReadAll(in); string(b) != "through the tunnel" || err != nil {
		t.Errorf("got %q, %v; want what was sent and the end", b, err)
	}
}

// TestANameThatAClientChoseSpoilsNoEndpoint: below a wildcard anybody may ask for names that an endpoint does not know.
func TestANameThatAClientChoseSpoilsNoEndpoint(t *testing.T) {
	config, roots := identity(t)
	trusting := &tls.Config{RootCAs: roots}
	for _, c := range []struct {
		name   string
		config *tls.Config
		spoils bool
	}{
		{"of the client's choice", trusting, false},
		{"of the route's", &tls.Config{RootCAs: roots, ServerName: "other.test"}, true},
	} {
		for _, protocol := range []Protocol{HTTPS, GRPCS} {
			pool := poolOf(t, secured(t, config, answers(ok2)), secured(t, config, answers(ok2)))
			f := front(t, 1, named("other.test", New(pool, tlsQuick(protocol, c.config))))
			for range 2 * unconnectedInARow {
				f.get(t, "/")
				if e := f.exchange(t); e.Reason != proxy.UpstreamTLS || e.Attempts[0].TLS == "" {
					t.Fatalf("%s, %v: reason %q, %q; want upstream_tls and what is wrong", c.name, protocol, e.Reason, e.Attempts[0].TLS)
				}
			}
			aside := 0
			for _, e := range pool.members() {
				if e.isAside() {
					aside++
				}
			}
			if (aside > 0) != c.spoils {
				t.Errorf("%s, %v: %d endpoints are left out", c.name, protocol, aside)
			}
		}
	}
}

// TestAHandshakeThatFailsIsItsOwnNames: those who wait to share a connection share the failure to make it, and no other.
func TestAHandshakeThatFailsIsItsOwnNames(t *testing.T) {
	var m muxes
	begun := time.Now()
	mine, others := line{config: unverified, name: "a.test"}, line{config: unverified, name: "b.test"}
	refused := &fault{502, proxy.UpstreamTLS, handshakeError{errors.New("tls: unrecognized name")}}
	away := &fault{502, proxy.ConnectFailed, errors.New("no route to host")}
	for _, f := range []*fault{refused, away} {
		m.noteFailure(f, others)
		if got := m.failedSince(begun.Add(-time.Second), others); got != f {
			t.Errorf("%v: %v for the same line", f, got)
		}
		if got := m.failedSince(begun.Add(-time.Second), mine); (got == f) != (f == away) {
			t.Errorf("%v: %v for another line", f, got)
		}
	}
}

func TestNamesWithoutEndAreNotConnectionsWithoutEnd(t *testing.T) {
	config, _ := identity(t)
	for protocol, addr := range map[Protocol]netip.AddrPort{
		HTTPS: secured(t, config, answers(ok2)),
		GRPCS: h2server(t, config, func(w http.ResponseWriter, r *http.Request) {}),
	} {
		pool := poolOf(t, addr)
		transport := New(pool, tlsQuick(protocol, nil))
		f := front(t, 2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxy.From(r).UpstreamHost = r.URL.Path[1:]
			transport.ServeHTTP(w, r)
		}))
		for i := range maxMixed + 8 {
			if got := f.get(t, fmt.Sprintf("/n%d.test", i)); got.StatusCode != 200 {
				t.Fatalf("%v, request %d: status %d", protocol, i, got.StatusCode)
			}
			f.exchange(t)
		}
		e := pool.members()[0]
		e.mu.Lock()
		n := len(e.idle)
		e.mu.Unlock()
		e.muxes.mu.Lock()
		n += len(e.muxes.list)
		e.muxes.mu.Unlock()
		if n != maxMixed {
			t.Errorf("%v: %d connections are kept, want %d", protocol, n, maxMixed)
		}
		for i := range 2 { // others still have theirs
			f.get(t, "/a.test")
			if e := f.exchange(t); e.Attempts[0].Reused != (i > 0) {
				t.Errorf("%v, request %d: reused %v", protocol, i, e.Attempts[0].Reused)
			}
		}
	}
}
