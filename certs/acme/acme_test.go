package acme

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAuthorityThatIsDownForAnHour is asked now and then, about one host, and about all as soon as it is back.
func TestAnAuthorityThatIsDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		f.down = true
		m := newManager(t, f, store)
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("h%d.test", i))
		}
		m.Want(hosts(names...))
		defer run(m)()
		time.Sleep(time.Hour)
		synctest.Wait()
		f.mu.Lock()
		asked := f.asked
		f.mu.Unlock()
		if asked < 10 || asked > 25 {
			t.Errorf("an authority that is away was asked %d times in an hour, want between 10 and 25", asked)
		}
		for _, name := range names {
			if failure, failed := m.Failure(name); !failed || failure.Failures != 0 || !strings.Contains(failure.Reason, "cannot be reached") {
				t.Errorf("%s: failure %+v, %v; want that the authority cannot be reached", name, failure, failed)
			}
		}
		f.mu.Lock()
		f.down = false
		f.mu.Unlock()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		for _, name := range names {
			if store.pair(t, name) == nil {
				t.Errorf("%s has no certificate six minutes after the authority is back", name)
			}
			if failure, failed := m.Failure(name); failed {
				t.Errorf("%s: failure %+v is still told", name, failure)
			}
		}
		if len(f.ordered()) != len(names) {
			t.Errorf("%d orders for %d hosts", len(f.ordered()), len(names))
		}
	})
}

// TestTwoHundredHostsStayWithinTheRate counts orders as Let's Encrypt does: 300 in any three hours for an account.
func TestTwoHundredHostsStayWithinTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		m := newManager(t, f, store)
		var names []string
		for i := range 500 {
			names = append(names, fmt.Sprintf("h%d.test", i))
		}
		m.Want(hosts(names[:200]...))
		defer run(m)()
		began := time.Now()
		for store.pair(t, names[0]) == nil || len(m.pending(names[:200])) > 0 {
			time.Sleep(time.Minute)
		}
		t.Logf("200 hosts have certificates after %v", time.Since(began))
		m.Want(hosts(names...))
		for len(m.pending(names)) > 0 {
			time.Sleep(time.Minute)
		}
		if len(f.ordered()) != len(names) {
			t.Errorf("%d orders for %d hosts", len(f.ordered()), len(names))
		}
		most := 0
		attempts := f.attempts()
		for i, first := range attempts {
			n := 0
			for _, at := range attempts[i:] {
				if at.Sub(first) < 3*time.Hour {
					n++
				}
			}
			most = max(most, n)
		}
		if most > 300 || most < 200 {
			t.Errorf("%d orders within three hours, want no more than 300", most)
		}
	})
}

// pending are the hosts that have no certificate yet.
func (m *Manager) pending(names []string) (without []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if h := m.hosts[name]; h == nil || h.pair == nil {
			without = append(without, name)
		}
	}
	return without
}

// TestAHostThatFailsWaits tries again five times in the first hour, and once in six hours in the end, while others have theirs.
func TestAHostThatFailsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		f.accept = func(host string) string {
			if host == "away.test" {
				return "connection refused to http://away.test/.well-known/acme-challenge/token-0"
			}
			return ""
		}
		m := newManager(t, f, store)
		m.Want(hosts("away.test", "good.test"))
		stop := run(m)
		time.Sleep(time.Hour)
		synctest.Wait()
		tries := func() (n int) {
			for _, host := range f.ordered() {
				if host == "away.test" {
					n++
				}
			}
			return n
		}
		if n := tries(); n != 5 {
			t.Errorf("%d orders in the first hour, want 5", n)
		}
		if store.pair(t, "good.test") == nil {
			t.Error("another host has no certificate")
		}
		first, _ := m.Failure("away.test")
		time.Sleep(3 * 24 * time.Hour)
		before := tries()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := tries() - before; n < 3 || n > 4 {
			t.Errorf("%d orders a day in the end, want 3 or 4", n)
		}
		last, _ := m.Failure("away.test")
		if last.Failures < 10 || strings.ReplaceAll(last.Reason, "token-0", "TOKEN") != strings.ReplaceAll(first.Reason, "token-0", "TOKEN") {
			t.Errorf("the failure is %+v, want the reason of the first, %+v, and more failures", last, first)
		}

		stop() // another process goes on with the same patience
		m = newManager(t, f, store)
		m.Want(hosts("away.test", "good.test"))
		defer run(m)()
		before, total := tries(), len(f.ordered())
		time.Sleep(min(5*time.Minute, time.Until(last.Retry)-time.Second))
		synctest.Wait()
		if tries() != before || len(f.ordered()) != total {
			t.Errorf("a process that starts made %d orders at once, want none: it knows of the failures and the certificate", len(f.ordered())-total)
		}
	})
}

// TestLimitsOfTheAuthorityAreKept waits for as long as it says.
func TestLimitsOfTheAuthorityAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		began := time.Now()
		f.refuse = func(host string) *http.Response {
			if host != "full.test" || time.Since(began) > 10*time.Hour {
				return nil
			}
			r := reply(http.StatusTooManyRequests, "", map[string]string{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates"})
			r.Header.Set("Retry-After", "36001")
			return r
		}
		m := newManager(t, f, store)
		m.Want(hosts("full.test", "other.test"))
		defer run(m)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.pair(t, "other.test") == nil {
			t.Error("another host has no certificate after an hour")
		}
		if len(f.attempts()) != 2 {
			t.Errorf("%d orders, want one a host", len(f.attempts()))
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if store.pair(t, "full.test") == nil || len(f.attempts()) != 3 {
			t.Errorf("after the time that the authority named there were %d orders and certificate %v", len(f.attempts()), store.pair(t, "full.test"))
		}
	})
}

// TestRenewalAtTwoThirds, and in the authority's window where that comes first.
func TestRenewalAtTwoThirds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		m := newManager(t, f, store)
		m.Want(hosts("a.test"))
		defer run(m)()
		time.Sleep(time.Hour)
		first := store.pair(t, "a.test")
		time.Sleep(59 * 24 * time.Hour)
		if pair := store.pair(t, "a.test"); first == nil || !pair.Leaf.Equal(first.Leaf) {
			t.Fatal("there is no certificate, or it was renewed before two thirds of 90 days")
		}
		time.Sleep(2 * 24 * time.Hour)
		second := store.pair(t, "a.test")
		if second.Leaf.Equal(first.Leaf) {
			t.Fatal("the certificate was not renewed at two thirds of 90 days")
		}
		m.Want([]Host{{Name: "a.test", Pair: first, Directory: fakeHost + "/dir"}}) // a table that lags behind
		time.Sleep(24 * time.Hour)
		if len(f.ordered()) != 2 {
			t.Errorf("%d orders, want 2: what the table has is older than what is known", len(f.ordered()))
		}
		f.mu.Lock()
		f.window = [2]time.Time{time.Now().Add(10 * 24 * time.Hour), time.Now().Add(12 * 24 * time.Hour)}
		f.mu.Unlock()
		time.Sleep(9 * 24 * time.Hour)
		if len(f.ordered()) != 2 {
			t.Error("the certificate was renewed before the authority's window")
		}
		time.Sleep(4 * 24 * time.Hour)
		synctest.Wait()
		if len(f.ordered()) < 3 {
			t.Error("the certificate was not renewed in the authority's window")
		}
	})
}

// TestAStoreThatFailsOrdersNothing: what cannot be kept would be ordered again and again.
func TestAStoreThatFailsOrdersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), &memory{}
		m := newManager(t, f, store)
		m.Want(hosts("a.test"))
		store.wrong = errors.New("no space left on device")
		defer run(m)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(f.attempts()) != 0 {
			t.Errorf("%d orders while nothing can be kept", len(f.attempts()))
		}
		store.mu.Lock()
		store.wrong = nil
		store.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if len(f.attempts()) != 1 || store.pair(t, "a.test") == nil {
			t.Errorf("%d orders once it can, want one and a certificate", len(f.attempts()))
		}
	})
}

// TestAnotherAuthority is asked for certificates anew: those of a test are worth nothing.
func TestAnotherAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		m := newManager(t, f, store)
		m.Want(hosts("a.test"))
		stop := run(m)
		time.Sleep(time.Minute)
		stop()
		first := store.pair(t, "a.test")
		m, _ = New(Options{Directory: fakeHost + "/dir?real", Client: &http.Client{Transport: f}, Store: store})
		m.Want([]Host{{Name: "a.test", Pair: first, Directory: fakeHost + "/dir"}})
		defer run(m)()
		time.Sleep(time.Minute)
		synctest.Wait()
		if second := store.pair(t, "a.test"); second.Leaf.Equal(first.Leaf) {
			t.Error("the certificate of another authority was not replaced")
		}
	})
}

// TestACertificateThatIsDeletedIsOrderedAgain, once the table had it: one that has just come is not missed.
func TestACertificateThatIsDeletedIsOrderedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		m := newManager(t, f, store)
		m.Want(hosts("a.test"))
		defer run(m)()
		time.Sleep(time.Minute)
		m.Want(hosts("a.test")) // a table that lags behind
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(f.ordered()) != 1 {
			t.Fatalf("%d orders, want 1", len(f.ordered()))
		}
		m.Want([]Host{{Name: "a.test", Pair: store.pair(t, "a.test"), Directory: fakeHost + "/dir"}})
		store.mu.Lock()
		delete(store.kept, CertificateName("a.test"))
		store.mu.Unlock()
		m.Want(hosts("a.test"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(f.ordered()) != 2 || store.pair(t, "a.test") == nil {
			t.Errorf("%d orders, want another and a certificate", len(f.ordered()))
		}
	})
}

// TestOnlyKnownTokensAreAnswered, and only for their host.
func TestOnlyKnownTokensAreAnswered(t *testing.T) {
	m, err := New(Options{Store: new(memory)})
	if err != nil {
		t.Fatal(err)
	}
	m.See(map[string][]byte{"a.test": []byte(`{"order":"x","key":"k","kind":"http-01","token":"t","answer":"t.print"}`), "b.test": []byte(`no JSON`)})
	for _, test := range []struct {
		host, token string
		want        string
	}{{"a.test", "t", "t.print"}, {"b.test", "t", ""}, {"a.test", "T", ""}, {"a.test", "", ""}, {"", "t", ""}, {"a.test", "t/", ""}} {
		if got, ok := m.Answer(test.host, test.token); got != test.want || ok != (test.want != "") {
			t.Errorf("Answer(%q, %q) = %q, %v, want %q", test.host, test.token, got, ok, test.want)
		}
	}
	m.See(nil)
	if _, ok := m.Answer("a.test", "t"); ok {
		t.Error("a token is answered that is not kept any more")
	}
	if n := testing.AllocsPerRun(100, func() { m.Answer("a.test", "x") }); n != 0 {
		t.Errorf("Answer allocates %v times", n)
	}
}

// TestAHostThatTheAuthorityFailsAtKeepsNoOtherWaiting: one whose answers are all 500 looks like an authority that is away, and
// one whose certificate is none comes to no end.
func TestAHostThatTheAuthorityFailsAtKeepsNoOtherWaiting(t *testing.T) {
	for name, prepare := range map[string]func(*fakeAuthority){
		"it answers 500": func(f *fakeAuthority) {
			f.refuse = func(host string) *http.Response {
				if host != "a.test" {
					return nil
				}
				return reply(500, "", map[string]string{"type": "urn:ietf:params:acme:error:serverInternal", "detail": "oops"})
			}
		},
		"it issues for another": func(f *fakeAuthority) { f.issued = map[string]string{"a.test": "other.test"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, store := newFakeAuthority(t), new(memory)
				prepare(f)
				m := newManager(t, f, store)
				m.Want(hosts("a.test", "b.test", "c.test", "d.test"))
				defer run(m)()
				time.Sleep(time.Hour)
				synctest.Wait()
				for _, other := range []string{"b.test", "c.test", "d.test"} {
					if store.pair(t, other) == nil {
						t.Errorf("%s has no certificate", other)
					}
				}
				if failure, failed := m.Failure("a.test"); !failed {
					t.Errorf("failure %+v, %v; want one", failure, failed)
				}
				tries := len(f.attempts()) - 3
				if tries < 2 || tries > 8 {
					t.Errorf("%d orders for it in an hour, want a few", tries)
				}
				m.Want(hosts("a.test", "b.test", "c.test", "d.test", "new.test"))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if store.pair(t, "new.test") == nil {
					t.Error("a host that is new has no certificate after ten seconds")
				}
			})
		})
	}
}

// TestCertificatesThatHaveEndedAreRemoved keeps what a host that comes back could use, and what somebody else has written.
func TestCertificatesThatHaveEndedAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeAuthority(t), new(memory)
		m := newManager(t, f, store)
		m.Want(hosts("stays.test", "goes.test"))
		defer run(m)()
		time.Sleep(time.Minute)
		synctest.Wait()
		ended := store.pair(t, "goes.test").Leaf.NotAfter
		copied, err := store.Load(t.Context(), CertificateName("goes.test"))
		if err != nil {
			t.Fatal(err)
		}
		theirs := map[string]map[string][]byte{ // none of which is as it would be if it were ours
			"copy":                         copied,
			CertificateName("other.test"):  copied,
			CertificateName("theirs.test"): {CertificateKey: copied[CertificateKey], PrivateKeyKey: copied[PrivateKeyKey]},
			CertificateName("text.test"):   {CertificateKey: []byte("no certificate"), DirectoryKey: []byte("x")},
		}
		for name, data := range theirs {
			if err := store.Save(t.Context(), name, data); err != nil {
				t.Fatal(err)
			}
		}
		m.Want(hosts("stays.test"))
		time.Sleep(time.Until(ended.Add(keepEnded - time.Hour)))
		synctest.Wait()
		if store.pair(t, "goes.test") == nil {
			t.Error("the certificate of a host that is gone was removed before its time")
		}
		time.Sleep(cleanEvery + 2*time.Hour)
		synctest.Wait()
		if store.pair(t, "goes.test") != nil {
			t.Error("a certificate that nobody has used for two weeks after its end is there still")
		}
		if pair := store.pair(t, "stays.test"); pair == nil || !pair.Leaf.NotAfter.After(time.Now()) {
			t.Error("the host that stays has no certificate")
		}
		for name := range theirs {
			if _, err := store.Load(t.Context(), name); err != nil {
				t.Errorf("%s, which is somebody's own: %v", name, err)
			}
		}
		m.Want(hosts("stays.test", "goes.test"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.pair(t, "goes.test") == nil {
			t.Error("the host that came back has no certificate")
		}
	})
}
