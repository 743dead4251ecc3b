package feature

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/pattern"
	"sallyport/router"
)

// serverAlias gives the hosts of an Ingress further names (reference B2).
func serverAlias(a *Annotations, d *Draft) {
	a.Section("Further names of a host", ReachHosts, "Requests for these names are served as those for the host are. A name that some Ingress has as a host is not taken, "+
		"and of several Ingresses with aliases for a host the oldest counts. A name that begins with ~ is a regular expression (RE2), which matches anywhere in a name unless it is anchored by ^ and $. "+
		"HTTPS serves the host's certificate where that covers the name, else the default one. "+
		"A name that can be none is told; the others of the list hold, where ingress-nginx would drop the Ingress.")
	names := a.aliases("server-alias", "further names under which the hosts are served")
	d.Host.Aliases = names.good
	if names.bad != "" {
		a.Refuse("server-alias", names.bad)
	}
}

// aliases are the names of a list, in lower case where they are no expressions.
type aliases struct {
	good []string
	bad  string // what is wrong with those that are left out; empty: all are good
}

func (a *Annotations) aliases(name, usage string) aliases {
	const values = "host names, such as www.example.org, *.example.org or ~^www[0-9]+[.]example[.]org$"
	d := Declaration{Name: name, Values: "a list of " + values + ", separated by commas", Usage: usage}
	return read(a, d, aliases{}, func(text string) (names aliases, _ string) {
		items, expected := parseList(text, values)
		var bad []string
		for _, item := range items {
			if !strings.HasPrefix(item, "~") {
				item = strings.ToLower(item)
			}
			if wrong := checkAlias(item); wrong != "" {
				bad = append(bad, wrong)
			} else {
				names.good = append(names.good, item)
			}
		}
		const most = 3 // that a message tells
		if len(bad) > most {
			bad = append(bad[:most], fmt.Sprintf("and %d more are wrong", len(bad)-most))
		}
		names.bad = strings.Join(bad, "; ")
		return names, expected
	})
}

// checkAlias says what is wrong with a further name of a host.
func checkAlias(name string) string {
	if strings.HasPrefix(name, "~") {
		if len(name) > 253 {
			return shown(name) + " is too long for an expression of host names: 253 bytes are the most"
		}
		if err := pattern.DiagnoseText(strings.TrimPrefix(name, "~")); err != nil {
			return shown(name) + ": " + err.Error()
		}
		if _, err := router.CompileHost(name); err != nil { // of which the router would say no more
			return shown(name) + " is no regular expression: " + err.Error()
		}
		return ""
	}
	return unless(isName(strings.TrimPrefix(name, "*.")), shown(name)+" is no host name; letters, digits, '-' and '.' are expected, such as www.example.org")
}

// fromToWWW sends the clients of a host's twin, with or without "www.", to the host (reference B1).
func fromToWWW(a *Annotations, d *Draft) {
	a.Section("With and without www", ReachHosts, "Clients of www.example.org are sent to the host example.org, and the other way round. "+
		"A twin that is a host or an alias of its own is left alone. The port is the one that the client asked for; ingress-nginx always writes one, also the usual.")
	wanted := a.Bool("from-to-www-redirect", false, "whether the clients of the same name with or without www. are redirected to the hosts")
	code := a.Config().redirectCode()
	if !wanted {
		return
	}
	d.Host.WWW = &WWWRedirect{To: func(host string) http.Handler { return &toTwin{host, code} }}
}

// toTwin redirects every request to the same target of another host.
type toTwin struct {
	host string
	code int
}

func (t *toTwin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := proxy.From(r)
	target := e.Target
	if !strings.HasPrefix(target, "/") {
		target = ""
	}
	host := t.host
	usual := map[string]string{"http": "80", "https": "443"}[e.Scheme]
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != usual {
		host = net.JoinHostPort(host, port)
	}
	redirectTo(w, r, t.code, e.Scheme+"://"+host+strings.TrimSuffix(target, "/"))
}
