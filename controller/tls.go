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
	secret   *corev1.Secret // of which it was made; nil: there is none
	pair     *tls.Certificate
	severity Severity
	reason   string // of what is wrong; empty: nothing
	message  string
}

// certificateOf reads a Secret, once for each version of it.
func (b *Builder) certificateOf(s *Snapshot, key Key) *certificate {
	secret := s.Secret(key)
	if known := b.certificates[key]; known != nil && known.secret == secret {
		return known
	}
	c := readCertificate(secret, key, b.options.now())
	b.certificates[key] = c
	return c
}

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
	pair, err := certs.Parse(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.message = fmt.Sprintf("Secret %q has no usable certificate (%s, %s): %v; the default certificate is used", key.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		return c
	}
	c.pair, c.severity = pair, Warning
	switch {
	case now.After(pair.Leaf.NotAfter):
		c.message = fmt.Sprintf("the certificate of Secret %q expired at %s; clients will refuse it", key.Name, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		c.message = fmt.Sprintf("the certificate of Secret %q is not valid before %s; clients will refuse it until then", key.Name, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	default:
		c.reason = ""
	}
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

// assembleTLS decides whether a host has TLS, and its certificate: that of the oldest Ingress that has one for it. Among
// the others only those of the same namespace are asked, so that nobody can lend another namespace's host a certificate.
func (b *Builder) assembleTLS(s *Snapshot, h *host) {
	slices.SortFunc(h.sites, func(a, b *site) int { return older(a.owner, b.owner) })
	h.tls, h.certificate, h.tlsProblems, h.order = false, nil, nil, nil
	namespace := ""
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
			h.tls, namespace = true, site.owner.key.Namespace
		}
		pair := b.pairFor(s, h, site)
		if h.certificate == nil && site.owner.key.Namespace == namespace {
			h.certificate = pair
		}
		if by == nil && site.owner.key.Namespace == namespace && site.owner.features != nil && site.owner.features.Host.ACME {
			by = site
		}
	}
	if h.certificate == nil && by != nil {
		b.order(s, h, by)
	}
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

// pairFor is the certificate that one Ingress has for a host: that of the entry which names it, else any that covers it;
// nil: the default one.
func (b *Builder) pairFor(s *Snapshot, h *host, at *site) *tls.Certificate {
	t := at.owner
	told := true // there is no Secret whose certificate might have been expected
	for _, e := range t.tls {
		if !slices.Contains(e.hosts, h.name) {
			continue
		}
		if e.secret == (Key{}) {
			return nil
		}
		c := b.certificateOf(s, e.secret)
		if c.pair != nil && certs.Covers(c.pair, h.name) {
			return c.pair
		}
		if c.pair != nil {
			h.tlsProblems = append(h.tlsProblems, t.newProblem(Error, ReasonHostNotCovered, e.field+".secretName", "the certificate of Secret %q is for %s and does not cover host %q, which has the default certificate", e.secret.Name, namesOf(c.pair), h.name))
		}
		return nil
	}
	for _, e := range t.tls {
		if e.secret == (Key{}) {
			continue
		}
		c := b.certificateOf(s, e.secret)
		if c.pair != nil && certs.Covers(c.pair, h.name) {
			return c.pair
		}
		told = told && c.pair == nil
	}
	if !told {
		h.tlsProblems = append(h.tlsProblems, t.newProblem(Warning, ReasonHostNotCovered, at.field+".host", "%q is in no entry of spec.tls and covered by none of its certificates; it has the default certificate", h.name))
	}
	return nil
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
	show := func(name string, listed bool, certificate *tls.Certificate) {
		if shown, was := b.byHost[name]; was == listed && shown == certificate {
			return
		}
		if !cloned {
			b.byHost, cloned = maps.Clone(b.byHost), true
		}
		if listed {
			b.byHost[name] = certificate // nil too: the wildcard above may be another Ingress's
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
		show(name, h.tls, h.certificate)
		for _, further := range h.names() {
			w.names[further] = struct{}{}
		}
	}
	for name := range w.names {
		if b.hosts[name] == nil {
			certificate := b.certificateOfAlias(name)
			show(name, certificate != nil, certificate)
		}
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

// defaultCertificate is the one of Options; nil: a self-signed one.
func (b *Builder) defaultCertificate(s *Snapshot) (*tls.Certificate, []Problem) {
	key := b.options.DefaultCertificate
	if key == (Key{}) {
		return nil, nil
	}
	c := b.certificateOf(s, key)
	if c.reason == "" {
		return c.pair, nil
	}
	message := strings.TrimSuffix(c.message, "; the default certificate is used")
	return c.pair, []Problem{{Object: Ref{"Secret", key.Namespace, key.Name}, Severity: c.severity, Reason: c.reason,
		Message: fmt.Sprintf("the default certificate (--default-ssl-certificate): %s", message)}}
}
