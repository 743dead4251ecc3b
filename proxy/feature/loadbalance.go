package feature

import (
	"net/http"
	"strings"
	"time"

	"sallyport/proxy/upstream"
)

// loadBalance says how the endpoints for requests are picked (reference A15, B2 #22 to #25).
func loadBalance(a *Annotations, d *Draft) {
	a.Section("Load balancing", ReachPaths, "round_robin gives every endpoint its turn. least_conn picks the one with the fewest requests in flight; of more than eight it looks at eight. "+
		"ewma takes two at random and picks the one that answers faster, by its latency of late times the requests in flight there; what fails at once is not taken for fast. random picks any. "+
		"sh goes by the client's address and dh by host and path, so that the same of them meets the same endpoint. Names of IPVS schedulers stand for the policy that does the same: "+
		"rr and wrr for round_robin, lc and wlc for least_conn; sed is least_conn with the request itself counted in, and nq like sed but for idle endpoints, which come first. "+
		"With upstream-hash-by all requests for which its value is the same go to one endpoint; an endpoint that comes or goes moves its own share of the values and no others, and while "+
		"one is away its values are spread over all others. It comes before load-balance, and the cookie of session affinity before both. "+
		"Replicas of the proxy keep turns and counts of their own; what goes by a value goes to the same endpoint in all of them.\n\n"+
		"Unlike in ingress-nginx, where the oldest Ingress of a Service port decides for all, each Ingress decides for its own routes; those that decide alike take turns together. Turns go on where they were "+
		"when endpoints change. With upstream-hash-by-subset an endpoint that goes changes only the sets that it was in. slow-start is our own.")
	policy := a.Shared().policy(d.Upstream.Balance.Policy)
	by := a.template("upstream-hash-by", "text with variables, as in $arg_user", "what requests have in common that go to one endpoint; an empty value is one too")
	shared := a.Bool("upstream-hash-by-subset", false, "whether requests with the same value of upstream-hash-by go to any of a few endpoints instead of one")
	size := a.Int("upstream-hash-by-subset-size", 3, "how many endpoints that are; 0 means 3")
	slow := a.slowStart()

	const needsHashBy = "expected upstream-hash-by beside it"
	switch {
	case by != nil:
		if policy != upstream.HashSubset {
			policy = upstream.HashKey
		}
		if shared {
			policy = upstream.HashSubset
		}
		if _, constant := by.Literal(); constant {
			a.Refuse("upstream-hash-by", "expected a variable as in $remote_addr; without one all requests go to the same endpoint")
		}
		d.Upstream.HashBy = func(r *http.Request) string {
			key, err := by.Expand(r)
			if err != nil {
				return "" // no request is refused for the length of its key; those that are too long share an endpoint
			}
			return key
		}
	case policy == upstream.HashKey || policy == upstream.HashSubset:
		a.Shared().Refuse("load-balance", needsHashBy+", which says what requests have in common; round_robin is used")
		policy = upstream.RoundRobin
	}
	if by == nil && shared && !a.Has("upstream-hash-by") {
		a.Refuse("upstream-hash-by-subset", needsHashBy+"; it has no effect")
	}
	if policy != upstream.HashSubset {
		if a.Has("upstream-hash-by-subset-size") && !shared {
			a.Refuse("upstream-hash-by-subset-size", `expected upstream-hash-by-subset: "true" beside it; it has no effect`)
		}
		size = 0
	}
	if policy.Hashes() && slow != 0 {
		a.Refuse("slow-start", "expected a policy that does not go by a value, which would have to change endpoints for it; it has no effect")
		slow = 0
	}
	d.Upstream.Balance = upstream.Balance{Policy: policy, Subset: size, SlowStart: slow}
}

// instead is what to write for words that people write and that are no policy here.
var instead = map[string]string{
	"ip_hash": "write sh", "mh": "write sh, which goes by the client's address and moves as few clients", "lblc": "write dh", "lblcr": `write upstream-hash-by: "$host$uri" and upstream-hash-by-subset`,
	"twos": "write ewma or least_conn", "least_time": "write ewma", "hash": "write upstream-hash-by",
	"fo": "nothing here sends all requests to one endpoint until it fails", "ovf": "nothing here fills one endpoint before the next",
}

// policy reads the name of a policy, in any case.
func (a *Annotations) policy(usual upstream.PolicyName) upstream.PolicyName {
	if usual == "" {
		usual = upstream.RoundRobin
	}
	const words = "round_robin, least_conn, ewma, random, sh or dh"
	d := Declaration{
		Name: "load-balance", Values: words + ", or a name of IPVS: rr, wrr, lc, wlc, sed or nq", Default: string(usual),
		Usage: "how the endpoint for a request is picked",
	}
	return read(a, d, usual, func(text string) (upstream.PolicyName, string) {
		word := strings.ToLower(strings.TrimSpace(text))
		if word == "sticky_balanced" || word == "sticky_persistent" {
			if a.Has("affinity") {
				return usual, "" // the cookie is asked for with the annotation, and clients without one are new
			}
			return "", `expected affinity: "cookie" beside it, which says what keeps a client at its endpoint`
		}
		if name, known := upstream.PolicyWord(word); known {
			return name, ""
		}
		expected := "expected " + words
		if advice := instead[word]; advice != "" {
			expected += "; " + advice
		}
		return "", expected
	})
}

// slowStart reads the time in which a new endpoint comes to its share.
func (a *Annotations) slowStart() time.Duration {
	const most = int(upstream.LongestSlowStart / time.Second)
	return time.Duration(a.IntBetween("slow-start", 0, 0, most, "in how many seconds an endpoint that is new to others, or comes back after it failed, grows from a tenth of its share to all of it; 0: it has its share at once")) * time.Second
}
