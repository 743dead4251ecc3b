package feature

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// TestHostileValuesAreToldAndDoNothing writes values that no honest author writes to every annotation there is.
func TestHostileValuesAreToldAndDoNothing(t *testing.T) {
	var networks strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&networks, "10.%d.%d.0/24,", i/256, i%256)
	}
	for name, value := range map[string]string{
		"CR and LF":                 "a\r\nX-Injected: yes",
		"LF":                        "true\nfalse",
		"NUL":                       "a\x00b",
		"a megabyte":                strings.Repeat("x", 1<<20),
		"a quadratic expression":    "/(" + strings.Repeat("(a{1,100}){1,10}", 20) + ")\x00",
		"10,000 networks":           networks.String(),
		"a header name with spaces": "X Bad Name\t: \x01",
	} {
		for _, d := range Declarations() {
			if !d.Annotation {
				continue
			}
			draft, problems := Parse(Input{Namespace: "default", Name: "a", Annotations: map[string]string{NginxPrefix + d.Name: value}, Objects: anything{}})
			if len(problems) == 0 {
				t.Errorf("%s in %s: no problem is told", name, d.Name)
			}
			for _, p := range problems {
				if len(p.Message) > 2<<10 {
					t.Errorf("%s in %s: a message of %d bytes", name, d.Name, len(p.Message))
				}
			}
			if guards(d.Name) && !draft.Denied() {
				t.Errorf("%s in %s, which guards: the routes are open", name, d.Name)
			}
			if draft.Denied() {
				continue
			}
			at := Place{Match: router.Match{Host: "a.test", Path: "/", Type: router.Prefix}}
			if answer, body := ask(t, draft.Handler(at, say("served")), &proxy.Exchange{Scheme: "http", Host: "a.test", Path: "/", Target: "/"}); answer.StatusCode != http.StatusOK || body != "served" {
				t.Errorf("%s in %s: answered %d %q, want the route as it is without", name, d.Name, answer.StatusCode, body)
			}
		}
	}
}

// TestAMistakeWithAGuardIsNeverAnOpenRoute writes what people write by mistake to every annotation that keeps clients out.
func TestAMistakeWithAGuardIsNeverAnOpenRoute(t *testing.T) {
	for _, d := range Declarations() {
		if !d.Annotation || !guards(d.Name) {
			continue
		}
		for _, value := range []string{"", " ", "\t", "\"", "{}", "?!"} {
			if free := []string{"auth-realm", "auth-cache-key", "auth-request-redirect"}; value != "" && slices.Contains(free, d.Name) {
				continue // any text is one
			}
			for _, prefix := range prefixes {
				draft, problems := Parse(Input{Namespace: "default", Name: "a", Annotations: map[string]string{prefix + d.Name: value}, Objects: anything{}})
				if !draft.Denied() || len(problems) == 0 {
					t.Errorf("%s%s: %q: denied %v with %v, want 503 and a problem", prefix, d.Name, value, draft.Denied(), problems)
				}
			}
		}
	}
}
