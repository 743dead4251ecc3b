package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// often is a check that a test can wait for.
var often = Check{Path: "/healthz?x=1", Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond, Healthy: 2, Unhealthy: 3}

// A patient answers requests, and checks with a status that can be changed.
type patient struct {
	addr           netip.AddrPort
	status         atomic.Int64
	checked, asked atomic.Int64
	last           atomic.Pointer[http.Request] // of the checks
}

func newPatient(t *testing.T, secure bool) *patient {
	p := new(patient)
	p.status.Store(200)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			p.asked.Add(1)
			return
		}
		p.last.Store(r)
		p.checked.Add(1)
		w.WriteHeader(int(p.status.Load()))
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	p.addr = netip.MustParseAddrPort(s.Listener.Addr().String())
	return p
}

func (p *patient) unwell(pool *Pool) func() bool {
	return func() bool { return pool.members()[0].health.unwell.Load() }
}

func (p *patient) well(pool *Pool) func() bool {
	return func() bool { return !pool.members()[0].health.unwell.Load() }
}

func TestAnEndpointThatFailsItsChecksIsLeftAloneUntilItPasses(t *testing.T) {
	sick, other := newPatient(t, false), newPatient(t, false)
	p := poolOf(t, sick.addr, other.addr)
	p.Configure(ServiceOptions{Check: often})
	f := front(t, 1, New(p, quick))
	sick.status.Store(500)
	until(t, "left alone", sick.unwell(p))
	if n := sick.checked.Load(); n < int64(often.Unhealthy) {
		t.Errorf("left alone after %d checks, want %d", n, often.Unhealthy)
	}
	for range 10 {
		f.get(t, "/")
	}
	if sick.asked.Load() != 0 || other.asked.Load() != 10 {
		t.Errorf("it had %d requests and the other %d, want none and 10", sick.asked.Load(), other.asked.Load())
	}
	sick.status.Store(204)
	until(t, "well again", sick.well(p))
	for range 10 {
		f.get(t, "/")
	}
	if sick.asked.Load() != 5 {
		t.Errorf("it had %d requests, want every other", sick.asked.Load())
	}
	if r := sick.last.Load(); r.Method != "GET" || r.URL.RawQuery != "x=1" || r.Host != sick.addr.String() {
		t.Errorf("a check is %s %s of %s", r.Method, r.URL, r.Host)
	}
}

func TestWhereAllFailTheirChecksAllAreUsed(t *testing.T) {
	sick := newPatient(t, false)
	p := poolOf(t, sick.addr)
	p.Configure(ServiceOptions{Check: often})
	sick.status.Store(503)
	until(t, "left alone", sick.unwell(p))
	if got := front(t, 1, New(p, quick)).get(t, "/"); got.StatusCode != 200 {
		t.Errorf("status %d, want 200", got.StatusCode)
	}
}

func TestChecksEndWithTheEndpointTheOptionsAndThePool(t *testing.T) {
	var pools Pools
	id := ID{Service: "svc"}
	pool := pools.Get(id)
	gone, stays := newPatient(t, false), newPatient(t, false)
	pool.Configure(ServiceOptions{Check: often})
	pool.Set([]netip.AddrPort{gone.addr, stays.addr})
	checked := func() bool { return gone.checked.Load() > 0 && stays.checked.Load() > 0 }
	until(t, "both are checked", checked)
	pool.Set([]netip.AddrPort{stays.addr})
	if n := len(pool.care.checks.checkers); n != 1 {
		t.Errorf("%d checkers for one endpoint", n)
	}
	after := gone.checked.Load()
	seen := stays.checked.Load()
	until(t, "the other is checked", func() bool { return stays.checked.Load() > seen+3 })
	if gone.checked.Load() != after {
		t.Error("an endpoint that has gone is checked still")
	}
	slow := often
	slow.Interval, slow.Host = time.Hour, "other.test"
	pool.Configure(ServiceOptions{Check: slow})
	before := pool.care.checks.checkers[pool.members()[0]]
	pool.Configure(ServiceOptions{Check: slow})
	if before == nil || before.Interval != time.Hour || before != pool.care.checks.checkers[pool.members()[0]] {
		t.Error("the checker is not of the options that were given last")
	}
	pools.Forget(id)
	select {
	case <-before.done:
	default:
		t.Error("a checker outlives its pool")
	}
}

func TestAnEndpointIsWellAgainWhenNobodyChecksItAnyMore(t *testing.T) {
	sick := newPatient(t, false)
	p := poolOf(t, sick.addr)
	p.Configure(ServiceOptions{Check: often})
	sick.status.Store(500)
	until(t, "left alone", sick.unwell(p))
	p.Configure(ServiceOptions{})
	if sick.unwell(p)() {
		t.Error("it is left alone still")
	}
}

func TestWhatACheckTakesForWell(t *testing.T) {
	plain, secure := newPatient(t, false), newPatient(t, true)
	for _, c := range []struct {
		claim  string
		at     *patient
		change func(*Check)
		status int
		passes bool
	}{
		{"200", plain, func(*Check) {}, 200, true},
		{"a redirect is not followed", plain, func(*Check) {}, 302, true},
		{"404", plain, func(*Check) {}, 404, false},
		{"404 expected", plain, func(c *Check) { c.Expected.add(404, 404) }, 404, true},
		{"200 not expected", plain, func(c *Check) { c.Expected.add(404, 404) }, 200, false},
		{"AUTO_HTTP", plain, func(c *Check) { c.Protocol = AutoHTTP }, 200, true},
		{"HTTPS", secure, func(c *Check) { c.Protocol = HTTPS }, 200, true},
		{"HTTPS, 500", secure, func(c *Check) { c.Protocol = HTTPS }, 500, false},
		{"HTTPS to HTTP", plain, func(c *Check) { c.Protocol = HTTPS }, 200, false},
	} {
		check := often
		check.Timeout = 10 * time.Second
		c.change(&check)
		c.at.status.Store(int64(c.status))
		asker := checker{Check: check.withDefaults(), endpoint: &Endpoint{addr: c.at.addr}}
		asker.client = checkClient(asker.endpoint, check.Protocol, nil)
		if got := asker.ask(context.Background()); got != c.passes {
			t.Errorf("%s: passes %v, want %v", c.claim, got, c.passes)
		}
	}
	for name, addr := range map[string]netip.AddrPort{
		"refused": refused(t), "silent": endpoint(t, (*session).hang), "reset": endpoint(t, (*session).reset),
	} {
		asker := checker{Check: often.withDefaults(), endpoint: &Endpoint{addr: addr}}
		asker.client = checkClient(asker.endpoint, HTTP, nil)
		if asker.ask(context.Background()) {
			t.Errorf("%s passes", name)
		}
	}
}

// TestEndpointsThatSpeakHTTP2NeedNotKnowGRPC has one that speaks HTTP/2 alone be asked by a GET.
func TestEndpointsThatSpeakHTTP2NeedNotKnowGRPC(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/hz" || r.ProtoMajor != 2 {
			t.Errorf("it is asked with %s %s over %s", r.Method, r.URL, r.Proto)
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	check := often
	check.Path, check.Protocol, check.Plain, check.Timeout = "/hz", GRPC, true, 10*time.Second
	asker := checker{Check: check.withDefaults(), endpoint: &Endpoint{addr: netip.MustParseAddrPort(s.Listener.Addr().String())}}
	asker.client = checkClient(asker.endpoint, GRPC, nil)
	if !asker.ask(context.Background()) {
		t.Error("it does not pass")
	}
}

func TestTheHealthServiceOfGRPCIsAsked(t *testing.T) {
	for _, protocol := range []Protocol{GRPC, GRPCS} {
		for _, c := range []struct {
			path, question, answer, status string
			passes                         bool
		}{
			{"/", "\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x02\x08\x01", "0", true},
			{"/shop", "\x00\x00\x00\x00\x06\x0a\x04shop", "\x00\x00\x00\x00\x02\x08\x01", "0", true},
			{"/", "\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x02\x08\x02", "0", false}, // NOT_SERVING
			{"/", "\x00\x00\x00\x00\x00", "", "5", false},                             // NOT_FOUND
			{"/", "\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00", "0", false},         // UNKNOWN, which is not sent
		} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.Path != "/grpc.health.v1.Health/Check" || string(body) != c.question || r.ProtoMajor != 2 {
					t.Errorf("%s asks %s with %q over %s", c.path, r.URL, body, r.Proto)
				}
				w.Header().Set("Trailer", "Grpc-Status")
				w.Header().Set("Content-Type", "application/grpc")
				io.WriteString(w, c.answer)
				w.Header().Set("Grpc-Status", c.status)
			}))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Config.Protocols.SetHTTP2(true)
			if protocol == GRPCS {
				s.EnableHTTP2 = true
				s.TLS = &tls.Config{NextProtos: []string{"h2"}}
				s.StartTLS()
			} else {
				s.Start()
			}
			check := often
			check.Path, check.Protocol, check.Timeout = c.path, protocol, 10*time.Second
			asker := checker{Check: check.withDefaults(), endpoint: &Endpoint{addr: netip.MustParseAddrPort(s.Listener.Addr().String())}}
			asker.client = checkClient(asker.endpoint, protocol, nil)
			if got := asker.ask(context.Background()); got != c.passes {
				t.Errorf("%v %s, %q with status %s: passes %v, want %v", protocol, c.path, c.answer, c.status, got, c.passes)
			}
			s.Close()
		}
	}
}

func TestStatuses(t *testing.T) {
	for text, want := range map[string][]int{
		"200": {200}, "200-202": {200, 201, 202}, "204, 404,599": {204, 404, 599}, "100": {100}, "163-164": {163, 164},
	} {
		s, err := ParseStatuses(text)
		var got []int
		for status := range 1000 {
			if s.Has(status) {
				got = append(got, status)
			}
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q holds %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ok", "99", "600", "300-200", "200-", "-200", "200,,201", "2xx", "200-700"} {
		if s, err := ParseStatuses(text); err == nil || s != (Statuses{}) {
			t.Errorf("%q is taken", text)
		}
	}
}
