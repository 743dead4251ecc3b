package feature

import (
	"strings"
	"testing"
)

func TestKeysOfTheConfigMapAreDefaults(t *testing.T) {
	c, problems := NewConfig(map[string]string{"ssl-redirect": "false", "http-redirect-code": "301"}, Input{})
	if len(problems) != 0 {
		t.Fatalf("problems %v", problems)
	}
	for annotation, want := range map[string]bool{"": false, "true": true, "false": false, "nonsense": false} {
		a := reads(map[string]string{NginxPrefix + "ssl-redirect": annotation})
		if annotation == "" {
			a = reads(nil)
		}
		a.in.Config = c
		if got := a.Shared().Bool("ssl-redirect", true, "whether"); got != want {
			t.Errorf("annotation %q: %v, want %v", annotation, got, want)
		}
	}
	a := reads(map[string]string{NginxPrefix + "http-redirect-code": "302"})
	a.in.Config = c
	if got := a.Config().redirectCode(); got != 301 {
		t.Errorf("a key that is no annotation is read from one: %d", got)
	}
}

func TestWhatIsWrongWithTheConfigMapIsToldOnceAndThere(t *testing.T) {
	for _, c := range []struct {
		key, value string
		says       string // empty: nothing
		denies     bool
	}{
		{"ssl-redirect", "yes", `"yes": expected "true" or "false"`, false},
		{"ssl-redirct", "true", "did you mean ssl-redirect?", false},
		{"http-redirect-code", "303", "expected 301, 302, 307 or 308", false},
		{"worker-processes", "4", "", false},
		{"proxy-buffer-size", "8k", "", false},
		{"http-snippet", "x", "snippets of nginx configuration are refused", false},
		{"use-gzip", "true", "not supported yet", false},
		{"allow-snippet-annotations", "true", "snippets of nginx configuration are refused", false},
		{"allow-snippet-annotations", "false", "", false},
		{"use-geoip2", "false", "", false},
		{"default-type", "text/plain", "", false},
		{"custom-http-errors", "299", `"299" is no status from 300 to 599`, false},
		{"jaeger-collector-host", "j", "no more", false},
		{"of-my-own", "x", "no key of the ConfigMap has this name", false},
		{"block-cidr", "10.0.0.0/8", "answer 503", true},
		{"ssl-redirect", "", "", false},
	} {
		config, problems := NewConfig(map[string]string{c.key: c.value}, Input{})
		if c.says == "" {
			if len(problems) != 0 {
				t.Errorf("%s: %q: problems %v, want none", c.key, c.value, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Message, c.says) || problems[0].Annotation != c.key || problems[0].Denies != c.denies {
			t.Errorf("%s: %q: problems %+v, want one with %q, denies %v", c.key, c.value, problems, c.says, c.denies)
		}
		draft, problems := Parse(Input{Config: config})
		if len(problems) != 0 || draft.Denied() != c.denies {
			t.Errorf("%s: %q: an Ingress has problems %v and is denied: %v, want none and %v", c.key, c.value, problems, draft.Denied(), c.denies)
		}
	}
}

func TestASnippetIsToldWithTheAnnotationThatDoesItsWork(t *testing.T) {
	const usual, auth = "configuration-snippet", "auth-snippet"
	for _, c := range []struct {
		name, text, want string
		denies           bool
	}{
		{usual, "more_set_headers \"X-A: b\";", "more_set_headers: custom-headers", false},
		{usual, "add_header X-Frame-Options DENY;\nreturn 301 /x;", "return: permanent-redirect", false},
		{usual, "if ($host = 'a') { return 302 https://b.test; }", "return: permanent-redirect or temporal-redirect", true},
		{usual, "proxy_set_header X-Real-IP $remote_addr;", "proxy_set_header: proxy-set-headers in the ConfigMap", false},
		{auth, "proxy_set_header X-Real-IP $remote_addr;", "proxy_set_header: auth-proxy-set-headers", true},
		{auth, "more_set_input_headers 'A: b';", "more_set_input_headers: auth-proxy-set-headers", true},
		{usual, "  deny 10.0.0.0/8;\n  allow all;", "denylist-source-range", true},
		{usual, "content_by_lua_block { ngx.say('x') }", "", true},
		// What asks for HTTPS guards nothing; permanent-redirect in its place would redirect for ever.
		{usual, "if ($scheme = http) { return 301 https://$host$request_uri; }", "if: ssl-redirect sends", false},
		{usual, "if ($http_x_forwarded_proto != \"https\") {\n  rewrite ^ https://$host$request_uri? permanent;\n}", "if: ssl-redirect sends", false},
		{usual, "if ( $server_port = 80 ) { return 308 https://$server_name$request_uri; }", "if: ssl-redirect sends", false},
		{usual, "if ($scheme = http) { return 403; }", "return", true},
		{usual, "if ($scheme = http) { return 301 http://other.test; }", "return: permanent-redirect", true},
		{usual, "if ($scheme$http_x_key = http) { return 301 https://$host$request_uri; }", "return: permanent-redirect", true},
		{usual, "if ($http_x_key = http) { return 301 https://$host$request_uri; }", "return: permanent-redirect", true},
		{usual, "if ($scheme = http) { return 301 https://$host$request_uri; }\ndeny all;", "deny: denylist-source-range", true},
	} {
		_, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + c.name: c.text}})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "refused") || !strings.Contains(problems[0].Message, c.want) || problems[0].Denies != c.denies {
			t.Errorf("%s: %q: %v, want one that names %q, denies %v", c.name, c.text, problems, c.want, c.denies)
			continue
		}
		if c.want == "" && strings.Contains(problems[0].Message, "; content") {
			t.Errorf("%q: advice where there is none: %s", c.text, problems[0].Message)
		}
		if strings.HasPrefix(c.want, "if") && strings.Contains(problems[0].Message, "permanent-redirect") {
			t.Errorf("%q: advice that would redirect for ever: %s", c.text, problems[0].Message)
		}
	}
}

func TestWhatTheConfigMapNamesIsOfItsOwnNamespace(t *testing.T) {
	seen := &asking{}
	config, _ := NewConfig(map[string]string{"add-headers": "edge"}, Input{Namespace: "ops", Objects: seen})
	Parse(Input{Namespace: "tenant", Config: config, Objects: seen})
	for _, name := range seen.names {
		if name != "ops/edge" {
			t.Errorf("%s is asked for, want ops/edge", name)
		}
	}
	if len(seen.names) < 2 {
		t.Errorf("asked for %v, want ops/edge for the ConfigMap and for the Ingress", seen.names)
	}
}

// asking notes the ConfigMaps it is asked for.
type asking struct {
	anything
	names []string
}

func (a *asking) ConfigMap(namespace, name string) (map[string]string, bool) {
	a.names = append(a.names, namespace+"/"+name)
	return nil, true
}

func TestWhatWasLearnedOutlivesAMistake(t *testing.T) {
	made := 0
	features := func(a *Annotations, d *Draft) {
		if n := a.Int("limit-rps", 0, "how many"); n > 0 && !a.Failed() {
			Recall(d, "buckets", func() *int { made++; return new(int) })
		}
	}
	defer func(all []func(*Annotations, *Draft)) { All = all }(All)
	All = []func(*Annotations, *Draft){features}
	var memory *Memory
	for _, value := range []string{"5", "5x", "", "5"} {
		d, _ := Parse(Input{Annotations: map[string]string{NginxPrefix + "limit-rps": value}, Memory: memory})
		memory = d.Memory()
	}
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
}
