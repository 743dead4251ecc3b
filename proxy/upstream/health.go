package upstream

import "sallyport/proxy"

// health is whether an endpoint is believed to be well. The zero value is. It is safe for concurrent use.
type health struct{}

// observe is told of an attempt that is over; f is why it failed, nil when it did not.
func (h *health) observe(a *proxy.Attempt, f *fault) {}
