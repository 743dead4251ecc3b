package feature

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/feature/limiter"
	"sallyport/proxy/feature/value"
)

// limits refuse a client that asks for more than its share (reference B10). An Ingress has one set of shares for all its
// hosts and paths, which outlives every change of the Ingress but one of the limits themselves.
func limits(a *Annotations, d *Draft) {
	a.Section("Limits of requests", ReachPaths, "Each client has its own share, of the Ingress as a whole, in every replica. A client is an IPv4 address, or the /64 network of "+
		"an IPv6 address, which is the least a customer is given; ingress-nginx counts every IPv6 address alone. With limit-rps: 1 and the usual multiplier six requests "+
		"at once pass, then one a second. A refused request counts nowhere, and is told when to come back in Retry-After. "+
		"Clients understand the status 429, which limit-req-status-code sets, better than the usual 503. A limit that cannot be read makes the routes answer 503.")
	atOnce := a.Int("limit-connections", 0, "how many requests a client may have under way; 0 means no limit")
	perSecond := a.Int("limit-rps", 0, "how many requests a second a client may send; 0 means no limit")
	perMinute := a.Int("limit-rpm", 0, "how many requests a minute a client may send; 0 means no limit")
	burst := a.Int("limit-burst-multiplier", 5, "how many times the rate a client may be ahead of it")
	exempt := a.CIDRs("limit-allowlist", "the clients that have no limit")
	former := a.CIDRs("limit-whitelist", "the former name of limit-allowlist, which counts where that is absent")
	l := limited{
		rateStatus:   a.Config().IntBetween("limit-req-status-code", http.StatusServiceUnavailable, 400, 599, "the status for requests over limit-rps or limit-rpm"),
		atOnceStatus: a.Config().IntBetween("limit-conn-status-code", http.StatusServiceUnavailable, 400, 599, "the status for requests over limit-connections"),
		by:           a.limitKey(),
	}
	if exempt == nil {
		exempt = former
	}
	if a.Failed() || atOnce == 0 && perSecond == 0 && perMinute == 0 {
		return
	}
	l.exempt = addressesOf(exempt)
	by := addressVariable
	if l.by != nil {
		by = l.by.String()
	}
	if perSecond > 0 || perMinute > 0 {
		key := fmt.Sprintf("limits: %d a second, %d a minute, burst %d, by %s", perSecond, perMinute, burst, by)
		l.rate = Recall(d, key, func() *limiter.Rate {
			var limits []limiter.Limit
			if perSecond > 0 {
				limits = append(limits, limiter.Limit{Requests: perSecond, Per: time.Second, Burst: times(perSecond, burst)})
			}
			if perMinute > 0 {
				limits = append(limits, limiter.Limit{Requests: perMinute, Per: time.Minute, Burst: times(perMinute, burst)})
			}
			return limiter.NewRate(0, limits...)
		})
	}
	if atOnce > 0 {
		key := fmt.Sprintf("limits: %d at once, by %s", atOnce, by)
		l.atOnce = Recall(d, key, func() *limiter.Concurrent { return limiter.NewConcurrent(atOnce) })
	}
	d.Use(func(next http.Handler) http.Handler {
		l := l
		l.next = next
		return &l
	})
}

// times is a product of two numbers that are not negative, or the largest int.
func times(a, b int) int {
	if a != 0 && b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}

// addressVariable is what clients are told apart by where nobody says otherwise.
const addressVariable = "$binary_remote_addr"

// limitKey reads what clients are told apart by. Nil: their addresses.
func (a *Annotations) limitKey() *value.Template {
	d := Declaration{
		Name: "limit-conn-zone-variable", Values: "text with variables", Default: addressVariable,
		Usage: "what tells clients apart that limits count; a request for which it is empty has no limit",
	}
	return read(a.Config(), d, nil, func(text string) (*value.Template, string) {
		switch text {
		case addressVariable, "$remote_addr":
			return nil, ""
		}
		t, err := value.Parse(text)
		if err != nil {
			return nil, err.Error()
		}
		return t, ""
	})
}

type limited struct {
	next                     http.Handler
	rate                     *limiter.Rate       // nil: no limit in time
	atOnce                   *limiter.Concurrent // nil: no limit of requests under way
	by                       *value.Template     // nil: the client's address
	exempt                   *addresses
	rateStatus, atOnceStatus int
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, counts := l.key(r)
	if !counts {
		l.next.ServeHTTP(w, r)
		return
	}
	// The rate first, as in nginx: a client that is refused for it takes no place among those under way.
	if l.rate != nil {
		if ok, wait := l.rate.Allow(key, time.Now()); !ok {
			refuseFor(w, r, l.rateStatus, proxy.RateLimited, wait)
			return
		}
	}
	if l.atOnce != nil {
		if !l.atOnce.Acquire(key) {
			refuseFor(w, r, l.atOnceStatus, proxy.TooManyRequests, time.Second) // nobody knows how long the others take
			return
		}
		defer l.atOnce.Release(key)
	}
	l.next.ServeHTTP(w, r)
}

// key is whom a request counts for; it may count for nobody.
func (l *limited) key(r *http.Request) (key limiter.Key, counts bool) {
	client := proxy.From(r).Client
	if l.exempt.holds(client) {
		return key, false
	}
	if l.by == nil {
		return limiter.Network(client), true
	}
	text, err := l.by.Expand(r)
	if err != nil { // too long, which is no way out
		return limiter.Network(client), true
	}
	return limiter.Text(text), text != ""
}

// refuseFor refuses a request and says after how long another may pass, in whole seconds that are enough.
func refuseFor(w http.ResponseWriter, r *http.Request, status int, reason proxy.Reason, wait time.Duration) {
	seconds := (wait + time.Second - 1) / time.Second
	w.Header().Set("Retry-After", strconv.FormatInt(int64(max(seconds, 1)), 10))
	proxy.Fail(w, r, status, reason)
}
