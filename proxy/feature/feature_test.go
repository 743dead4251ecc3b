package feature

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reads is the Annotations of an Ingress.
func reads(annotations map[string]string) *Annotations {
	return newAnnotations(Input{Annotations: annotations})
}

func TestEveryAnnotationIsReadBeforeAnythingIsDecided(t *testing.T) {
	want := Declarations()
	for _, d := range want {
		for _, value := range []string{"true", "false", "nonsense", "", "1"} {
			a := reads(map[string]string{NginxPrefix + d.Name: value})
			a.collect = true
			a.run(new(Draft), All)
			if diff := cmp.Diff(want, a.declared); diff != "" {
				t.Errorf("with %s: %q other annotations are read (-without +with):\n%s", d.Name, value, diff)
			}
		}
	}
}

func TestDeclarationsAreFitForAReferencePage(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Declarations() {
		if d.Name == "" || d.Values == "" || d.Usage == "" || strings.Contains(d.Name, "/") {
			t.Errorf("%+v: expected a name without prefix, values and usage", d)
		}
		if strings.HasSuffix(d.Usage, ".") || strings.ToLower(d.Usage[:1]) != d.Usage[:1] {
			t.Errorf("%s: usage %q: expected a phrase without capital and full stop", d.Name, d.Usage)
		}
		if seen[d.Name] {
			t.Errorf("%s is declared twice", d.Name)
		}
		seen[d.Name] = true
	}
	for _, name := range []string{"ssl-redirect", "force-ssl-redirect", "preserve-trailing-slash", "use-port-in-redirects"} {
		if !seen[name] {
			t.Errorf("%s is not declared", name)
		}
	}
}

func TestTheListOfTheReferenceIsWhole(t *testing.T) {
	if n := len(nginxNames); n != 138 {
		t.Errorf("%d names, want the 138 of ingress-nginx 1.15", n)
	}
	if !slices.IsSorted(nginxNames) || len(slices.Compact(slices.Clone(nginxNames))) != len(nginxNames) {
		t.Error("the names are not sorted, or one stands twice")
	}
	for _, r := range replacements {
		if slices.Contains(nginxNames, r.prefix) {
			t.Errorf("%s exists and has a replacement at once", r.prefix)
		}
	}
}

func TestTheOwnPrefixWins(t *testing.T) {
	a := reads(map[string]string{NginxPrefix + "ssl-redirect": "true", OwnPrefix + "ssl-redirect": "false"})
	if a.Bool("ssl-redirect", true, "whether") {
		t.Error("the value under nginx.ingress.kubernetes.io/ was taken")
	}
}

func TestReadersTakeWhatIngressNginxTakes(t *testing.T) {
	read := func(value string, how func(*Annotations) any) (any, bool) {
		a := reads(map[string]string{NginxPrefix + "x": value})
		return how(a), !a.Failed()
	}
	boolean := func(a *Annotations) any { return a.Bool("x", true, "whether") }
	number := func(a *Annotations) any { return a.Int("x", 7, "how many") }
	text := func(a *Annotations) any { return a.String("x", "usual", "what") }
	for _, c := range []struct {
		value string
		how   func(*Annotations) any
		want  any
		ok    bool
	}{
		{"1", boolean, true, true}, {"t", boolean, true, true}, {"T", boolean, true, true}, {"TRUE", boolean, true, true},
		{"true", boolean, true, true}, {"True", boolean, true, true}, {"0", boolean, false, true}, {"f", boolean, false, true},
		{"F", boolean, false, true}, {"FALSE", boolean, false, true}, {"false", boolean, false, true}, {"False", boolean, false, true},
		{" false", boolean, true, false}, {"false ", boolean, true, false}, {"no", boolean, true, false}, {"off", boolean, true, false},
		{"", boolean, true, false}, {"fAlse", boolean, true, false}, {"false\n", boolean, true, false},
		{"12", number, 12, true}, {"-3", number, 7, false}, {"+3", number, 3, true}, {"60s", number, 7, false}, {"1.5", number, 7, false},
		{" 1", number, 7, false}, {"", number, 7, false}, {"99999999999999999999", number, 7, false},
		{" a b ", text, "a b", true}, {"", text, "usual", false}, {" ", text, "usual", false}, {"a\nb", text, "usual", false}, {"a\rb", text, "usual", false},
	} {
		if got, ok := read(c.value, c.how); got != c.want || ok != c.ok {
			t.Errorf("%q: got %v, read well: %v; want %v, %v", c.value, got, ok, c.want, c.ok)
		}
	}
}

func TestABadValueNamesKeyValueAndExpectation(t *testing.T) {
	_, problems := Parse(Input{Annotations: map[string]string{OwnPrefix + "force-ssl-redirect": "yes"}})
	want := []Problem{{
		Annotation: "ingress.kubernetes.io/force-ssl-redirect", Value: "yes", Reason: BadValue,
		Message: `"yes": expected "true" or "false"; the default, false, is used`,
	}}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
}

func TestWhatNothingReadsIsToldWithAWayOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason Reason
		denies bool
		says   string
	}{
		{"ssl-redirct", UnknownName, false, "did you mean ssl-redirect?"},
		{"force-ssl-redirects", UnknownName, false, "did you mean force-ssl-redirect?"},
		{"proxy-bodysize", UnknownName, false, "did you mean proxy-body-size?"},
		{"something-of-mine", UnknownName, false, "no annotation has this name"},
		{"", UnknownName, false, "no annotation has this name"},
		{"fastcgi-index", Unsupported, false, "not supported yet"},
		{"enable-opentelemetry", Unsupported, false, "not supported yet"},
		{"configuration-snippet", Unsupported, false, "snippets of nginx configuration are refused"},
		{"server-snippets", Unsupported, false, "snippets of nginx configuration are refused"},
		{"auth-snippet", Unsupported, true, "snippets of nginx configuration are refused"},
		{"server-snippet", Unsupported, false, "snippets of nginx configuration are refused"},
		{"stream-snippet", Unsupported, false, "snippets of nginx configuration are refused"},
		{"modsecurity-snippet", Unsupported, false, "snippets of nginx configuration are refused"},
		// What ingress-nginx ignored, or has no more, has guarded nothing so far: a leftover of it must not take a route down.
		{"rate-limit", UnknownName, false, "ingress-nginx ignores this name; write limit-rps or limit-rpm"},
		{"rate-limit-rps", UnknownName, false, "write limit-rps"},
		{"rate-limit-window", UnknownName, false, "write limit-rps"},
		{"rate-limit-burst-multiplier", UnknownName, false, "write limit-rps"},
		{"limit-burst", UnknownName, false, "write limit-burst-multiplier"},
		{"limit-status-code", UnknownName, false, "limit-req-status-code in the ConfigMap"},
		{"global-rate-limit", UnknownName, false, "limit-rps"},
		{"global-rate-limit-key", UnknownName, false, "limit-rps"},
		{"lua-resty-waf-mode", UnknownName, false, "that firewall was removed"},
		{"custom-response-headers", UnknownName, false, "write custom-headers"},
		{"limit-burst-multipler", UnknownName, true, "did you mean limit-burst-multiplier?"},
		{"limit-status", UnknownName, true, "answer 503"},
		{"blacklist-source-range", UnknownName, true, "write denylist-source-range"},
		{"gzip-level", UnknownName, false, "a key of the ConfigMap"},
		{"gzip-vary", UnknownName, false, "use-gzip"},
		{"secure-backends", UnknownName, false, `backend-protocol: "HTTPS"`},
		{"hsts-preload", UnknownName, false, "a key of the ConfigMap"},
		// Keys are no annotations; those that guard were to guard here too.
		{"hide-headers", UnknownName, false, "no annotation, but a key of the ConfigMap"},
		{"use-gzip", UnknownName, false, "a key of the ConfigMap"},
		{"add-headers", UnknownName, false, "a key of the ConfigMap"},
		{"worker-processes", UnknownName, false, "a key of the ConfigMap"},
		{"allow-snippet-annotations", UnknownName, false, "a key of the ConfigMap"},
		{"no-auth-locations", UnknownName, false, "a key of the ConfigMap"},
		{"limit-req-status-code", UnknownName, false, "a key of the ConfigMap"},
		{"limit-conn-zone-variable", UnknownName, false, "a key of the ConfigMap"},
		{"http-redirect-code", UnknownName, false, "a key of the ConfigMap"},
		{"proxy-set-headers", UnknownName, false, "a key of the ConfigMap"},
		{"disable-access-log", UnknownName, false, "a key of the ConfigMap"},
		{"global-auth-url", UnknownName, true, "a key of the ConfigMap; it is to guard"},
		{"block-cidrs", UnknownName, true, "a key of the ConfigMap; it is to guard"},
		{"block-user-agents", UnknownName, true, "a key of the ConfigMap; it is to guard"},
		{"block-cidr", UnknownName, true, "did you mean block-cidrs, a key of the ConfigMap?"},
		{"proxy-set-header", UnknownName, false, "did you mean proxy-set-headers, a key of the ConfigMap?"},
		{"auth-typ", UnknownName, true, "(did you mean auth-type?); it is to guard the routes of this Ingress, so they answer 503"},
		{"auth-ulr", UnknownName, true, "did you mean auth-url?"},
		{"atuh-url", UnknownName, true, "did you mean auth-url?"},
		{"AUTH-URL", UnknownName, true, "did you mean auth-url?"},
		{"Auth-by-Something-of-Mine", UnknownName, true, "answer 503"},
		{"whitelist-source-rang", UnknownName, true, "did you mean whitelist-source-range?"},
		{"withelist-source-range", UnknownName, true, "did you mean whitelist-source-range?"},
		{"alowlist-source-range", UnknownName, true, "did you mean allowlist-source-range?"},
		{"limit-rp", UnknownName, true, "did you mean limit-rpm?"},
		{"limits-rps", UnknownName, true, "did you mean limit-rps?"},
		{"statisfy", UnknownName, true, "did you mean satisfy?"},
		{"enable-globl-auth", UnknownName, true, "did you mean enable-global-auth?"},
		{"auth-something-of-mine", UnknownName, true, "no annotation has this name; it is to guard"},
		{"auth-tls-secert", UnknownName, true, "did you mean auth-tls-secret?); it is to guard the hosts of this Ingress, so they answer 403"},
	} {
		for _, prefix := range prefixes {
			draft, problems := Parse(Input{Annotations: map[string]string{prefix + c.name: "v"}})
			if len(problems) != 1 {
				t.Errorf("%s%s: %d problems, want one: %v", prefix, c.name, len(problems), problems)
				continue
			}
			p := problems[0]
			if p.Annotation != prefix+c.name || p.Value != "v" || p.Reason != c.reason || p.Denies != c.denies || !strings.Contains(p.Message, c.says) {
				t.Errorf("%s%s: got %+v, want reason %v, denies %v, a message with %q", prefix, c.name, p, c.reason, c.denies, c.says)
			}
			if draft.Denied() != c.denies {
				t.Errorf("%s%s: denied %v, want %v", prefix, c.name, draft.Denied(), c.denies)
			}
		}
	}
}

func TestEveryNameOfTheReferenceIsReadOrReported(t *testing.T) {
	declared := map[string]bool{}
	for _, d := range Declarations() {
		declared[d.Name] = true
	}
	for _, name := range nginxNames {
		_, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + name: "1"}})
		switch {
		case declared[name] && slices.ContainsFunc(problems, func(p Problem) bool { return p.Reason == Unsupported || p.Reason == UnknownName }):
			t.Errorf("%s: %v, want it read", name, problems)
		case !declared[name] && (len(problems) != 1 || problems[0].Reason != Unsupported):
			t.Errorf("%s: %v, want it reported as unsupported", name, problems)
		}
	}
}

func TestForeignAnnotationsAreNobodysBusiness(t *testing.T) {
	foreign := map[string]string{
		"kubernetes.io/ingress.class": "nginx", "cert-manager.io/cluster-issuer": "le", "ssl-redirect": "x",
		"xnginx.ingress.kubernetes.io/ssl-redirect": "x", "nginx.ingress.kubernetes.iossl-redirect": "x",
	}
	if _, problems := Parse(Input{Annotations: foreign}); len(problems) != 0 {
		t.Errorf("problems %v, want none", problems)
	}
}

func TestProblemsComeInOneOrder(t *testing.T) {
	annotations := map[string]string{}
	for _, name := range nginxNames {
		annotations[NginxPrefix+name] = "?"
	}
	_, first := Parse(Input{Annotations: annotations})
	for range 10 {
		_, again := Parse(Input{Annotations: maps.Clone(annotations)})
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestSpacesAroundAValueAreDroppedSaveOfSwitchesAndNumbers(t *testing.T) {
	const around = " \t%s \n"
	for name, value := range map[string]string{
		"auth-secret": "users", "default-backend": "web", "upstream-vhost": "in.test", "proxy-cookie-path": "/ /app/", "proxy-cookie-domain": "a.test b.test",
		"x-forwarded-prefix": "/app", "proxy-buffering": "on", "proxy-body-size": "1m", "app-root": "/home", "proxy-redirect-from": "http://in.test/",
		"proxy-next-upstream": "error timeout", "satisfy": "any", "permanent-redirect": "https://n.test", "server-alias": "alias.test", "custom-http-errors": "404",
		"auth-url": "https://auth.test/verify", "auth-signin": "https://auth.test/in", "backend-protocol": "HTTPS",
	} {
		problems := func(value string) []Problem {
			_, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + name: value}})
			for i := range problems {
				problems[i].Value, problems[i].Message = "", ""
			}
			return problems
		}
		if diff := cmp.Diff(problems(value), problems(fmt.Sprintf(around, value))); diff != "" {
			t.Errorf("%s: %q has other problems with spaces around (-without +with):\n%s", name, value, diff)
		}
	}
}
