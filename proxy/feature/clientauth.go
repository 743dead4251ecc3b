package feature

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/feature/pattern"
	"sallyport/proxy/feature/trust"
	"sallyport/proxy/feature/value"
)

// clientAuth asks the clients of the hosts for certificates (reference B7).
func clientAuth(a *Annotations, d *Draft) {
	a.Section("Client certificates", ReachHosts, "The handshake asks for a certificate, and requests are answered: 400 where there is none or one that is refused, 403 for another common name. "+
		"A request for such a host over a connection whose handshake was for a host that asks for something else is answered 421. In the clear, where nobody can show a "+
		"certificate, requests are redirected to HTTPS or refused, whatever ssl-redirect says, but for those of paths below "+challenges+" in Ingresses. Endpoints get ssl-client-verify (SUCCESS, NONE, or FAILED: and why), "+
		"ssl-client-subject-dn and ssl-client-issuer-dn, and so does an auth-url; what clients send under such names is dropped on every route. "+
		"What cannot be read, a Secret without usable authorities, and Ingresses of one namespace that ask for different things of one host close all of the host with 403; an Ingress of "+
		"another namespace than the host's oldest closes only its own routes where it asks for something else. With a ca.crl in the Secret every certificate needs a list that is in force. "+
		"auth-tls-match-cn is compared with the whole common name of a verified certificate; in ingress-nginx with any part of the subject, of any certificate.")
	const secret, cn = "auth-tls-secret", "auth-tls-match-cn"
	data := a.Secret(secret, "has the authorities that clients must have a certificate of, ca.crt, and the certificates that were revoked, ca.crl")
	mode := a.Word("auth-tls-verify-client", "on", []string{"on", "off", "optional", "optional_no_ca"}, "whether clients must have a certificate: on; may, but no other than a good one: optional; may have any, which endpoints are told: optional_no_ca; or are asked for none: off")
	depth := a.Int("auth-tls-verify-depth", 1, "how many authorities may stand between a client's certificate and the one that is trusted by itself; 0 means 1")
	common := a.matchCN(cn)
	page := a.errorPage("auth-tls-error-page")
	pass := a.Bool("auth-tls-pass-certificate-to-upstream", false, "whether endpoints get the certificate itself, as ssl-client-cert: PEM, percent-encoded")
	if a.Failed() {
		return // closeHosts closes
	}
	if data == nil {
		switch name := "auth-tls-verify-client"; {
		case a.in.Objects == nil:
		case a.Has(cn):
			a.Refuse(cn, "expected auth-tls-secret beside it, which says whose certificates count")
		case a.Has(name) && mode == "on":
			a.Refuse(name, "expected auth-tls-secret beside it, which says whose certificates count")
		case mode != "off":
			a.remarkInert(name, "it does nothing without auth-tls-secret")
		}
		return
	}
	authorities := data["ca.crt"]
	if len(authorities) == 0 {
		a.Refuse(secret, fmt.Sprintf("the Secret has no ca.crt; it has %s", keysOf(data)))
		return
	}
	bundle, complaint := readBundle(authorities, data)
	if complaint != "" {
		a.Refuse(secret, complaint)
		return
	}
	if stale := bundle.Stale(time.Now()); stale != "" {
		a.warn(secret, "nobody is let in: "+stale)
	}
	c := &ClientAuth{mode: mode, depth: max(depth, 1), bundle: bundle, common: common, page: page, pass: pass, draft: d}
	sum := sha256.New()
	for _, part := range []string{string(authorities), string(data["ca.crl"]), mode, fmt.Sprint(c.depth), fmt.Sprint(common)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	c.id = hex.EncodeToString(sum.Sum(nil))
	c.verdicts = Recall(d, "client certificates "+c.id, func() *verdicts { return new(verdicts) })
	d.Host.Clients = c
}

// closeHosts closes the hosts of an Ingress that was to ask for client certificates and cannot: whoever wrote such an
// annotation believes that nobody reaches the host without one, also by way of other Ingresses.
func (a *Annotations) closeHosts(d *Draft) {
	for _, p := range a.problems {
		if name, _ := nameOf(p.Annotation); p.Denies && !p.Config && asksClients(name) {
			d.Host.Clients = NobodyEnters()
		}
	}
}

// asksClients reports whether an annotation, by its name, is about client certificates. It need not be one that exists.
func asksClients(name string) bool { return strings.HasPrefix(strings.ToLower(name), "auth-tls") }

// matchCN reads what the common name of clients must be. Nil: anything.
func (a *Annotations) matchCN(name string) *regexp.Regexp {
	d := Declaration{Name: name, Values: `"CN=" and a regular expression`, Usage: "what the common name of a client's certificate must be, as a whole; else it is answered 403"}
	return read(a, d, nil, func(value string) (*regexp.Regexp, string) {
		expr, ok := strings.CutPrefix(value, "CN=")
		if !ok || expr == "" || oneLine(expr) != "" {
			return nil, `expected "CN=" and a regular expression, as in "CN=(alice|bob)"`
		}
		if err := pattern.DiagnoseText(expr); err != nil {
			return nil, "expected \"CN=\" and a regular expression: " + err.Error()
		}
		// Not by (?i) or part, as routes are: CN=bob is not to let BOB in, nor bobby.
		re, err := regexp.Compile("^(?:" + expr + ")$")
		if err != nil {
			return nil, `expected "CN=" and a regular expression, as in "CN=(alice|bob)"`
		}
		return re, ""
	})
}

// An authPage answers in place of 400. The zero value does not.
type authPage struct {
	url  string // where clients are sent
	path string // of the host, which answers
}

// errorPage reads it.
func (a *Annotations) errorPage(name string) authPage {
	d := Declaration{Name: name, Values: "a URL, or a path of the host", Usage: "where clients are redirected instead of 400, or the path of the host that answers them, without a certificate"}
	return read(a, d, authPage{}, func(text string) (authPage, string) {
		const expected = `expected a URL as in "https://example.org/help", or a path of the host as in "/help"; names of nginx's own, as in "@help", are not supported`
		if oneLine(text) != "" {
			return authPage{}, expected
		}
		if strings.HasPrefix(text, "/") {
			u, err := url.Parse(text)
			ok := err == nil && u.Host == "" && u.Path == text && path.Clean(u.Path) == strings.TrimSuffix(u.Path, "/") || text == "/"
			return authPage{path: text}, unless(ok && !strings.ContainsAny(text, "$\\;"), expected)
		}
		u, err := url.Parse(text)
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && !strings.Contains(text, "$")
		if !ok {
			return authPage{}, expected
		}
		return authPage{url: u.String()}, ""
	})
}

// ClientAuth is what is asked of clients about a certificate of theirs. It never changes.
type ClientAuth struct {
	id       string
	closed   bool   // nobody enters
	mode     string // on, off, optional or optional_no_ca
	depth    int
	bundle   *trust.Bundle
	common   *regexp.Regexp // nil: any name
	page     authPage
	pass     bool
	draft    *Draft
	verdicts *verdicts
}

// NobodyEnters is for what cannot be asked, or not be agreed upon: every request is answered 403.
func NobodyEnters() *ClientAuth { return &ClientAuth{closed: true, id: "closed"} }

// ID is the same for those who let the same clients in.
func (c *ClientAuth) ID() string { return c.id }

// Closed reports whether nobody is let in.
func (c *ClientAuth) Closed() bool { return c.closed }

// Asks reports whether handshakes are to ask for a certificate.
func (c *ClientAuth) Asks() bool { return !c.closed && c.mode != "off" }

// Authorities are those to name to clients; nil: any will do.
func (c *ClientAuth) Authorities() *x509.CertPool {
	if c.mode == "optional_no_ca" {
		return nil
	}
	return c.bundle.Pool()
}

// Around is next behind the check of the client's certificate, which comes before anything else is asked of a route.
func (c *ClientAuth) Around(at Place, next http.Handler) http.Handler {
	if !c.closed && c.mode == "off" && c.common == nil {
		return next
	}
	g := &clientCheck{ClientAuth: c, next: next, challenge: strings.HasPrefix(at.Match.Path, challenges)}
	if !c.closed && at.HostTLS {
		redirect := c.draft.toTLS
		redirect.next = nil // the scheme is http where it is asked
		g.redirect = &redirect
	}
	return g
}

type clientCheck struct {
	*ClientAuth
	next      http.Handler
	challenge bool   // the route answers ACME challenges, which come in the clear
	redirect  *toTLS // nil: the host has no certificate to redirect to
}

// Fields that endpoints get. Clients' own are dropped by the front.
const (
	clientVerifyField  = "Ssl-Client-Verify"
	clientSubjectField = "Ssl-Client-Subject-Dn"
	clientIssuerField  = "Ssl-Client-Issuer-Dn"
	clientCertField    = "Ssl-Client-Cert"
)

func (g *clientCheck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := proxy.From(r)
	if g.closed {
		proxy.Fail(w, r, http.StatusForbidden, proxy.ClientCertOnly)
		return
	}
	var sent []*x509.Certificate
	if r.TLS != nil {
		sent = r.TLS.PeerCertificates
	}
	must := g.mode == "on" || g.common != nil
	if r.TLS == nil && must {
		switch {
		case g.challenge && e.Scheme == "http" && strings.HasPrefix(e.Path, challenges+"/"): // the route may be an expression that takes more
			g.next.ServeHTTP(w, r)
		case g.redirect != nil && e.Scheme == "http":
			g.redirect.ServeHTTP(w, r)
		default: // a load balancer that ends TLS has seen the certificate, if there was one, and we have not
			g.refuse(w, r, proxy.NoClientCert)
		}
		return
	}
	var refused error
	e.ClientVerify = "NONE"
	if len(sent) > 0 {
		if refused = g.verdicts.of(g.ClientAuth, sent, time.Now()); refused != nil {
			e.ClientVerify = "FAILED:" + refused.Error()
		} else {
			e.ClientVerify = "SUCCESS"
		}
	}
	pageOfOurs := e.Rerouted() && g.page.path != "" && e.Path == g.page.path
	switch {
	case pageOfOurs:
	case refused != nil && g.mode != "optional_no_ca":
		g.refuse(w, r, proxy.BadClientCert)
		return
	case len(sent) == 0 && g.mode == "on":
		g.refuse(w, r, proxy.NoClientCert)
		return
	case g.common != nil && (refused != nil || len(sent) == 0 || !g.isNamed(sent[0])):
		proxy.Fail(w, r, http.StatusForbidden, proxy.ClientCertOnly)
		return
	}
	g.tell(r, e, sent)
	g.next.ServeHTTP(w, r)
}

// isNamed reports whether the certificate has one common name, and it is one that is wanted: of several, endpoints may
// look at another.
func (c *ClientAuth) isNamed(leaf *x509.Certificate) bool {
	names := 0
	for _, attribute := range leaf.Subject.Names {
		if attribute.Type.String() == "2.5.4.3" {
			names++
		}
	}
	return names == 1 && c.common.MatchString(leaf.Subject.CommonName)
}

// tell sets what endpoints are told.
func (g *clientCheck) tell(r *http.Request, e *proxy.Exchange, sent []*x509.Certificate) {
	for _, name := range [...]string{clientSubjectField, clientIssuerField, clientCertField} {
		delete(r.Header, name)
	}
	r.Header[clientVerifyField] = []string{e.ClientVerify}
	if len(sent) == 0 {
		return
	}
	for name, der := range map[string][]byte{clientSubjectField: sent[0].RawSubject, clientIssuerField: sent[0].RawIssuer} {
		if text := value.DistinguishedName(der); text != "" {
			r.Header[name] = []string{text}
		}
	}
	if g.pass {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sent[0].Raw})
		r.Header[clientCertField] = []string{strings.ReplaceAll(url.QueryEscape(string(text)), "+", "%20")}
	}
}

// refuse answers 400, or what stands for it.
func (g *clientCheck) refuse(w http.ResponseWriter, r *http.Request, why proxy.Reason) {
	e := proxy.From(r)
	switch {
	case g.page.url != "":
		e.Reason = why
		w.Header().Set("Location", g.page.url)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusFound)
		return
	case g.page.path != "" && r.TLS != nil && proxy.Reroute(w, r, g.page.path):
		return
	}
	proxy.Fail(w, r, http.StatusBadRequest, why)
}

// verdicts are remembered: to verify a chain costs more than all else a request does. A client shows the same one with every
// request of a connection.
type verdicts struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]trust.Verdict // guarded by mu
}

// maxVerdicts bounds what clients can have us remember.
const maxVerdicts = 4096

// of returns why a chain is refused, nil if it is not.
func (v *verdicts) of(c *ClientAuth, sent []*x509.Certificate, now time.Time) error {
	sum := sha256.New()
	for _, s := range sent {
		fmt.Fprintf(sum, "%d:", len(s.Raw))
		sum.Write(s.Raw)
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	v.mu.Lock()
	known, ok := v.known[key]
	v.mu.Unlock()
	if ok && now.Before(known.Until) {
		return known.Err
	}
	verdict := c.bundle.Verify(sent, trust.Terms{Usage: x509.ExtKeyUsageClientAuth, Depth: c.depth, Now: now})
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxVerdicts {
		v.known = make(map[[sha256.Size]byte]trust.Verdict)
	}
	v.known[key] = verdict
	return verdict.Err
}
