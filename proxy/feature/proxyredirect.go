package feature

import (
	"net/http"
	"strings"

	"sallyport/proxy"
)

// proxyRedirect rewrites where the answers of endpoints send clients (reference B1 #15 and #16), for an application that
// knows itself under another address. Redirects of the proxy's own are left alone, since it stands next to the endpoints.
func proxyRedirect(a *Annotations, d *Draft) {
	a.Section("Redirects of endpoints", ReachPaths, "Location, and the URL in Refresh, are rewritten where they begin with the one text to begin with the other. "+
		"Both texts are needed. default stands for off: it never matches anything in ingress-nginx either, whose endpoints have no address that an application would name.")
	from := a.Shared().urlText("proxy-redirect-from", `the beginning of Location and Refresh in endpoints' answers that is replaced; "off" and "default" for nothing`)
	to := a.Shared().urlText("proxy-redirect-to", `what is put in its place; "off" for nothing`)
	switch {
	case from == "off", from == "default", to == "off":
		if from != "off" && from != "default" && !a.Shared().Has("proxy-redirect-to") {
			a.Shared().Refuse("proxy-redirect-from", "expected proxy-redirect-to beside it; nothing is rewritten")
		}
		return
	}
	d.OnHeader(&redirectRewrite{textReplacement{from, to}})
}

// urlText reads a URL, or a piece of one.
func (a *Annotations) urlText(name, usage string) string {
	d := Declaration{Name: name, Values: "off, or the beginning of a URL", Default: "off", Usage: usage}
	return read(a, d, "off", func(value string) (string, string) {
		ok := value != "" && len(value) <= maxValue && strings.IndexFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
		if ok && strings.Contains(value, "$") {
			return value, `expected "off", or the beginning of a URL: there are no variables here`
		}
		return value, unless(ok, `expected "off", or the beginning of a URL, without spaces`)
	})
}

type redirectRewrite struct{ textReplacement }

func (p *redirectRewrite) SetHeader(_ *proxy.Exchange, header http.Header) {
	p.rewrite(header, "Location", func(string) int { return 0 })
	p.rewrite(header, "Refresh", urlStart)
}

func (p *redirectRewrite) rewrite(header http.Header, name string, start func(value string) int) {
	values := header[name]
	if len(values) != 1 {
		return // more than one means nothing to clients
	}
	at := start(values[0])
	if rest, ok := strings.CutPrefix(values[0][at:], p.from); ok {
		header[name] = []string{values[0][:at] + p.to + rest}
	}
}

// urlStart is where the URL of a Refresh begins: in "5; url=/next" behind the sign.
func urlStart(value string) int {
	const sign = "url="
	for i := 0; i+len(sign) <= len(value); i++ {
		if strings.EqualFold(value[i:i+len(sign)], sign) {
			return i + len(sign)
		}
	}
	return 0
}
