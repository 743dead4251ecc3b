package upstream

// ServiceOptions are what holds for the endpoints of a pool, whichever route leads there. They are comparable; the zero
// value asks for nothing.
type ServiceOptions struct{}

// Configure makes o the options of the pool.
func (p *Pool) Configure(o ServiceOptions) {
	p.set.Lock()
	defer p.set.Unlock()
	if p.options == o {
		return
	}
	p.options = o
}
