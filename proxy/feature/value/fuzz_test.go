package value

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// dollars are the variables in a text that Parse takes, said in one line.
var dollars = regexp.MustCompile(`\$(?:\{([0-9A-Za-z_]+)\}|([0-9])|([0-9A-Za-z_]+))`)

func FuzzParseAgainstReplacing(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "a$host-${uri}x", "$10", "${1}0", "$arg_a$http_b$cookie_c", "${", "${}", "$geoip2_x", "$HOST", "$msec."} {
		f.Add(seed)
	}
	e := &proxy.Exchange{Host: "h.test", Target: "/t?a=1", Path: "/t", Scheme: "http", Client: netip.MustParseAddr("10.0.0.1"), Info: shop}
	r := exchanged(e, http.Header{"B": {"$host"}, "Cookie": {"c=3"}})
	captures := []string{"one", "$2"}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Parse(text, Captures)
		if err != nil {
			if template != nil || !strings.Contains(err.Error(), `"`) {
				t.Errorf("Parse(%q) = %v, %v", text, template, err)
			}
			return
		}
		if template.String() != text {
			t.Errorf("String of %q is %q", text, template)
		}
		want := dollars.ReplaceAllStringFunc(text, func(name string) string {
			name = strings.Trim(name, "${}")
			if i := strings.IndexAny("12", name); i >= 0 && len(name) == 1 {
				return captures[i]
			} else if len(name) == 1 && isDigit(name[0]) {
				return ""
			}
			one, err := Parse("${" + name + "}")
			if err != nil {
				t.Fatalf("Parse takes %q, and of it alone: %v", text, err)
			}
			value, err := one.Expand(r)
			if err != nil {
				t.Fatal(err)
			}
			return value
		})
		got, err := template.ExpandWith(r, captures)
		if len(want) > Longest {
			if err != ErrTooLong {
				t.Errorf("%q has a value of %d bytes, and no error", text, len(want))
			}
			return
		}
		if got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
		if literal, ok := template.Literal(); ok != !dollars.MatchString(text) || ok && got != literal {
			t.Errorf("Literal of %q is %q, %v", text, literal, ok)
		}
	})
}

// through runs a request through a front, as far as the front lets it.
func through(target, host, field string, handle func(r *http.Request)) {
	s := &proxy.Server{Log: slog.New(slog.DiscardHandler)}
	s.SetTable(router.New([]router.Route{{Match: router.Match{Path: "/"}, Handler: proxy.Identify(shop, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handle(r) }))}}, nil))
	s.ServeHTTP(httptest.NewRecorder(), &http.Request{
		Method: "GET", RequestURI: target, URL: &url.URL{}, Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"X": {field}, "Cookie": {"c=" + field}}, RemoteAddr: "10.0.0.1:1", Body: http.NoBody,
	})
}

func FuzzFieldsAreFields(f *testing.F) {
	f.Add("$uri $http_x $1", "/a%0d%0aX:%20y?z", "v\x00\xff", "\r\n ")
	f.Add("${cookie_c}", "/", " a ", "")
	f.Fuzz(func(t *testing.T, text, target, field, captured string) {
		template, err := Parse(strings.TrimSpace(text), Captures)
		if err != nil {
			return
		}
		through(target, "h.test", field, func(r *http.Request) {
			got, err := template.ExpandField(r, []string{captured})
			if err != nil && err != ErrTooLong {
				t.Error(err)
			}
			for i := range len(got) {
				if got[i] < ' ' || got[i] > '~' {
					t.Fatalf("%q is %q", text, got)
				}
			}
			if strings.TrimSpace(got) != got {
				t.Errorf("%q is %q, and loses its ends", text, got)
			}
		})
	})
}

func FuzzURLsStayOnTheirHost(f *testing.F) {
	f.Add("https://n.test$request_uri", "//evil.test", "h.test", "a", "b")
	f.Add("https://$host:8443/$1?a=$http_x", "/a%2fb?%zz", "H.test:80", "#\\", "@evil.test")
	f.Add("$scheme://n.test:80$uri", "/a;b", "[::1]:80", "", "")
	f.Add("/$1", "/", "h.test", "/evil.test", "")
	f.Add("$request_uri$args#$1", "/?", "h.test", "/evil.test", "")
	f.Fuzz(func(t *testing.T, text, target, host, captured, field string) {
		u, err := ParseURL(text, Captures, Relative)
		if err != nil {
			return
		}
		through(target, host, field, func(r *http.Request) {
			got, err := u.Expand(r, []string{captured})
			if err != nil {
				if err != ErrHost && err != ErrTooLong || got != "" {
					t.Errorf("%q is %q, %v", text, got, err)
				}
				return
			}
			read, err := url.Parse(got)
			if err != nil {
				t.Fatalf("%q is %q: %v", text, got, err)
			}
			if strings.ContainsAny(got, "\\ \r\n\t") || read.User != nil {
				t.Errorf("%q is %q", text, got)
			}
			authority, fixed := u.Authority()
			relative := text[0] == '/' || strings.HasPrefix(text, "$request_uri") || strings.HasPrefix(text, "$uri")
			switch {
			case fixed && read.Host != authority:
				t.Errorf("%q is %q, on host %q", text, got, read.Host)
			case !fixed && (read.Host == "") != (read.Scheme == ""):
				t.Errorf("%q is %q, on host %q with scheme %q", text, got, read.Host, read.Scheme)
			case relative && read.Host != "":
				t.Errorf("%q is %q, on host %q", text, got, read.Host)
			case read.Scheme != "" && read.Scheme != "http" && read.Scheme != "https":
				t.Errorf("%q is %q, with scheme %q", text, got, read.Scheme)
			}
			// Another client that asks for the same host is sent to the same host.
			e := proxy.From(r)
			other := exchanged(&proxy.Exchange{Host: e.Host, Scheme: "http", Port: e.Port, Target: "/", Path: "/", Info: e.Info}, nil)
			other.Host = r.Host
			if second, err := u.Expand(other, nil); err == nil {
				if again, err := url.Parse(second); err != nil || again.Host != read.Host {
					t.Errorf("%q is %q for one client and %q for another: %v", text, got, second, err)
				}
			}
		})
	})
}

func FuzzDistinguishedName(f *testing.F) {
	f.Add([]byte("\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02\xc3\xa9"))
	f.Fuzz(func(t *testing.T, der []byte) {
		name := DistinguishedName(der)
		for i := range len(name) {
			if name[i] < ' ' || name[i] > '~' {
				t.Fatalf("%x is %q", der, name)
			}
		}
	})
}
