package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestEndpointThatDiesWithoutAFINIsNotMissed has one of three endpoints lose its power under load: connections to it that
// are kept, or that are made for each request, lead into nothing. No client sees an error; a second later no request goes
// there but the one at a time that looks whether it is back; and when it is, it comes to its share within its slow start.
func TestEndpointThatDiesWithoutAFINIsNotMissed(t *testing.T) {
	for _, c := range []struct{ name, annotation string }{
		{"connections that are kept", ""},
		{"connections for each request", `, nginx.ingress.kubernetes.io/connection-proxy-header: close`},
	} {
		t.Run(c.name, func(t *testing.T) { dieWithoutAFIN(t, c.annotation) })
	}
}

func dieWithoutAFIN(t *testing.T, annotation string) {
	const slowStart = 4 * time.Second
	var all, ofMortal atomic.Int64
	serve := func(name string, counts ...*atomic.Int64) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, n := range counts {
				n.Add(1)
			}
			w.Header().Set("X-Endpoint", name)
			fmt.Fprintln(w, "here")
		})
	}
	one, two := e2e.Serve(t, "192.0.2.1:0", "one", serve("one", &all)), e2e.Serve(t, "192.0.2.2:0", "two", serve("two", &all))
	mortal := e2e.ServeMortal(t, "192.0.2.3:0", "mortal", serve("mortal", &all, &ofMortal))
	folder := e2e.Folder(t, map[string]string{
		"a.yaml": strings.Replace(ingress("a", "a.test", "/", "a"), "name: a}", `name: a, annotations: {nginx.ingress.kubernetes.io/slow-start: "`+fmt.Sprint(slowStart.Seconds())+`"`+annotation+`}}`, 1),
		"s.yaml": threeSlices(one.Addr, two.Addr, mortal.Addr),
	})
	p := e2e.Start(t, folder, "--access-log=json")
	load := e2e.StartLoad(t, p, 24, 5*time.Millisecond, e2e.Target{URL: "http://a.test/", Put: true})
	answers := func(n int64) {
		t.Helper()
		before := ofMortal.Load()
		e2e.Eventually(t, fmt.Sprintf("the endpoint answers %d requests", n), func() error {
			if got := ofMortal.Load() - before; got < n {
				return fmt.Errorf("it has answered %d", got)
			}
			return nil
		})
	}
	answers(200)

	mortal.Die(t)
	died := time.Now()
	until(t, died.Add(4*time.Second))
	mortal.Return(t)
	returned := time.Now()
	answers(1)
	back := time.Now()
	shares := make([]float64, 0, 6) // of all requests, second by second, as multiples of an equal one
	for i := range cap(shares) {
		allBefore, before := all.Load(), ofMortal.Load()
		until(t, back.Add(time.Duration(i+1)*time.Second))
		shares = append(shares, 3*float64(ofMortal.Load()-before)/float64(all.Load()-allBefore))
	}
	load.Stop(t, 1000)

	late, meanwhile, attempts, slowest := 0, 0, 0, 0.0
	for line := range strings.Lines(p.Log()) {
		var r struct {
			Time     time.Time
			Seconds  float64 `json:"request_time"`
			Attempts []struct{ Endpoint, Reason string }
		}
		if json.Unmarshal([]byte(line), &r) != nil {
			continue // no line of the access log
		}
		attempts += len(r.Attempts)
		slowest = max(slowest, r.Seconds)
		if r.Time.After(died.Add(time.Second)) && r.Time.Before(returned) {
			meanwhile++
			for _, a := range r.Attempts {
				if a.Endpoint == mortal.Addr {
					late++
				}
			}
		}
	}
	t.Logf("%d attempts for %d requests, the slowest took %.1f s; of %d that came later than a second after the death %d were sent there; it had answers %v after it was back, and then %.2f of an equal share, second by second",
		attempts, load.Requests(), slowest, meanwhile, late, back.Sub(returned).Round(time.Millisecond), shares)
	if late > 4 {
		t.Errorf("%d requests were sent to the endpoint between the second after its death and its return, want no more than look whether it is back", late)
	}
	if shares[0] > 0.6 {
		t.Errorf("in the first second after it was back the endpoint had %.2f of its share, want it spared", shares[0])
	}
	if last := shares[len(shares)-1]; last < 0.9 || last > 1.1 {
		t.Errorf("after its slow start the endpoint had %.2f of an equal share, want all of it", last)
	}
	if extra := attempts - int(load.Requests()); extra > int(load.Requests())/10 {
		t.Errorf("%d attempts were made for %d requests", attempts, load.Requests())
	}
	if meanwhile < 500 || slowest > 3 {
		t.Errorf("there were %d requests while the endpoint was away, and the slowest took %.1f s, want all clients served by the others", meanwhile, slowest)
	}
}

// until waits for a moment.
func until(t *testing.T, moment time.Time) {
	t.Helper()
	<-time.After(time.Until(moment))
}

// threeSlices is a Service with some endpoints, each in a slice of its own, since their ports differ.
func threeSlices(addrs ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}\n")
	for i, addr := range addrs {
		host, port, _ := net.SplitHostPort(addr)
		fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-%d, labels: {kubernetes.io/service-name: a}}\naddressType: IPv4\nports: [{port: %s}]\nendpoints: [{addresses: [%s]}]\n", i, port, host)
	}
	return b.String()
}
