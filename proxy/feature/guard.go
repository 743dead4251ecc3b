package feature

import "net/http"

// A Check lets a request pass by returning nil, or returns what refuses it. It writes nothing itself, so that another
// check may still let the request pass: see [Draft.SatisfyAny].
type Check func(r *http.Request) (refusal http.Handler)

// Guard adds a check that requests must pass. All checks of a draft stand where the first of them was added, and are
// asked in the order they were added.
func (d *Draft) Guard(check Check) {
	if d.guard == nil {
		d.guard = &guard{draft: d}
		d.Use(d.guard.middleware)
	}
	d.guard.checks = append(d.guard.checks, check)
}

// SatisfyAny makes one passed check enough; otherwise a request must pass them all. It guards nothing by itself.
func (d *Draft) SatisfyAny() { d.satisfyAny = true }

// guard is the checks of one draft.
type guard struct {
	checks []Check
	draft  *Draft
}

func (g *guard) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := g.ask(r); refusal != nil {
			refusal.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ask returns what refuses the request: of several that do, where any would have been enough, the last, because checks
// go from what a client cannot change, its address, to what it can, its credentials.
func (g *guard) ask(r *http.Request) (refusal http.Handler) {
	for _, check := range g.checks {
		refusal = check(r)
		if passed := refusal == nil; passed == g.draft.satisfyAny {
			return refusal
		}
	}
	return refusal
}
