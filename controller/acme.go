package controller

import (
	"crypto/tls"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/certs"
	"sallyport/certs/acme"
)

// Certificates that are ordered (certs/acme) are Secrets of one namespace, the controller's own: nobody else's namespace is
// written to, and nobody needs a permission for that. A host has one of its own there, whoever asked for it; an Ingress that
// names a Secret in its own namespace, which exists and covers the host, is not ordered for.

// An Order is a host that is to have a certificate from an authority.
type Order struct {
	acme.Host
	Ingress Ref    // that asks for it
	Field   string // of the host, there
}

// orders reports whether certificates can be ordered at all.
func (o *Options) orders() bool { return o.ACMENamespace != "" }

func (o *Options) orderedSecret(host string) Key {
	return Key{o.ACMENamespace, acme.CertificateName(host)}
}

// asksOrder reports whether a certificate is to be ordered for a host of the Ingress, if it has none.
func (t *translated) asksOrder(o *Options, host string) bool {
	return o.orders() && t.features != nil && t.features.Host.ACME && len(t.tls) > 0 && host != "" && !strings.HasPrefix(host, "*")
}

// secretsOf are the Secrets that certificates of the Ingress's hosts may come from.
func (b *Builder) secretsOf(t *translated) []Key {
	var keys []Key
	for _, e := range t.tls {
		keys = append(keys, e.secret)
	}
	for _, s := range t.sites {
		if t.asksOrder(&b.options, s.host) {
			keys = append(keys, b.options.orderedSecret(s.host))
		}
	}
	return keys
}

// order decides whether a certificate is ordered for a host that has none of its own, because of an Ingress that asks for it,
// and has it shown.
func (b *Builder) order(s *Snapshot, h *host, by *site, secure *certs.Host) {
	t := by.owner
	if t.features == nil || !t.features.Host.ACME {
		return
	}
	if !t.asksOrder(&b.options, h.name) {
		if message := b.noOrder(h); message != "" && t.features.Host.ACMEByName {
			h.tlsProblems = append(h.tlsProblems, t.newProblem(Warning, ReasonNotOrdered, by.field+".host", "%s", message))
		}
		return
	}
	h.order = &Order{Host: acme.Host{Name: h.name}, Ingress: Ref{"Ingress", t.key.Namespace, t.key.Name}, Field: by.field + ".host"}
	// What is wrong with the certificates of the Ingress leaves the host without one; it has one now.
	h.tlsProblems = slices.DeleteFunc(h.tlsProblems, func(p Problem) bool {
		return p.Object == h.order.Ingress && p.Reason == ReasonHostNotCovered
	})
	key := b.options.orderedSecret(h.name)
	if c := b.certificateOf(s, key); c.pair != nil && certs.Covers(c.pair, h.name) {
		secure.Pairs = []*tls.Certificate{c.pair}
		h.order.Pair, h.order.Directory = c.pair, string(c.secret.Data[acme.DirectoryKey])
	}
}

// noOrder says why no certificate can be ordered for a host.
func (b *Builder) noOrder(h *host) string {
	switch {
	case h.name == "":
		return ""
	case strings.HasPrefix(h.name, "*"):
		return "no certificate is ordered for the wildcard " + h.name + ": an authority would have to be answered in the DNS, which is not done here; name a Secret in spec.tls"
	case !b.options.orders():
		return "no certificate is ordered for " + h.name + ": this process does not order any, which needs --acme-accept-terms"
	}
	return ""
}

// checkOrders tells of an Ingress that asks for certificates and has no TLS.
func (b *Builder) checkOrders(t *translated) {
	if f := t.features; f != nil && f.Host.ACMEByName && len(t.tls) == 0 && len(t.sites) > 0 {
		t.tlsFacts = append(t.tlsFacts, t.newProblem(Warning, ReasonNotOrdered, "spec.tls", "is empty, so its hosts have no TLS and no certificate is ordered for them; list the hosts there, a secretName is not needed"))
	}
}

// orderedInstead reports whether a Secret that is missing is not missed, because the hosts that were to have it are ordered for.
func (b *Builder) orderedInstead(t *translated, e tlsEntry, c *certificate) bool {
	return c.reason == ReasonSecretNotFound && len(e.hosts) > 0 &&
		!slices.ContainsFunc(e.hosts, func(name string) bool { return !t.asksOrder(&b.options, name) })
}

// Orders are the hosts of the last build that are to have a certificate from an authority, by name.
func (b *Builder) Orders() []Order {
	if !b.options.orders() {
		return nil
	}
	var all []Order
	for _, h := range b.hosts {
		if h.order != nil {
			all = append(all, *h.order)
		}
	}
	slices.SortFunc(all, func(a, b Order) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// OrderedLabels are on every Secret of [OrderedSecret].
var OrderedLabels = map[string]string{"app.kubernetes.io/managed-by": "sallyport", "app.kubernetes.io/component": "acme"}

// OrderedSecret is what certs/acme keeps under a name, as a Secret. A certificate is one of type kubernetes.io/tls.
func OrderedSecret(namespace, name string, data map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: OrderedLabels}, Type: corev1.SecretTypeOpaque, Data: data}
	if data[acme.CertificateKey] != nil {
		secret.Type = corev1.SecretTypeTLS
	}
	return secret
}
