package main

import (
	"maps"

	"sallyport/controller"
	"sallyport/proxy"
	"sallyport/proxy/admin"
	"sallyport/proxy/stream"
)

// setPassthrough tells the front which hosts' TLS connections are passed on, and where to. A host that goes where it went
// keeps its Passage, and with it whose turn it is among the endpoints.
func (s *server) setPassthrough(result controller.Result) {
	if maps.Equal(s.passed, result.Passthrough) {
		return
	}
	s.passed = result.Passthrough
	now := &proxy.Passthrough{ByHost: make(map[string]proxy.Passage, len(s.passed))}
	passages := make(map[stream.Service]*stream.Passage, len(s.passed))
	for host, service := range s.passed {
		if service == nil {
			now.ByHost[host] = nil
			continue
		}
		passage := passages[*service]
		if passage == nil {
			if passage = s.passages[*service]; passage == nil {
				passage = s.streams.Passage(*service)
			}
			passages[*service] = passage
		}
		now.ByHost[host] = passage
	}
	s.passages = passages
	s.front.SetPassthrough(now)
}

// countPassthrough is what the metrics say of connections that are passed on.
func (s *server) countPassthrough() admin.Passthrough {
	c := s.streams.Counts()
	return admin.Passthrough{Connections: c.Passed, Refused: c.Unpassed, Open: c.OpenPassed}
}
