package feature

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/pattern"
)

// blocks keep clients out of every route (reference A10 #3). They are no check of the route's, which satisfy could
// outweigh, and no list of an Ingress takes their place.
func blocks(a *Annotations, d *Draft) {
	a.Section("Blocked clients", ReachProcess, "Blocked clients get 403 from every Ingress, before anything else is asked. "+
		"In ingress-nginx block-cidrs does not count for an Ingress that has lists of its own; here it always does. "+
		"An item is a whole value, in whatever case, or behind ~ a regular expression that is found somewhere in it, behind ~* in whatever case. "+
		"A client that sends no such field has an empty value. A mistake in these keys makes every route answer 503.")
	networks := a.Config().CIDRs("block-cidrs", "the clients that are blocked, by address")
	agents := a.texts("block-user-agents", "the clients that are blocked, by User-Agent")
	referers := a.texts("block-referers", "the requests that are blocked, by Referer")
	if a.Failed() || networks == nil && agents == nil && referers == nil {
		return
	}
	from := addressesOf(networks)
	d.Everywhere(func(next http.Handler) http.Handler { return &blocked{next, from, agents, referers} })
}

type blocked struct {
	next     http.Handler
	from     *addresses // nil: none
	agents   *texts     // nil: none
	referers *texts     // nil: none
}

func (b *blocked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.takes(r) {
		proxy.Fail(w, r, http.StatusForbidden, proxy.Blocked)
		return
	}
	b.next.ServeHTTP(w, r)
}

func (b *blocked) takes(r *http.Request) bool {
	if b.from != nil {
		if client := proxy.From(r).Client; !client.IsValid() || b.from.holds(client) {
			return true
		}
	}
	return b.agents.takeAny(r.Header["User-Agent"]) || b.referers.takeAny(r.Header["Referer"])
}

// texts are some values of a field. Nil is none.
type texts struct {
	whole    []string
	patterns []*regexp.Regexp
}

// takeAny reports whether one of a field's values is among the texts; of a field that is absent, the empty value.
func (t *texts) takeAny(values []string) bool {
	switch {
	case t == nil:
		return false
	case len(values) == 0:
		return t.take("")
	}
	return slices.ContainsFunc(values, t.take)
}

func (t *texts) take(value string) bool {
	for _, whole := range t.whole {
		if len(whole) == len(value) && strings.EqualFold(whole, value) {
			return true
		}
	}
	for _, re := range t.patterns {
		if re.MatchString(value) {
			return true
		}
	}
	return false
}

// texts reads a list of them from the ConfigMap. Nil: it is absent, or bad.
func (a *Annotations) texts(name, usage string) *texts {
	d := Declaration{Name: name, Values: "a list of values, of ~ and a regular expression, or of ~* and one that takes any case, separated by commas", Usage: usage}
	return read(a.Config(), d, nil, func(value string) (*texts, string) {
		expected := ""
		t := textsInUse.get(value, func() (t *texts) {
			t, expected = parseTexts(value)
			return t
		})
		return t, expected
	})
}

// textsInUse are those in use, by the value of their key.
var textsInUse interned[texts]

func parseTexts(value string) (t *texts, expected string) {
	items, expected := parseList(value, "values, or of ~ and regular expressions")
	if expected != "" {
		return nil, expected
	}
	t = new(texts)
	for _, item := range items {
		item = unquoted(item)
		expr, isPattern := strings.CutPrefix(item, "~")
		if !isPattern {
			t.whole = append(t.whole, item)
			continue
		}
		if anyCase, ok := strings.CutPrefix(expr, "*"); ok {
			expr = "(?i)" + anyCase
		}
		if err := pattern.DiagnoseText(expr); err != nil {
			return nil, shown(item) + ": " + err.Error()
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, shown(item) + ": " + err.Error()
		}
		t.patterns = append(t.patterns, re)
	}
	return t, ""
}

// unquoted is an item without the quotes that ingress-nginx needs around one with spaces.
func unquoted(item string) string {
	if n := len(item); n >= 2 && item[0] == item[n-1] && (item[0] == '"' || item[0] == '\'') {
		return item[1 : n-1]
	}
	return item
}
