package feature

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

func TestHowEndpointsArePicked(t *testing.T) {
	type set map[string]string
	const minute = time.Minute
	for _, c := range []struct {
		annotations, config set
		want                upstream.Balance
		problem             string // part of the only one; empty: there is none
	}{
		{nil, nil, upstream.Balance{Policy: upstream.RoundRobin}, ""},
		{set{"load-balance": "ewma"}, nil, upstream.Balance{Policy: upstream.EWMA}, ""},
		{set{"load-balance": " Least_Conn"}, nil, upstream.Balance{Policy: upstream.LeastConn}, ""},
		{set{"load-balance": "wlc"}, nil, upstream.Balance{Policy: upstream.LeastConn}, ""},
		{set{"load-balance": "nq"}, set{"load-balance": "ewma"}, upstream.Balance{Policy: upstream.NeverQueue}, ""},
		{nil, set{"load-balance": "ewma"}, upstream.Balance{Policy: upstream.EWMA}, ""},
		{set{"load-balance": "fastest"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, `"fastest": expected round_robin,`},
		{set{"load-balance": "fastest"}, set{"load-balance": "random"}, upstream.Balance{Policy: upstream.Random}, "the default of the ConfigMap is used"},
		{set{"load-balance": "ip_hash"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "write sh"},
		{set{"load-balance": "lblc"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "write dh"},
		{set{"load-balance": "fo"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "nothing here sends all requests to one endpoint"},
		{set{"load-balance": "client-ip"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "expected round_robin"},
		{set{"load-balance": "sticky_balanced"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, `affinity: "cookie" beside it`},
		{set{"load-balance": "sticky_persistent", "affinity": "cookie"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, ""},
		{set{"load-balance": "chash"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "upstream-hash-by beside it"},
		{nil, set{"load-balance": "chash"}, upstream.Balance{Policy: upstream.RoundRobin}, "upstream-hash-by beside it"},
		{set{"load-balance": "sh", "slow-start": "9"}, nil, upstream.Balance{Policy: upstream.HashClient}, "no effect"},

		{set{"upstream-hash-by": "$remote_addr"}, nil, upstream.Balance{Policy: upstream.HashKey}, ""},
		{set{"upstream-hash-by": "$request_uri$host", "load-balance": "ewma"}, nil, upstream.Balance{Policy: upstream.HashKey}, ""},
		{set{"upstream-hash-by": "${arg_a}-text"}, set{"load-balance": "least_conn"}, upstream.Balance{Policy: upstream.HashKey}, ""},
		{set{"upstream-hash-by": "all"}, nil, upstream.Balance{Policy: upstream.HashKey}, "expected a variable"},
		{set{"upstream-hash-by": "$nothing", "load-balance": "ewma"}, nil, upstream.Balance{Policy: upstream.EWMA}, `"$nothing" is no variable`},
		{set{"upstream-hash-by": "$host", "upstream-hash-by-subset": "true"}, nil, upstream.Balance{Policy: upstream.HashSubset, Subset: 3}, ""},
		{set{"upstream-hash-by": "$host", "upstream-hash-by-subset": "true", "upstream-hash-by-subset-size": "0"}, nil, upstream.Balance{Policy: upstream.HashSubset}, ""},
		{set{"upstream-hash-by": "$host", "load-balance": "chashsubset", "upstream-hash-by-subset-size": "7"}, nil, upstream.Balance{Policy: upstream.HashSubset, Subset: 7}, ""},
		{set{"upstream-hash-by": "$host", "upstream-hash-by-subset-size": "7"}, nil, upstream.Balance{Policy: upstream.HashKey}, `upstream-hash-by-subset: "true" beside it`},
		{set{"upstream-hash-by-subset": "true"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "upstream-hash-by beside it"},
		{set{"upstream-hash-by": "$host", "upstream-hash-by-subset": "yes"}, nil, upstream.Balance{Policy: upstream.HashKey}, `expected "true" or "false"`},
		{set{"upstream-hash-by": "$host", "slow-start": "9"}, nil, upstream.Balance{Policy: upstream.HashKey}, "no effect"},

		{set{"slow-start": "60"}, nil, upstream.Balance{Policy: upstream.RoundRobin, SlowStart: minute}, ""},
		{set{"slow-start": "60", "load-balance": "least_conn"}, nil, upstream.Balance{Policy: upstream.LeastConn, SlowStart: minute}, ""},
		{set{"slow-start": "60s"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "expected a whole number from 0 to 3600"},
		{set{"slow-start": "3601"}, nil, upstream.Balance{Policy: upstream.RoundRobin}, "expected a whole number from 0 to 3600"},
	} {
		p := passage{annotations: c.annotations, config: c.config, features: []func(*Annotations, *Draft){loadBalance}}
		d := p.drafted()
		if d.Upstream.Balance != c.want || len(d.layers) != 0 {
			t.Errorf("%q, %q: %+v with %d layers, want %+v", c.annotations, c.config, d.Upstream.Balance, len(d.layers), c.want)
		}
		if hashes := c.want.Policy == upstream.HashKey || c.want.Policy == upstream.HashSubset; hashes != (d.Upstream.HashBy != nil) {
			t.Errorf("%q: goes by a value %v, want %v", c.annotations, d.Upstream.HashBy != nil, hashes)
		}
		switch {
		case c.problem == "" && len(p.problems) != 0:
			t.Errorf("%q, %q: problems %v, want none", c.annotations, c.config, p.problems)
		case c.problem != "" && (len(p.problems) != 1 || !strings.Contains(p.problems[0].Message, c.problem)):
			t.Errorf("%q, %q: problems %v, want one with %q", c.annotations, c.config, p.problems, c.problem)
		}
	}
}

// TestWhatEndpointsArePickedBy sends requests whose value is the same to one of eight endpoints, and others to more.
func TestWhatEndpointsArePickedBy(t *testing.T) {
	named := make([]http.Handler, 8)
	for i := range named {
		named[i] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })
	}
	for _, c := range []struct {
		annotations   map[string]string
		target, field string // %d is another number in each request
		least, most   int    // endpoints that answer
	}{
		{map[string]string{"upstream-hash-by": "$arg_user"}, "/%d?user=7", "X-A: %d", 1, 1},
		{map[string]string{"upstream-hash-by": "$arg_user"}, "/?user=%d", "X-A: 1", 5, 8},
		{map[string]string{"upstream-hash-by": "$arg_user"}, "/%d", "X-A: %d", 1, 1}, // an empty value is one
		{map[string]string{"upstream-hash-by": "$http_x_a"}, "/", "X-A: %d", 5, 8},
		{map[string]string{"upstream-hash-by": "$remote_addr", "load-balance": "random"}, "/%d", "X-A: %d", 1, 1},
		{map[string]string{"upstream-hash-by": "$remote_addr", "upstream-hash-by-subset": "true"}, "/%d", "X-A: %d", 3, 3},
		{map[string]string{"upstream-hash-by": "$remote_addr", "upstream-hash-by-subset": "true", "upstream-hash-by-subset-size": "2"}, "/", "X-A: %d", 2, 2},
		{map[string]string{"load-balance": "sh"}, "/%d", "X-A: %d", 1, 1},
		{map[string]string{"load-balance": "dh"}, "/same?a=%d", "X-A: %d", 1, 1},
		{map[string]string{"load-balance": "dh"}, "/%d", "X-A: 1", 5, 8},
		{map[string]string{"load-balance": "wrr", "slow-start": "30"}, "/%d", "X-A: 1", 8, 8},
		{map[string]string{"load-balance": "least_conn"}, "/", "X-A: 1", 8, 8},
		{map[string]string{"load-balance": "ewma"}, "/", "X-A: 1", 3, 8}, // the slowest need not be asked again
		{nil, "/", "X-A: 1", 8, 8},
	} {
		p := (&passage{annotations: c.annotations, features: []func(*Annotations, *Draft){loadBalance}, endpoints: named}).open(t)
		seen := make(map[string]bool)
		for i := range 96 {
			filled := func(text string) string { return strings.ReplaceAll(text, "%d", fmt.Sprint(i)) }
			_, body := p.get(t, filled(c.target), filled(c.field))
			p.became(t)
			seen[body] = true
		}
		if len(seen) < c.least || len(seen) > c.most {
			t.Errorf("%q with %s and %s: %d endpoints answered, want %d to %d", c.annotations, c.target, c.field, len(seen), c.least, c.most)
		}
	}
}

// TestAValueThatIsTooLongRefusesNobody: it is taken for an empty one.
func TestAValueThatIsTooLongRefusesNobody(t *testing.T) {
	p := passage{annotations: map[string]string{"upstream-hash-by": "$http_x_a$http_x_a"}, features: []func(*Annotations, *Draft){loadBalance}}
	by := p.drafted().Upstream.HashBy
	key := func(value string) string {
		r, err := http.NewRequest("GET", "http://h.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-A", value)
		return by(proxy.With(r, new(proxy.Exchange)))
	}
	if got := key("ab"); got != "abab" {
		t.Errorf("the value is %q, want abab", got)
	}
	if got := key(strings.Repeat("a", 20<<10)); got != "" {
		t.Errorf("the value has %d bytes, want none", len(got))
	}
}
