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
	for text, want := range map[string]string{
		"more_set_headers \"X-A: b\";":                     "custom-headers",
		"add_header X-Frame-Options DENY;\nreturn 301 /x;": "permanent-redirect",
		"if ($host = 'a') { return 302 https://b.test; }":  "temporal-redirect",
		"proxy_set_header X-Real-IP $remote_addr;":         "proxy-set-headers",
		"  deny 10.0.0.0/8;\n  allow all;":                 "denylist-source-range",
		"content_by_lua_block { ngx.say('x') }":            "",
	} {
		_, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + "configuration-snippet": text}})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "refused") || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%q: %v, want one that names %q", text, problems, want)
		}
		if want == "" && strings.Contains(problems[0].Message, "; content") {
			t.Errorf("%q: advice where there is none: %s", text, problems[0].Message)
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
