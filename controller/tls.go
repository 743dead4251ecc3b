package controller

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"sallyport/certs"
	"sallyport/router"
)

// A tlsEntry is a valid entry of spec.tls.
type tlsEntry struct {
	hosts  []string // lower case
	secret Key      // zero: the default certificate is meant
	field  string
}

func (t *translation) translateTLS() {
	for i, entry := range t.object.Spec.TLS {
		e := tlsEntry{field: fmt.Sprintf("spec.tls[%d]", i)}
		for j, name := range entry.Hosts {
			lower := strings.ToLower(name)
			if message := checkHost(lower); message != "" {
				t.problem(Error, ReasonInvalid, fmt.Sprintf("%s.hosts[%d]", e.field, j), "%q %s", name, message)
				continue
			}
			e.hosts = append(e.hosts, lower)
		}
		switch name := entry.SecretName; {
		case name == "":
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			t.problem(Error, ReasonInvalid, e.field+".secretName", "%q is not the name of a Secret in the Ingress's namespace; its hosts have the default certificate", name)
		default:
			e.secret = Key{t.key.Namespace, name}
		}
		t.tls = append(t.tls, e)
	}
}

// A certificate is what came of a Secret.
type certificate struct {
	secret   *corev1.Secret   // of which it was made; nil: there is none
	pair     *tls.Certificate // nil: it is none that may be served now
	read     *tls.Certificate // pair, or the one that may not be served
	severity Severity
	reason   string // of what is wrong; empty: nothing
	message  string
	until    time.Time // when this is not so any more though the Secret is the same; zero: it stays so
}

// certificateOf reads a Secret, once for each version of it and each time that its verdict changes.
func (b *Builder) certificateOf(s *Snapshot, key Key) *certificate {
	secret, now := s.Secret(key), b.options.now()
	if known := b.certificates[key]; known != nil && known.secret == secret && !known.over(now) {
		return known
	}
	c := readCertificate(secret, key, now)
	b.forgetCertificate(key)
	b.certificates[key] = c
	if c.read != nil {
		b.secretOf[c.read] = key
	}
	if !c.until.IsZero() && (b.again.IsZero() || c.until.Before(b.again)) {
		b.again = c.until
	}
	return c
}

func (b *Builder) forgetCertificate(key Key) {
	if known := b.certificates[key]; known != nil {
		delete(b.secretOf, known.read)
		delete(b.certificates, key)
	}
}

// SecretOf is the Secret that a certificate of the last build comes from. Zero: none that is known.
func (b *Builder) SecretOf(pair *tls.Certificate) Key { return b.secretOf[pair] }

func (c *certificate) over(now time.Time) bool { return !c.until.IsZero() && !now.Before(c.until) }

// ripen has the certificates looked at again whose time has come, and finds out when that is so next.
func (b *Builder) ripen(w *work) {
	now := b.options.now()
	if b.again.IsZero() || now.Before(b.again) {
		return
	}
	b.again = time.Time{}
	for key, c := range b.certificates {
		switch {
		case c.over(now):
			w.secrets[key], w.endpoints = struct{}{}, false
		case !c.until.IsZero() && (b.again.IsZero() || c.until.Before(b.again)):
			b.again = c.until
		}
	}
}

// noticeTime is how long before a certificate ends somebody is told: renewal should have happened by then.
const noticeTime = 14 * 24 * time.Hour

func readCertificate(secret *corev1.Secret, key Key, now time.Time) (c *certificate) {
	defer func() {
		if fault := recover(); fault != nil {
			c = &certificate{secret: secret, severity: Error, reason: ReasonInternal, message: fmt.Sprintf("Secret %q cannot be read because of a fault of ours: %v", key.Name, fault)}
		}
	}()
	if secret == nil {
		return &certificate{severity: Error, reason: ReasonSecretNotFound, message: fmt.Sprintf("no Secret is named %q in namespace %q; the default certificate is used", key.Name, key.Namespace)}
	}
	c = &certificate{secret: secret, severity: Error, reason: ReasonBadCertificate}
	text := secret.Data[corev1.TLSCertKey]
	pair, err := certs.Parse(text, secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.message = fmt.Sprintf("Secret %q has no usable certificate (%s, %s): %v; the default certificate is used", key.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		return c
	}
	c.read = pair
	begin, end := pair.Leaf.NotBefore, pair.Leaf.NotAfter
	switch {
	case now.After(end):
		c.message = fmt.Sprintf("the certificate of Secret %q expired at %s; the default certificate is used", key.Name, end.UTC().Format(time.RFC3339))
		return c
	case now.Before(begin):
		c.message = fmt.Sprintf("the certificate of Secret %q is not valid before %s; the default certificate is used until then", key.Name, begin.UTC().Format(time.RFC3339))
		c.until = begin
		return c
	}
	c.pair, c.severity = pair, Warning
	// One that lives shorter than four weeks is renewed later.
	notice := end.Add(-min(noticeTime, end.Sub(begin)/3))
	c.until = end.Add(time.Nanosecond)
	if now.Before(notice) {
		c.until = notice
	}
	if message := certs.CheckUsage(pair.Leaf); message != "" {
		c.reason, c.message = ReasonUnfitCertificate, fmt.Sprintf("the certificate of Secret %q: %s, so that clients refuse it", key.Name, message)
		return c
	}
	if message := certs.CheckChain(pair, text, secret.Data["ca.crt"], now); message != "" {
		c.reason, c.message = ReasonBrokenChain, fmt.Sprintf("the certificate of Secret %q: %s", key.Name, message)
		return c
	}
	if now.Before(notice) {
		c.reason = ""
		return c
	}
	c.reason, c.message = ReasonCertificateExpires, fmt.Sprintf("the certificate of Secret %q ends at %s and was not renewed yet", key.Name, end.UTC().Format(time.RFC3339))
	return c
}

// checkTLS finds what is wrong with the Secrets of an Ingress.
func (b *Builder) checkTLS(s *Snapshot, t *translated) {
	t.tlsFacts = nil
	b.checkOrders(t)
	for _, e := range t.tls {
		if e.secret == (Key{}) {
			continue
		}
		if c := b.certificateOf(s, e.secret); c.reason != "" && !b.orderedInstead(t, e, c) {
			t.tlsFacts = append(t.tlsFacts, t.newProblem(c.severity, c.reason, e.field+".secretName", "%s", c.message))
		}
	}
}

// assembleTLS decides whether a host has TLS, and how hands are shaken for it: with the certificate of the oldest Ingress
// that has one for it, and with those of other kinds of keys beside it. Among the others only those of the same namespace
// are asked, so that nobody can lend another namespace's host a certificate.
func (b *Builder) assembleTLS(s *Snapshot, h *host) {
	slices.SortFunc(h.sites, func(a, b *site) int { return older(a.owner, b.owner) })
	h.tls, h.tlsProblems, h.order = false, nil, nil
	next := &certs.Host{Policy: h.policy()}
	var by *site // the oldest that asks for a certificate to be ordered
	for _, site := range h.sites {
		if len(site.owner.tls) == 0 {
			continue
		}
		if h.name == "" {
			reportNameless(h, site.owner)
			continue // there is no name to have a certificate for
		}
		if !h.tls {
			h.tls, next.Owner = true, site.owner.key.Namespace
		}
		pairs := b.pairsFor(s, h, site)
		if site.owner.key.Namespace == next.Owner {
			next.Pairs = append(next.Pairs, pairs...)
		}
		if by == nil && site.owner.key.Namespace == next.Owner && site.owner.features != nil && site.owner.features.Host.ACME {
			by = site
		}
	}
	if len(next.Pairs) == 0 && by != nil {
		b.order(s, h, by, next)
	}
	next.Pairs = certs.Best(next.Pairs)
	next.Below = !h.tls
	switch {
	case len(next.Pairs) == 0 && next.Policy == nil:
		h.secure = nil
	case h.secure == nil || !h.secure.Equal(next):
		h.secure = next
	}
}

// certificatesNow is how hands are shaken from now on, but for the default certificate.
func (b *Builder) certificatesNow() certs.Certificates {
	said := b.config.TLS()
	c := certs.Certificates{ByHost: b.byHost, Patterns: b.patterns, Protocol: certs.Protocol{Min: said.Min, Max: said.Max, Suites: said.Suites, Reject: said.Reject}}
	if table := b.table; said.Reject {
		c.Known = func(name string) bool { return table.Has(name) }
	}
	return c
}

// policy is what handshakes for a host are held to: what is asked of its clients, and the cipher suites that the oldest
// Ingress wants which has a wish.
func (h *host) policy() *certs.Policy {
	var suites []uint16
	for _, site := range h.sites {
		if wanted := site.owner.features.Host.Suites; suites == nil {
			suites = wanted
		}
	}
	var clients *certs.Clients
	if asked, _ := h.clientAuth(); asked != nil && asked.Asks() {
		clients = &certs.Clients{ID: asked.ID(), Auth: tls.RequestClientCert, CAs: asked.Authorities()}
	}
	return certs.NewPolicy(clients, suites)
}

func reportNameless(h *host, t *translated) {
	if slices.ContainsFunc(t.sites, func(s *site) bool { return s.host != "" }) {
		return
	}
	for _, e := range t.tls {
		if e.secret != (Key{}) {
			h.tlsProblems = append(h.tlsProblems, t.newProblem(Warning, ReasonHostNotCovered, e.field+".secretName", "is not used, because certificates are chosen by host and no rule of the Ingress has one"))
		}
	}
}

// pairsFor are the certificates that one Ingress has for a host: those of the entries which name it, else of all that cover
// it; none: the default one.
func (b *Builder) pairsFor(s *Snapshot, h *host, at *site) (pairs []*tls.Certificate) {
	t := at.owner
	named := false
	told := true // there is no Secret whose certificate might have been expected
	for _, e := range t.tls {
		if !slices.Contains(e.hosts, h.name) {
			continue
		}
		named = true
		if e.secret == (Key{}) {
			continue
		}
		switch c := b.certificateOf(s, e.secret); {
		case c.pair == nil:
		case certs.Covers(c.pair, h.name):
			pairs = append(pairs, c.pair)
		default:
			h.tlsProblems = append(h.tlsProblems, t.newProblem(Error, ReasonHostNotCovered, e.field+".secretName", "the certificate of Secret %q is for %s and does not cover host %q, which has the default certificate", e.secret.Name, namesOf(c.pair), h.name))
		}
	}
	if named {
		return pairs
	}
	for _, e := range t.tls {
		if e.secret == (Key{}) {
			continue
		}
		c := b.certificateOf(s, e.secret)
		if c.pair != nil && certs.Covers(c.pair, h.name) {
			pairs = append(pairs, c.pair)
		}
		told = told && c.pair == nil
	}
	if len(pairs) == 0 && !told {
		h.tlsProblems = append(h.tlsProblems, t.newProblem(Warning, ReasonHostNotCovered, at.field+".host", "%q is in no entry of spec.tls and covered by none of its certificates; it has the default certificate", h.name))
	}
	return pairs
}

func namesOf(pair *tls.Certificate) string {
	if len(pair.Leaf.DNSNames) == 0 {
		return "no host"
	}
	return strings.Join(pair.Leaf.DNSNames, ", ")
}

// updateTLS chooses certificates again where Ingresses or Secrets changed.
func (b *Builder) updateTLS(s *Snapshot, w *work) {
	for key := range w.secrets {
		if b.secrets[key] == nil && key != b.options.DefaultCertificate {
			continue
		}
		for reader := range b.secrets[key] {
			t := b.ingresses[reader]
			b.checkTLS(s, t)
			for _, site := range t.sites {
				w.tls[site.host] = struct{}{}
			}
		}
	}
	cloned := false
	show := func(name string, listed bool, secure *certs.Host) {
		if shown, was := b.byHost[name]; was == listed && shown == secure {
			return
		}
		if !cloned {
			b.byHost, cloned = maps.Clone(b.byHost), true
		}
		if listed {
			b.byHost[name] = secure // nil too: the wildcard above may be another Ingress's
		} else {
			delete(b.byHost, name)
		}
	}
	for name := range w.tls {
		h := b.hosts[name]
		was := h.tls
		b.assembleTLS(s, h)
		if h.tls != was {
			b.touchBelow(name, w)
		}
		show(name, h.tls || h.secure != nil, h.secure)
		for _, further := range h.names() {
			w.names[further] = struct{}{}
		}
	}
	patterns := make(map[string]*certs.Host) // that may be others; nil: gone
	for name := range w.names {
		if b.hosts[name] != nil {
			continue
		}
		secure, listed := b.secureAlias(name)
		if strings.HasPrefix(name, "~") {
			patterns[name] = secure
			continue
		}
		show(name, listed, secure)
	}
	b.showPatterns(patterns)
}

// showPatterns puts hosts in the place of those of regular expressions. They are in the order of their names, which is that of
// the table: what a handshake has met is what the request will.
func (b *Builder) showPatterns(changed map[string]*certs.Host) {
	if len(changed) == 0 {
		return
	}
	next := make(map[string]certs.Pattern)
	for _, p := range b.patterns {
		next[p.Name] = p
	}
	for name, host := range changed {
		was, listed := next[name]
		switch {
		case host == nil:
			delete(next, name)
		case listed && was.Host.Equal(host):
		default:
			if expression, err := router.CompileHost(name); err == nil {
				next[name] = certs.Pattern{Name: name, Expression: expression, Host: host}
			}
		}
	}
	b.patterns = nil
	for _, name := range slices.Sorted(maps.Keys(next)) {
		b.patterns = append(b.patterns, next[name])
	}
}

// touchBelow has the routes of a host built again for another answer to whether it has TLS, and those of the hosts
// below a wildcard.
func (b *Builder) touchBelow(name string, w *work) {
	w.dirty[name] = struct{}{}
	suffix, ok := strings.CutPrefix(name, "*")
	if !ok {
		return
	}
	for below := range b.hosts {
		if label, found := strings.CutSuffix(below, suffix); found && !strings.Contains(label, ".") {
			w.dirty[below] = struct{}{}
		}
	}
}

// hasTLS says whether a host has an entry for TLS, its own or that of the wildcard above it (reference A9).
func (b *Builder) hasTLS(name string) bool {
	if h := b.hosts[name]; h != nil && h.tls {
		return true
	}
	_, parent, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	h := b.hosts["*."+parent]
	return h != nil && h.tls
}

// defaultCertificate is the one of Options; nil: a self-signed one. What is out of its time is shown all the same: there is
// nothing better in its place.
func (b *Builder) defaultCertificate(s *Snapshot) (*tls.Certificate, []Problem) {
	key := b.options.DefaultCertificate
	if key == (Key{}) {
		return nil, nil
	}
	c := b.certificateOf(s, key)
	if c.reason == "" {
		return c.pair, nil
	}
	message := strings.TrimSuffix(strings.TrimSuffix(c.message, " until then"), "; the default certificate is used")
	return c.read, []Problem{{Object: Ref{"Secret", key.Namespace, key.Name}, Severity: c.severity, Reason: c.reason,
		Message: fmt.Sprintf("the default certificate (--default-ssl-certificate): %s", message)}}
}
