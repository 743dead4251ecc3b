package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestAnOutageReachesEndpointsOnce has all endpoints of a Service take requests and break off. Each request could be sent
// three times; what endpoints see is little more than what clients ask: a fifth, and ten a second.
func TestAnOutageReachesEndpointsOnce(t *testing.T) {
	var asked atomic.Int64
	breaks := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	})
	one, two, three := e2e.Serve(t, "192.0.2.1:0", "one", breaks), e2e.Serve(t, "192.0.2.2:0", "two", breaks), e2e.Serve(t, "192.0.2.3:0", "three", breaks)
	p := e2e.Start(t, e2e.Folder(t, map[string]string{
		"a.yaml": ingress("a", "a.test", "/", "a"),
		"s.yaml": threeSlices(one.Addr, two.Addr, three.Addr),
	}), "--access-log=json")
	const clients, each = 8, 500
	var answered atomic.Int64 // with a fault of the endpoint's
	var done sync.WaitGroup
	begun := time.Now()
	for range clients {
		done.Go(func() {
			client := p.Client(nil)
			defer client.CloseIdleConnections()
			for range each {
				answer, err := client.Get("http://a.test/")
				if err != nil {
					t.Error(err)
					return
				}
				answer.Body.Close()
				if answer.StatusCode == http.StatusBadGateway {
					answered.Add(1)
				}
			}
		})
	}
	done.Wait()
	seconds := time.Since(begun).Seconds()
	tries := [4]int{} // how many requests were tried so often
	for line := range strings.Lines(p.Log()) {
		var r struct{ Attempts []struct{} }
		if json.Unmarshal([]byte(line), &r) == nil && len(r.Attempts) > 0 {
			tries[min(len(r.Attempts), 3)]++
		}
	}
	const requests = clients * each
	t.Logf("%d requests in %.1f s, %d answered 502, reached endpoints %d times: %d were tried once, %d twice, %d three times or more",
		requests, seconds, answered.Load(), asked.Load(), tries[1], tries[2], tries[3])
	if answered.Load() != requests {
		t.Errorf("%d of %d requests were answered 502", answered.Load(), requests)
	}
	if most := requests*1.2 + 10*(seconds+10); float64(asked.Load()) > most {
		t.Errorf("%d requests reached endpoints %d times, want no more than %.0f", requests, asked.Load(), most)
	}
	if asked.Load() <= requests {
		t.Errorf("%d requests reached endpoints %d times: none was sent again", requests, asked.Load())
	}
}
