package upstream

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

const others = 0.050 // seconds: what is believed of other endpoints

// answered is an attempt with an answer.
func answered(status int, took time.Duration) *proxy.Attempt {
	return &proxy.Attempt{Status: status, Header: took, Total: took}
}

func (l *latency) expected() float64 { return l.now(ticks(time.Now()), others) }

func TestLatencyIsAnAverageThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l latency
		near := func(when string, want float64) {
			t.Helper()
			if got := l.expected(); math.Abs(got-want) > 0.0005 {
				t.Errorf("%s: %.4f s, want %.4f", when, got, want)
			}
		}
		near("never asked", others)
		l.observe(answered(200, 10*time.Millisecond), time.Now())
		near("asked once", 0.010)
		time.Sleep(decay)
		near("ten seconds later", others-(others-0.010)/math.E)
		l.observe(answered(200, 100*time.Millisecond), time.Now())
		near("asked again", 0.100-0.090/math.E)
		time.Sleep(10 * decay)
		near("forgotten", others)
	})
}

// TestWhatFailsIsNotFast: whatever fails at once is no better believed of than before, and worse the longer it lasts.
func TestWhatFailsIsNotFast(t *testing.T) {
	for name, a := range map[string]*proxy.Attempt{
		"503":       answered(503, 100*time.Microsecond),
		"500":       answered(500, 100*time.Microsecond),
		"429":       answered(429, 100*time.Microsecond),
		"refused":   {Reason: proxy.ConnectRefused, Total: 100 * time.Microsecond},
		"reset":     {Reason: proxy.UpstreamReset, Total: 100 * time.Microsecond},
		"no HTTP":   {Reason: proxy.UpstreamInvalid, Total: 100 * time.Microsecond},
		"broken":    {Reason: proxy.UpstreamReset, Status: 200, Header: time.Microsecond, Total: 100 * time.Microsecond},
		"timed out": {Reason: proxy.HeaderTimeout, Total: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l latency
			l.observe(a, time.Now())
			if got := l.expected(); got < others {
				t.Errorf("%s at first: %.4f s is believed, want no less than others have", name, got)
			}
			l = latency{}
			l.observe(answered(200, 10*time.Millisecond), time.Now())
			before := l.expected()
			for range 1000 {
				time.Sleep(10 * time.Millisecond)
				l.observe(a, time.Now())
			}
			if got := l.expected(); got < 1.5*before {
				t.Errorf("%s for ten seconds: %.4f s is believed, want much more than the %.4f before", name, got, before)
			}
			for range 100_000 {
				time.Sleep(10 * time.Millisecond)
				l.observe(a, time.Now())
			}
			if got := l.expected(); got > worst {
				t.Errorf("%s for long: %.1f s, want no more than %d", name, got, worst)
			}
		})
	}
}

// TestWhatClientsDoSaysNothing good of an endpoint, and nothing at all but that an answer took as long as they waited.
func TestWhatClientsDoSaysNothing(t *testing.T) {
	for name, c := range map[string]struct {
		attempt proxy.Attempt
		moves   bool
	}{
		"body broke":       {proxy.Attempt{Reason: proxy.BadBody, Total: time.Second}, false},
		"body stalled":     {proxy.Attempt{Reason: proxy.BodyTimeout, Total: time.Minute}, false},
		"left at once":     {proxy.Attempt{Reason: proxy.ClientClosed, Total: time.Millisecond}, false},
		"left after long":  {proxy.Attempt{Reason: proxy.ClientClosed, Total: 10 * time.Second}, true},
		"left in the body": {proxy.Attempt{Reason: proxy.ClientClosed, Status: 200, Header: 100 * time.Millisecond, Total: time.Minute}, true}, // there was an answer
	} {
		synctest.Test(t, func(t *testing.T) {
			var l latency
			l.observe(answered(200, 10*time.Millisecond), time.Now())
			time.Sleep(time.Second)
			before := l.expected()
			l.observe(&c.attempt, time.Now())
			if moved := math.Abs(l.expected()-before) > 0.0001; moved != c.moves || l.expected() < before-0.0001 {
				t.Errorf("%s: %.4f s became %.4f", name, before, l.expected())
			}
		})
	}
}

// TestEWMAComesBackToOneThatWasSlow: it gets requests again once it is fast again, without being overrun before that.
func TestEWMAComesBackToOneThatWasSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(5, Balance{Policy: EWMA})
		once := s.pool.members()[0]
		slow := time.Second
		s.took = func(e *Endpoint) time.Duration {
			if e == once {
				return slow
			}
			return 10 * time.Millisecond
		}
		s.every = time.Millisecond
		s.run(t, 100_000)
		if share := s.of(once); share > 0.1 || share == 0 {
			t.Errorf("while it is slow its share is %.4f, want little, but something", share)
		}
		slow = 10 * time.Millisecond
		s.run(t, 60_000)
		if s.run(t, 20_000); s.of(once) < 0.7 {
			t.Errorf("a minute after it was fast again its share is %.3f, want about 1", s.of(once))
		}
	})
}

// TestAttemptsTellTheLatency: what EWMA goes by is what requests of the same pool have met.
func TestAttemptsTellTheLatency(t *testing.T) {
	slow := endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			<-time.After(30 * time.Millisecond)
			s.send(ok2)
		}
	})
	f := front(t, 1, New(poolOf(t, slow, endpoint(t, answers(ok2))), Options{Balance: Balance{Policy: EWMA}}))
	to := 0
	for range 60 {
		f.get(t, "/")
		if e := f.exchange(t); e.Attempts[0].Endpoint == slow {
			to++
		}
	}
	if to > 10 {
		t.Errorf("%d of 60 requests went to an endpoint that takes 30 ms longer than the other", to)
	}
}
