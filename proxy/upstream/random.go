package upstream

// random draws an endpoint for every request, by weight.
type random struct {
	rotating
	slow slowStart
}

// Pick draws one that fits.
func (p *random) Pick(pick Pick) *Endpoint {
	r := p.current()
	if r == nil {
		return nil
	}
	return r.any(&pick, p.slow, nil)
}
