package upstream

// roundRobin gives every endpoint its turn: exactly, from the first on, and by weight where there are weights.
type roundRobin struct {
	rotating
	slow slowStart
}

// Pick takes the endpoint whose turn it is, or the next that fits. One that does not fit loses its turn: if the endpoint
// behind it had the request and its own turn as well, it would carry a double share for as long as the other is away.
func (p *roundRobin) Pick(pick Pick) *Endpoint {
	r := p.current()
	if r == nil {
		return nil
	}
	var spare *Endpoint
	for range r.members {
		e := r.order[r.next()]
		if !pick.Fits(e) {
			continue
		}
		if !p.slow.declines(e) {
			return e
		}
		spare = e
	}
	if spare != nil {
		return spare
	}
	return pick.from(r.members, int(r.turn.Load()%uint64(len(r.members)))) // others took turns at the same time
}
