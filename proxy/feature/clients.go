package feature

import (
	"fmt"
	"strings"
	"time"

	"sallyport/proxy"
)

// clients is what the ConfigMap says of clients and of what passes between them and endpoints (reference A11). It holds for
// the whole process, whose front is told by [Config.Clients]: an Ingress has nothing to say, and nothing is written to its
// draft.
func clients(a *Annotations, _ *Draft) { readClients(a) }

func readClients(a *Annotations) *proxy.Clients {
	patience := readPatience(a)
	hsts := a.hsts()
	a.Section("Who the client is", ReachProcess, "Without these keys, and without `--trusted-proxies`, the client is the other end of the connection, and what it says of itself in "+
		"X-Forwarded-For and the like is replaced. Endpoints get its words as X-Original-Forwarded-For and X-Original-Forwarded-Host. "+
		"X-Forwarded-For holds one address: that of the client, as X-Real-IP does.\n\n"+
		"Behind a load balancer that speaks HTTP set use-forwarded-headers; behind one that passes connections on, have it send PROXY headers and set use-proxy-protocol. "+
		"In both cases set proxy-real-ip-cidr to where it is: the usual value believes whoever reaches the port, so that a client that gets past the load balancer can claim any address, "+
		"and access lists and limits with it. Where `--trusted-proxies` is given and proxy-real-ip-cidr is not, only those are trusted; where both are, both. "+
		"Of several addresses in the field the last one counts that is not trusted. Where one of these keys is on, a mistake in proxy-real-ip-cidr closes every route, since nobody would know any more who is let in.\n\n"+
		"Unlike in ingress-nginx the scheme, the host and the port that a request claims are believed of trusted peers only, too; IPv6 is trusted as IPv4 is; "+
		"a field that forwarded-for-header names is removed from what others send; "+
		"and with use-proxy-protocol connections of peers that are not trusted are closed. Headers of version 1 and 2 are read. "+
		"What the client connected to, by the PROXY header, gives X-Forwarded-Port, and X-Forwarded-Proto https where that is 443. "+
		"With use-forwarded-headers beside it, the peer that must be trusted to say more is the one that the PROXY header names. "+
		"forwarded-for-proxy-protocol-header names something inside of nginx, and means nothing here. A change holds from the next request on, that of use-proxy-protocol from the next connection.")
	a = a.Config()
	c := &proxy.Clients{
		Patience:         patience,
		HSTS:             hsts,
		Forwarded:        a.Bool("use-forwarded-headers", false, "whether trusted peers are believed who the client is, and which scheme, host and port it asked for"),
		RealIP:           a.Bool("enable-real-ip", false, "whether trusted peers are believed who the client is, and nothing else"),
		ForwardedFor:     a.clientField(),
		FullForwardedFor: a.Bool("compute-full-forwarded-for", false, "whether X-Forwarded-For keeps what a trusted peer sent, with the peer's address behind it"),
		ProxyProtocol:    a.Bool("use-proxy-protocol", false, "whether every connection must begin with a PROXY header"),
		ProxyTimeout:     a.duration("proxy-protocol-header-timeout", 5*time.Second, "the time a connection has to send its PROXY header"),
	}
	guard := a
	if c.Forwarded || c.RealIP || c.ProxyProtocol {
		guard = a.Strict() // who the client is decides who is let in
	}
	c.Trusted = guard.CIDRs("proxy-real-ip-cidr", "the peers that are trusted; usually everyone, once use-forwarded-headers, enable-real-ip or use-proxy-protocol is set")
	a.Section("What is passed on", ReachProcess, "A client's header fields pass, but for those that only the proxy may set, and those whose names programs read in several ways: "+
		"many take X_Real_IP for X-Real-IP. Where such names are let pass, what could be read as a field that only the proxy may set, or as one that frames the message, is removed all the same.\n\n"+
		"Unlike in ingress-nginx, X-Original-URI holds the target without dot segments, as the endpoint gets it; and without generate-request-id the log and the error pages have an id all the same.")
	c.OriginalURI = a.Bool("proxy-add-original-uri-header", false, "whether endpoints get the target that the client asked for in X-Original-URI")
	c.NoID = !a.Bool("generate-request-id", true, "whether a request that comes without X-Request-ID gets one")
	c.Underscores = a.Bool("enable-underscores-in-headers", false, "whether fields pass whose names hold an underscore")
	c.OddNames = !a.Bool("ignore-invalid-headers", true, "whether fields are removed whose names hold anything but letters, digits, hyphens and, where they are enabled, underscores")
	c.ServerField = a.Bool("allow-backend-server-header", false, "whether the Server field of endpoints is passed on")
	return c
}

// clientField reads the name of the field that says who the client is.
func (a *Annotations) clientField() string {
	const usual = "X-Forwarded-For"
	d := Declaration{Name: "forwarded-for-header", Values: "the name of a header field", Default: usual, Usage: "the field in which trusted peers say who the client is, as in CF-Connecting-IP"}
	return read(a, d, usual, func(value string) (string, string) {
		name := canonical(strings.TrimSpace(value))
		if expected := checkFieldName(name); expected != "" {
			return "", expected
		}
		if proxy.OfMessage(name) {
			return "", fmt.Sprintf("%s says something else than who the client is", name)
		}
		return name, ""
	})
}

// duration reads a time with its unit.
func (a *Annotations) duration(name string, usual time.Duration, usage string) time.Duration {
	const most = time.Hour
	d := Declaration{Name: name, Values: "a time with its unit, as in 5s", Default: usual.String(), Usage: usage}
	return read(a, d, usual, func(value string) (time.Duration, string) {
		v, err := time.ParseDuration(strings.TrimSpace(value))
		return v, unless(err == nil && v > 0 && v <= most, `expected a time as in "5s" or "500ms", no longer than an hour`)
	})
}
