package feature

import (
	"cmp"
	"strings"

	"sallyport/proxy/upstream"
)

// retries say when a request goes to another endpoint (reference A14).
func retries(a *Annotations, d *Draft) {
	a.Section("Retries", ReachPaths, "A request is sent again only while nothing of an answer has gone to the client and its body can be had again, which it can "+
		"while proxy-request-buffering is on. POST, PATCH and LOCK are not sent again once an endpoint can have seen them. An endpoint that refuses the "+
		"connection costs no time, and does not count as a try. However often a route may try, all routes to a Service port together send no more than "+
		"retry-budget of a hundred requests of the last ten seconds again, and ten a second beyond that; then the first fault is the answer. ingress-nginx "+
		"knows no such bound. Of several bodies of answers that are retried nobody gets any but the last.")
	o := &d.Upstream
	conditions := a.Shared().nextUpstream(cmp.Or(o.Retry, upstream.RetryOnError|upstream.RetryOnTimeout))
	timeout := a.Shared().Seconds("proxy-next-upstream-timeout", max(0, o.RetryTimeout), "the time from the first try after which no other begins; 0 means no limit")
	tries := a.Shared().Int("proxy-next-upstream-tries", max(0, cmp.Or(o.Tries, 3)), "how often a request is tried, the first included; 0 means no limit, which ends at 32")
	everything := a.Config().Bool("retry-non-idempotent", false, "whether POST, PATCH and LOCK are sent again although an endpoint may have acted on them")
	if everything {
		conditions |= upstream.RetryNonIdempotent
	}
	budget := a.Shared().IntBetween("retry-budget", max(0, cmp.Or(o.RetryBudget, 20)), 0, 100, "how many of a hundred requests may be sent again, ten a second apart")
	if o.RetryBudget = budget; budget == 0 {
		o.RetryBudget = -1
	} else if budget == 20 {
		o.RetryBudget = 0
	}
	o.Retry, o.RetryTimeout, o.Tries = conditions, timeout, tries
	if tries == 0 {
		o.Tries = -1
	}
}

// nextUpstream reads the words after which a request is retried.
func (a *Annotations) nextUpstream(usual upstream.RetryOn) upstream.RetryOn {
	const words = "error, timeout, invalid_header, http_500, http_502, http_503, http_504, http_403, http_404, http_429, non_idempotent and off"
	d := Declaration{
		Name: "proxy-next-upstream", Values: "words, separated by spaces: " + words, Default: "error timeout",
		Usage: "after what a request goes to another endpoint",
	}
	return read(a, d, usual, func(value string) (upstream.RetryOn, string) {
		var on upstream.RetryOn
		for word := range strings.FieldsSeq(value) {
			one, known := upstream.RetryWord(word)
			if !known {
				return 0, shown(word) + " is none of the words " + words
			}
			on |= one
		}
		return on, unless(on != 0, "expected some of the words "+words)
	})
}
