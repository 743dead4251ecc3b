package feature

import (
	"time"

	"sallyport/proxy/http1"
)

// readPatience reads how long clients may take, and how long their connections stay (reference C1, client limits).
func readPatience(a *Annotations) http1.Patience {
	a.Section("Patience with clients", ReachProcess, "A client that is too slow gets 408 where an answer can still be read, and its connection ends. A whole head must come in time, not only each piece "+
		"of it; a body of a known length must also come with 64 bytes a second on average once it has taken ten seconds. Unlike in ingress-nginx, whose heads have 60 seconds, "+
		"the usual time for one is ten, which holds for the handshake of TLS whatever is written here. A connection may bring any number of requests unless keep-alive-requests says otherwise, "+
		"where ingress-nginx closes it after 1,000. What holds for requests over HTTP/2 is client-body-timeout. A change counts at once.")
	a = a.Config()
	return http1.Patience{
		Head:     a.wait("client-header-timeout", 10*time.Second, "how many seconds the head of a request may take"),
		Gap:      a.wait("client-body-timeout", 60*time.Second, "how many seconds may pass between two pieces of a body, and until a client takes a piece of its answer"),
		Idle:     a.wait("keep-alive", 75*time.Second, "how many seconds a connection stays open between two requests"),
		Requests: a.Int("keep-alive-requests", 0, "how many requests a connection may bring; 0 means any number"),
	}
}

// wait reads a number of seconds, one at least.
func (a *Annotations) wait(name string, usual time.Duration, usage string) time.Duration {
	return time.Duration(a.IntBetween(name, int(usual/time.Second), 1, 24*3600, usage)) * time.Second
}
