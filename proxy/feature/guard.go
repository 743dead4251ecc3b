package feature

import "net/http"

// A Check lets a request pass by returning nil, or returns what refuses it. It writes nothing itself, so that another
// check may still let the request pass: see [Draft.SatisfyAny].
type Check func(r *http.Request) (refusal http.Handler)

// Guard adds a check that requests must pass. All checks of a draft stand where the first of them was added, and are
// asked in the order they were added.
func (d *Draft) Guard(check Check) { d.GuardAt(func(Place) Check { return check }) }

// GuardAt is Guard with a check that is made for each place. A nil Check is none at all: the other checks decide there.
func (d *Draft) GuardAt(check func(Place) Check) {
	if d.guard == nil {
		d.guard = &guard{draft: d}
		d.UseAt(d.guard.at)
	}
	d.guard.checks = append(d.guard.checks, check)
}

// SatisfyAny makes one passed check enough; otherwise a request must pass them all. It guards nothing by itself.
func (d *Draft) SatisfyAny() { d.satisfyAny = true }

// guard is the checks of one draft.
type guard struct {
	checks []func(Place) Check
	draft  *Draft
}

// at is the checks of one place.
func (g *guard) at(place Place) Middleware {
	var checks []Check
	for _, at := range g.checks {
		if check := at(place); check != nil {
			checks = append(checks, check)
		}
	}
	if len(checks) == 0 {
		return nil
	}
	return func(next http.Handler) http.Handler { return &behindChecks{next, checks, g.draft.satisfyAny} }
}

// behindChecks is a handler that requests reach which pass the checks before it.
type behindChecks struct {
	next   http.Handler
	checks []Check
	any    bool // one passed check is enough
}

func (g *behindChecks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refusal := g.ask(r); refusal != nil {
		refusal.ServeHTTP(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// ask returns what refuses the request: of several that do, where any would have been enough, the last, because checks
// go from what a client cannot change, its address, to what it can, its credentials.
func (g *behindChecks) ask(r *http.Request) (refusal http.Handler) {
	for _, check := range g.checks {
		refusal = check(r)
		if passed := refusal == nil; passed == g.any {
			return refusal
		}
	}
	return refusal
}
