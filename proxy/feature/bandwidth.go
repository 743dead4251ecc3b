package feature

import (
	"context"
	"net/http"
	"time"
)

// bandwidth sends answers no faster than a rate (reference B10).
func bandwidth(a *Annotations, d *Draft) {
	a.Section("Rate of answers", ReachPaths, "The rate is that of each answer by itself, however many a client has under way. What one second allows is sent ahead, as nginx does. "+
		"What has not been sent waits at the endpoint. Connections that have switched protocols, as WebSockets, are not slowed down.")
	rate := a.Shared().Int("limit-rate", 0, "how many kilobytes (of 1,024 bytes) a second of an answer's body are sent; 0 means no limit")
	after := a.Shared().Int("limit-rate-after", 0, "how many kilobytes of an answer's body are sent before limit-rate counts")
	if rate == 0 || a.Failed() {
		return
	}
	pace := pace{rate: int64(rate) << 10, after: int64(after) << 10}
	d.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&slowed{ResponseWriter: w, pace: pace, gone: r.Context()}, r)
		})
	})
}

// A pace is how fast bytes may go, in bytes.
type pace struct{ rate, after int64 }

// allowed is how many bytes may have gone some time after the first.
func (p pace) allowed(elapsed time.Duration) int64 {
	return p.after + int64(float64(p.rate)*(elapsed.Seconds()+1))
}

// wait is how long it takes until more bytes may go.
func (p pace) wait(more int64) time.Duration {
	return time.Duration(float64(more)/float64(p.rate)*float64(time.Second)) + 1
}

// slowed holds back what is written until it may go.
type slowed struct {
	http.ResponseWriter
	pace
	gone  context.Context // ends when the client has left
	start time.Time       // of the first write; zero: there was none
	sent  int64
	timer *time.Timer // nil: nothing had to wait yet
}

func (s *slowed) Write(p []byte) (n int, err error) {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	// A tenth of a second's worth at a time, so that bytes flow, and do not come one by one.
	piece := max(s.rate/10, 1)
	for {
		left := int64(len(p) - n)
		free := s.allowed(time.Since(s.start)) - s.sent
		if lacking := min(left, piece) - free; lacking > 0 {
			if err := s.sleep(s.wait(lacking)); err != nil {
				return n, err
			}
			continue
		}
		wrote, err := s.ResponseWriter.Write(p[n : n+int(min(left, free))])
		n += wrote
		s.sent += int64(wrote)
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// sleep sends what is written on its way, and waits.
func (s *slowed) sleep(length time.Duration) error {
	s.Flush()
	if s.timer == nil {
		s.timer = time.NewTimer(length)
	} else {
		s.timer.Reset(length)
	}
	select {
	case <-s.timer.C:
		return nil
	case <-s.gone.Done():
		s.timer.Stop()
		return context.Cause(s.gone)
	}
}

func (s *slowed) Flush() { http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (s *slowed) Unwrap() http.ResponseWriter { return s.ResponseWriter }
