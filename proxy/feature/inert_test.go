package feature

import (
	"strings"
	"testing"
)

func TestWhatDoesNothingForWantOfAnotherIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		has    pairs
		config pairs
		says   string // of the annotation name; empty: nothing
		denies bool
	}{
		{"auth-signin", pairs{"auth-signin": "https://s.test/in"}, nil, "it does nothing without auth-url", false},
		{"auth-signin", pairs{"auth-signin": "https://s.test/in"}, pairs{"global-auth-url": "http://a.test/"}, "without auth-url: beside global-auth-url", false},
		{"auth-signin", pairs{"auth-signin": "https://s.test/in", "auth-url": "http://a.test/"}, nil, "", false},
		{"auth-response-headers", pairs{"auth-response-headers": "X-User"}, nil, "it does nothing without auth-url", false},
		{"auth-cache-key", pairs{"auth-cache-key": "$remote_addr"}, nil, "it does nothing without auth-url", false},
		{"auth-cache-key", pairs{"auth-cache-key": "$nothing"}, nil, "is no variable", true},
		{"auth-secret-type", pairs{"auth-secret-type": "auth-map"}, nil, "it does nothing without auth-type", false},
		{"auth-realm", pairs{"auth-realm": "here"}, nil, "it does nothing without auth-type", false},
		{"limit-allowlist", pairs{"limit-allowlist": "10.0.0.0/8"}, nil, "it does nothing without limit-rps, limit-rpm or limit-connections", false},
		{"limit-allowlist", pairs{"limit-allowlist": "10.0.0.0/8", "limit-rpm": "5"}, nil, "", false},
		{"satisfy", pairs{"satisfy": "any"}, nil, "it does nothing where there is no check", false},
		{"satisfy", pairs{"satisfy": "any", "allowlist-source-range": "10.0.0.0/8"}, nil, "", false},
		{"satisfy", pairs{"satisfy": "any"}, pairs{"whitelist-source-range": "10.0.0.0/8"}, "", false},
		{"satisfy", pairs{"satisfy": "all"}, nil, "", false},
		{"satisfy", pairs{"satisfy": "any", "auth-type": "basic"}, nil, "", true},
	} {
		annotations := make(map[string]string)
		for name, value := range c.has {
			annotations[NginxPrefix+name] = value
		}
		config, _ := NewConfig(c.config, Input{})
		d, problems := Parse(Input{Annotations: annotations, Config: config})
		var told []Problem
		for _, p := range problems {
			if p.Annotation == NginxPrefix+c.name {
				told = append(told, p)
			}
		}
		if c.says == "" && len(told) > 0 || c.says != "" && (len(told) != 1 || !strings.Contains(told[0].Message, c.says)) || d.Denied() != c.denies {
			t.Errorf("%v beside %v: told %+v, denied %v; want %q of %s and %v", c.has, c.config, problems, d.Denied(), c.says, c.name, c.denies)
		}
	}
}
