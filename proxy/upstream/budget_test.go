package upstream

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

// TestAnOutageIsNotMultiplied has every endpoint fail, in one way or another, under 2,000 requests that could be tried three
// times each. None of the three may get more than the requests, a fifth of them, and ten a second.
func TestAnOutageIsNotMultiplied(t *testing.T) {
	const requests = 2000
	for name, script := range map[string]func(*session, string){
		"503":   func(s *session, _ string) { s.send(answer5xx(503)) },
		"reset": func(s *session, _ string) { s.reset() },
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			var addrs []netip.AddrPort
			for range 3 {
				addrs = append(addrs, counting(t, &seen, script))
			}
			f := front(t, 1, New(poolOf(t, addrs...), Options{Retry: RetryOn503 | RetryOnError}))
			begun := time.Now()
			var all sync.WaitGroup
			var other atomic.Int64
			for range 10 {
				all.Go(func() {
					for range requests / 10 {
						res, err := f.client.Get(f.URL)
						if err != nil {
							t.Error(err)
							return
						}
						res.Body.Close()
						if res.StatusCode != 503 && res.StatusCode != 502 {
							other.Add(1)
						}
					}
				})
			}
			all.Wait()
			took := time.Since(begun)
			t.Logf("%d requests became %d attempts in %v: %.2f each", requests, seen.Load(), took, float64(seen.Load())/requests)
			windows := int64(took/(budgetWindow*time.Second)) + 1
			most := requests + requests*20/100 + windows*budgetFloor*budgetWindow
			if seen.Load() > most || seen.Load() <= requests {
				t.Errorf("%d attempts, want some more than %d, and no more than %d", seen.Load(), requests, most)
			}
			if other.Load() != 0 {
				t.Errorf("%d answers are neither 502 nor 503", other.Load())
			}
		})
	}
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		spent := func(percent int) int {
			for n := 0; ; n++ {
				if !b.spend(time.Now(), percent) {
					return n
				}
			}
		}
		if n := spent(20); n != 100 {
			t.Errorf("%d retries without a request, want 100 in ten seconds", n)
		}
		for range 1000 {
			b.note(time.Now())
		}
		if n := spent(20); n != 200 {
			t.Errorf("%d more for 1,000 requests, want 200", n)
		}
		if n := spent(50); n != 300 {
			t.Errorf("%d more at 50 %%, want 300", n)
		}
		time.Sleep(9 * time.Second)
		if n := spent(50); n != 0 {
			t.Errorf("%d more nine seconds later, want none", n)
		}
		time.Sleep(time.Second)
		if n := spent(-1); n != 100 {
			t.Errorf("%d retries when all is forgotten, want 100", n)
		}
	})
}

// TestOneGETIsTriedThreeTimes: a Service that is seldom asked has its retries, whatever the budget.
func TestOneGETIsTriedThreeTimes(t *testing.T) {
	o := retrying(RetryOn503, 3)
	o.RetryBudget = -1
	var seen atomic.Int64
	f := front(t, 1, New(poolOf(t, counting(t, &seen, func(s *session, _ string) { s.send(answer5xx(503)) })), o))
	for range 5 {
		f.get(t, "/")
	}
	if seen.Load() != 15 {
		t.Errorf("five GETs became %d, want 15", seen.Load())
	}
}

// TestRefusalsCostNoBudget has one of two endpoints refuse when the budget is spent: the other one answers all the same.
func TestRefusalsCostNoBudget(t *testing.T) {
	pool := poolOf(t, refused(t), endpoint(t, answers(ok2)))
	f := front(t, 1, New(pool, quick))
	for pool.care.budget.spend(time.Now(), 20) {
	}
	got, e := f.get(t, "/"), f.exchange(t)
	if got.StatusCode != 200 || len(e.Attempts) != 2 || e.Attempts[0].Reason != proxy.ConnectRefused {
		t.Errorf("status %d, attempts %+v; want 200 from the second", got.StatusCode, e.Attempts)
	}
}
