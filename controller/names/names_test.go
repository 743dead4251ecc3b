package names

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"sallyport/controller"
	"sallyport/e2e"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A reader follows names and waits for what becomes known of them.
type reader struct {
	*Resolver
	t        *testing.T
	snapshot controller.Snapshot
	stirred  chan struct{}
}

func read(t *testing.T, file string, names ...string) *reader {
	r := &reader{t: t, stirred: make(chan struct{}, 1)}
	stir := func() {
		select {
		case r.stirred <- struct{}{}:
		default:
		}
	}
	r.Resolver = New(Options{File: file, Changed: stir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(r.Close)
	r.Follow(slices.Values(names))
	return r
}

// text is what is known of a name: "192.0.2.1 2001:db8::1 (fault)"; "?" where nothing is.
func text(s *controller.Snapshot, name string) string {
	known, ok := s.Name(name)
	if !ok {
		return "?"
	}
	var words []string
	for _, a := range known.Addresses {
		words = append(words, a.String())
	}
	if known.Fault != "" {
		words = append(words, "("+known.Fault+")")
	}
	return strings.Join(words, " ")
}

// await returns when a name is known as wanted.
func (r *reader) await(name, want string) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.Bring(&r.snapshot)
		if text(&r.snapshot, name) == want {
			return
		}
		select {
		case <-r.stirred:
		case <-deadline:
			r.t.Fatalf("%s is known as %q after 20 s, want %q", name, text(&r.snapshot, name), want)
		}
	}
}

func TestAllAddressesOfANameAreKnownAndFollowed(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.2", "192.0.2.1", "2001:db8::1"}})
	r := read(t, server.Settings(t), "web.test")
	r.await("web.test", "192.0.2.1 192.0.2.2 2001:db8::1")
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.3"}})
	r.await("web.test", "192.0.2.3")
}

func TestNameThatDoesNotExistIsAnAnswerOnceItIsConfirmed(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.1"}})
	r := read(t, server.Settings(t), "web.test", "no.test", "empty.test")
	server.Set("empty.test", e2e.Records{})
	r.await("web.test", "192.0.2.1")
	r.await("no.test", "(there is no such name)")
	r.await("empty.test", "(the name has no addresses)")
	before := server.Asked("web.test")
	server.Remove("web.test")
	r.await("web.test", "(there is no such name)")
	if asked := server.Asked("web.test") - before; asked < 4 { // two families, two times
		t.Errorf("the addresses went after %d questions, want the denial confirmed", asked)
	}
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.4"}})
	r.await("web.test", "192.0.2.4")
}

func TestLastGoodAnswerStaysWhileTheServerIsAway(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.1"}})
	server.Set("sick.test", e2e.Records{Addresses: []string{"192.0.2.9"}})
	r := read(t, server.Settings(t, "options timeout:1 attempts:1"), "web.test", "sick.test")
	r.await("web.test", "192.0.2.1")
	r.await("sick.test", "192.0.2.9")
	server.Set("sick.test", e2e.Records{Code: dnsmessage.RCodeServerFailure})
	r.await("sick.test", "192.0.2.9 ("+server.Addr+" answers with a failure of its own (SERVFAIL))")
	server.Down(true)
	r.await("web.test", "192.0.2.1 ("+server.Addr+" does not answer)")
	server.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.2"}})
	server.Down(false)
	r.await("web.test", "192.0.2.2")
}

func TestNameThatHangsKeepsNoOtherWaiting(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("hangs.test", e2e.Records{Silent: true})
	names := []string{"hangs.test"}
	for i := range 29 {
		name := fmt.Sprintf("n%d.test", i)
		server.Set(name, e2e.Records{Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}})
		names = append(names, name)
	}
	begun := time.Now()
	r := read(t, server.Settings(t), names...)
	for i := range 29 {
		r.await(fmt.Sprintf("n%d.test", i), fmt.Sprintf("192.0.2.%d", i))
	}
	for i := range 29 {
		server.Set(fmt.Sprintf("n%d.test", i), e2e.Records{Addresses: []string{fmt.Sprintf("198.51.100.%d", i)}})
	}
	for i := range 29 {
		r.await(fmt.Sprintf("n%d.test", i), fmt.Sprintf("198.51.100.%d", i))
	}
	if took := time.Since(begun); took >= 4*time.Second {
		t.Errorf("29 names were known, and known anew, after %v, which is as long as the one that hangs takes", took)
	}
	if got := text(&r.snapshot, "hangs.test"); got != "?" {
		t.Errorf("the name that hangs is known as %q", got)
	}
}

func TestNamesAreSoughtAsResolvConfSays(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	for name, address := range map[string]string{
		"db.ns.svc.cluster.test": "10.0.0.1", "db.other.svc.cluster.test": "10.0.0.2", "db": "10.0.0.3",
		"www.example.test": "10.0.0.4", "www.example.test.cluster.test": "10.0.0.5", "five.dots.in.all.of.it": "10.0.0.6",
	} {
		server.Set(name, e2e.Records{Addresses: []string{address}})
	}
	file := server.Settings(t, "search ns.svc.cluster.test svc.cluster.test cluster.test", "options ndots:5 timeout:1")
	for name, want := range map[string]string{
		"db": "10.0.0.1", "db.other": "10.0.0.2", "db.": "10.0.0.3", "www.example.test": "10.0.0.5", "www.example.test.": "10.0.0.4", "five.dots.in.all.of.it": "10.0.0.6",
	} {
		t.Run(name, func(t *testing.T) { read(t, file, name).await(name, want) })
	}
}

// TestWhileNobodyAnswersForANameNoOtherIsTaken: the zone of a cluster that cannot be had must not make "db" the db of the
// next search domain.
func TestWhileNobodyAnswersForANameNoOtherIsTaken(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("db.near.test", e2e.Records{Addresses: []string{"10.0.0.1"}})
	server.Set("db.far.test", e2e.Records{Addresses: []string{"10.0.0.2"}})
	r := read(t, server.Settings(t, "search near.test far.test", "options timeout:1 attempts:1"), "db")
	r.await("db", "10.0.0.1")
	server.Set("db.near.test", e2e.Records{Code: dnsmessage.RCodeServerFailure})
	r.await("db", "10.0.0.1 ("+server.Addr+" answers with a failure of its own (SERVFAIL))")
	server.Remove("db.near.test") // which is an answer
	r.await("db", "10.0.0.2")
}

func TestAliasesAndLongAnswersAreFollowed(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("a.test", e2e.Records{Alias: "B.test"})
	server.Set("b.test", e2e.Records{Alias: "c.test"})
	server.Set("c.test", e2e.Records{Addresses: []string{"192.0.2.1", "2001:db8::1"}})
	many := e2e.Records{Long: true}
	for i := range 200 {
		many.Addresses = append(many.Addresses, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
	}
	server.Set("many.test", many)
	r := read(t, server.Settings(t), "a.test", "many.test")
	r.await("a.test", "192.0.2.1 2001:db8::1")
	r.await("many.test", strings.Join(many.Addresses, " "))
}

func TestTheNextServerIsAskedAndSettingsAreReadAgain(t *testing.T) {
	silent, refusing, good, other := e2e.ServeNames(t, "127.0.0.1:0"), e2e.ServeNames(t, "127.0.0.1:0"), e2e.ServeNames(t, "127.0.0.1:0"), e2e.ServeNames(t, "127.0.0.1:0")
	silent.Down(true)
	refusing.Set("web.test", e2e.Records{Code: dnsmessage.RCodeRefused})
	good.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.1"}})
	other.Set("web.test", e2e.Records{Addresses: []string{"192.0.2.2"}})
	file := silent.Settings(t, "nameserver "+refusing.Addr, "nameserver "+good.Addr, "options timeout:1")
	r := read(t, file, "web.test")
	r.await("web.test", "192.0.2.1")
	e2e.WriteFile(t, file, "nameserver "+other.Addr+"\n")
	r.await("web.test", "192.0.2.2")
}

func TestHalfAnAnswerTakesNothingAway(t *testing.T) {
	both := reply{verdict: found, addresses: []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")}, source: "a."}
	four := reply{verdict: found, addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, source: "a."}
	broken := four
	broken.lacks6 = true
	elsewhere := broken
	elsewhere.source = "b."
	for claim, c := range map[string]struct {
		then reply
		want string
	}{
		"no IPv6 address any more":           {four, "[192.0.2.2]"},
		"nobody knows about IPv6 addresses":  {broken, "[192.0.2.2 2001:db8::1]"},
		"nor does anybody for another name":  {elsewhere, "[192.0.2.2]"},
		"a failure":                          {reply{}, "[192.0.2.1 2001:db8::1]"},
		"a denial that may still be mistake": {reply{verdict: absent}, "[192.0.2.1 2001:db8::1]"},
	} {
		var m memory
		m.take(both)
		if got, _ := m.take(c.then); fmt.Sprint(got.Addresses) != c.want {
			t.Errorf("%s: the addresses are %v, want %s", claim, got.Addresses, c.want)
		}
	}
}

// TestAnswersAreAskedForAgainWhenTheirTimeHasPassed holds the pauses, in a time of its own.
func TestAnswersAreAskedForAgainWhenTheirTimeHasPassed(t *testing.T) {
	address := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	lives := func(d time.Duration) reply { return reply{verdict: found, addresses: address, life: d} }
	denied := func(d time.Duration) reply { return reply{verdict: absent, life: d, fault: "no"} }
	for claim, c := range map[string]struct {
		replies []reply
		want    []time.Duration // between them
	}{
		"by their life":                  {[]reply{lives(10 * time.Second), lives(7 * time.Second), {}}, []time.Duration{10 * time.Second, 7 * time.Second}},
		"never within a second":          {[]reply{lives(0), {}}, []time.Duration{time.Second}},
		"nor after five minutes":         {[]reply{lives(time.Hour), {}}, []time.Duration{5 * time.Minute}},
		"a denial soon, then as it says": {[]reply{lives(time.Minute), denied(time.Minute), denied(time.Minute), denied(3 * time.Second), {}}, []time.Duration{time.Minute, time.Second, 5 * time.Second, 3 * time.Second}},
		"a failure ever more slowly":     {[]reply{{}, {}, {}, {}, {}, {}}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var at []time.Duration
				done := make(chan struct{})
				r := newResolver(nil, func(ctx context.Context, _, _ string) reply {
					if len(at) == len(c.replies) {
						<-ctx.Done()
						return reply{}
					}
					at = append(at, time.Since(begun))
					if len(at) == len(c.replies) {
						close(done)
					}
					return c.replies[len(at)-1]
				})
				r.Follow(slices.Values([]string{"a"}))
				<-done
				r.Close()
				for i, want := range c.want {
					if got := at[i+1] - at[i]; got != want {
						t.Errorf("pause %d was %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

func TestFailingNamesHaveTheirOwnPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging, most atomic.Int32
		r := newResolver(nil, func(ctx context.Context, name, _ string) reply {
			if name[0] == 'g' {
				return reply{verdict: found, addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, life: time.Second}
			}
			n := hanging.Add(1)
			most.Store(max(most.Load(), n))
			defer hanging.Add(-1)
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			return reply{}
		})
		defer r.Close()
		names := make(map[string]bool)
		for i := range 200 {
			names[fmt.Sprint("bad", i)] = true
		}
		r.Follow(maps.Keys(names))
		time.Sleep(2 * time.Minute) // every bad name has failed once
		most.Store(0)
		names["good"] = true
		r.Follow(maps.Keys(names))
		synctest.Wait()
		var s controller.Snapshot
		r.Bring(&s)
		if got := text(&s, "good"); got != "192.0.2.1" {
			t.Errorf("the good name is known as %q while others hang", got)
		}
		time.Sleep(time.Minute)
		if n := most.Load(); n > atOnceFailing {
			t.Errorf("%d names hang at the same time, want at most %d", n, atOnceFailing)
		}
	})
}

func TestStartWaitsForNamesAndNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		var mu sync.Mutex
		answers := false
		r := newResolver(func() { told.Add(1) }, func(ctx context.Context, name, _ string) reply {
			mu.Lock()
			known := answers || name == "quick"
			mu.Unlock()
			if !known {
				<-ctx.Done()
				return reply{}
			}
			return reply{verdict: absent}
		})
		defer r.Close()
		if !r.Settled() {
			t.Error("nothing is followed, and it is not settled")
		}
		r.Follow(slices.Values([]string{"quick", "slow"}))
		synctest.Wait()
		if r.Settled() {
			t.Error("settled although a name has not been answered for")
		}
		before := told.Load()
		time.Sleep(firstWait)
		synctest.Wait()
		if !r.Settled() || told.Load() == before {
			t.Errorf("after %v settled is %v, and told %d times more, want true and once", firstWait, r.Settled(), told.Load()-before)
		}
	})
}

func TestNameThatIsNotFollowedIsForgotten(t *testing.T) {
	server := e2e.ServeNames(t, "127.0.0.1:0")
	server.Set("a.test", e2e.Records{Addresses: []string{"192.0.2.1"}})
	r := read(t, server.Settings(t), "a.test")
	r.await("a.test", "192.0.2.1")
	r.Follow(slices.Values([]string{}))
	r.Bring(&r.snapshot)
	if got := text(&r.snapshot, "a.test"); got != "?" {
		t.Errorf("it is still known as %q", got)
	}
	r.Follow(slices.Values([]string{"a.test"}))
	r.await("a.test", "192.0.2.1")
}

func TestSettingsOfResolvConf(t *testing.T) {
	usual := settings{servers: []string{"127.0.0.1:53", "[::1]:53"}, ndots: 1, timeout: 5 * time.Second, attempts: 2}
	but := func(change func(*settings)) settings {
		s := usual
		change(&s)
		return s
	}
	for text, want := range map[string]settings{
		"": usual,
		"nameserver 10.96.0.10\nsearch a.b. c\noptions ndots:5\n": but(func(s *settings) {
			s.servers, s.search, s.ndots = []string{"10.96.0.10:53"}, []string{"a.b.", "c."}, 5
		}),
		"nameserver 127.0.0.1:5353\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver 10.0.0.1": but(func(s *settings) {
			s.servers = []string{"127.0.0.1:5353", "[::1]:53", "[fe80::1%eth0]:53"}
		}),
		"nameserver here\ndomain x # mine\n; search y\n": but(func(s *settings) { s.search = []string{"x."} }),
		"options ndots:99 timeout:0 attempts:99 rotate use-vc": but(func(s *settings) {
			s.ndots, s.timeout, s.attempts, s.rotate, s.overTCP = 15, time.Second, 5, true, true
		}),
		"options single-request no-aaaa edns0 trust-ad inet6 debug":   but(func(s *settings) { s.inTurn, s.noIPv6 = true, true }),
		"options ndots:x\nsearch a b\nsearch c\nnonsense\nsortlist 1": but(func(s *settings) { s.ndots, s.search = 0, []string{"c."} }),
	} {
		if got := parseSettings(text); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%q: got  %+v\nwant %+v", text, got, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	q, err := newQuestion("a.test.", dnsmessage.TypeA)
	if err != nil {
		f.Fatal(err)
	}
	message, err := q.pack(7, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Fuzz(func(t *testing.T, message []byte) {
		if a, _, err := q.parse(message, 7); err == nil {
			for _, address := range a.addresses {
				if !address.Is4() {
					t.Errorf("an answer about IPv4 has %v", address)
				}
			}
		}
	})
}
