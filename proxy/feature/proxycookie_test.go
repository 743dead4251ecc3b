package feature

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCookiesOfEndpoints(t *testing.T) {
	for _, c := range []struct{ domain, path, cookie, want string }{
		{"in.test out.test", "", "a=b; Domain=in.test; Path=/", "a=b; Domain=out.test; Path=/"},
		{"in.test out.test", "", "a=b; domain=IN.test", "a=b; domain=out.test"},
		{"in.test out.test", "", "a=b; Domain=.in.test; Secure", "a=b; Domain=.out.test; Secure"},
		{".in.test .out.test", "", "a=b; Domain=in.test", "a=b; Domain=out.test"},
		{"in.test out.test", "", "a=b;Domain = in.test ;Secure", "a=b;Domain =out.test;Secure"},
		{"in.test out.test", "", "a=b; Domain=x.in.test", "a=b; Domain=x.in.test"},
		{"in.test out.test", "", "a=b; Domain=in.test.evil", "a=b; Domain=in.test.evil"},
		{"in.test out.test", "", "Domain=in.test; Path=/", "Domain=in.test; Path=/"},
		{"in.test out.test", "", "a=b", "a=b"},
		{"in.test out.test", "", "a=b; Domain; Secure", "a=b; Domain; Secure"},
		{"in.test out.test", "", "", ""}, {"in.test out.test", "", ";", ";"}, {"in.test out.test", "", ";;Domain=in.test;", ";;Domain=out.test;"},
		{"off", "", "a=b; Domain=in.test", "a=b; Domain=in.test"},
		{"", "/ /app/", "a=b; Path=/; HttpOnly", "a=b; Path=/app/; HttpOnly"},
		{"", "/in /out", "a=b; path=/in/x", "a=b; path=/out/x"},
		{"", "/in /out", "a=b; Path=/IN", "a=b; Path=/IN"},
		{"", "/in /out", "a=b; Path=/x/in", "a=b; Path=/x/in"},
		{"in.test out.test", "/in /out", "a=b; Path=/in; Domain=in.test; Path=/in", "a=b; Path=/out; Domain=out.test; Path=/out"},
		{"~in out", "", "a=b; Domain=in", "a=b; Domain=in"},
		{"in.test", "", "a=b; Domain=in.test", "a=b; Domain=in.test"},
	} {
		annotations := map[string]string{}
		if c.domain != "" {
			annotations["proxy-cookie-domain"] = c.domain
		}
		if c.path != "" {
			annotations["proxy-cookie-path"] = c.path
		}
		p := (&passage{
			annotations: annotations, features: []func(*Annotations, *Draft){proxyCookie},
			endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Set-Cookie"] = []string{"first=1; Secure", c.cookie}
			})},
		}).open(t)
		answer, _ := p.get(t, "/")
		if got := answer.Header["Set-Cookie"]; !slices.Equal(got, []string{"first=1; Secure", c.want}) {
			t.Errorf("domain %q, path %q: %q became %q, want %q", c.domain, c.path, c.cookie, got, c.want)
		}
	}
}

func TestCookieRulesThatAreRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"off": true, "a b": true, " a  b ": true, "": false, "a": false, "a b c": false, "on": false, "~a b": false, "a b;Secure": false, "a é": false,
	} {
		p := passage{annotations: map[string]string{"proxy-cookie-path": text}, features: []func(*Annotations, *Draft){proxyCookie}}
		if p.drafted(); (len(p.problems) == 0) != ok {
			t.Errorf("%q: %v, want it taken: %v", text, p.problems, ok)
		}
	}
}

func TestCookiesThatStayCostNoAllocation(t *testing.T) {
	c := &cookieRewrite{textReplacement{"in.test", "out.test"}, textReplacement{"/in", "/out"}}
	header := http.Header{"Set-Cookie": {"a=b; Domain=x.test; Path=/; Secure"}}
	if n := testing.AllocsPerRun(100, func() { c.SetHeader(nil, header) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCookieRewrite(f *testing.F) {
	f.Add("a=b; Domain=in.test; Path=/in")
	f.Add(";;=; Domain==in.test ;Path=")
	c := &cookieRewrite{textReplacement{"in.test", "out.test"}, textReplacement{"/in", "/out"}}
	f.Fuzz(func(t *testing.T, cookie string) {
		pieces := strings.Split(cookie, ";")
		for i, piece := range pieces[1:] {
			name, text, has := strings.Cut(piece, "=")
			if now, changed := c.attribute(strings.TrimSpace(name), strings.TrimSpace(text)); has && changed {
				pieces[1+i] = name + "=" + now
			}
		}
		if got, want := c.rewrite(cookie), strings.Join(pieces, ";"); got != want {
			t.Errorf("%q became %q, want %q", cookie, got, want)
		}
	})
}
