package value

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"sallyport/proxy"
)

func TestURL(t *testing.T) {
	e := &proxy.Exchange{
		Host: "h.test", Scheme: "https", Port: "443", Target: "/a%2Fb;c?x=1&y=%zz&z=[", Path: "/a%2Fb;c",
		Client: netip.MustParseAddr("2001:db8::1"), Info: shop,
	}
	r := exchanged(e, http.Header{"X-A": {"1&b=2#\r\n\"%41é/"}})
	r.Host = "H.test:8080"
	captures := []string{"a?b#c&d e/f", "@evil.test"}
	for _, c := range []struct{ text, want string }{
		{"https://n.test", "https://n.test"},
		{"https://n.test:8443/a%20b?x=$#top", "https://n.test:8443/a%20b?x=$#top"},
		{"HTTP://N.test/", "HTTP://N.test/"},
		{"http://[::1]:80/", "http://[::1]:80/"},
		{"https://n.test$request_uri", "https://n.test/a%2Fb;c?x=1&y=%25zz&z=["},
		{"https://n.test$uri", "https://n.test/a%2Fb;c"},
		{"https://n.test/?$args", "https://n.test/?x=1&y=%25zz&z=["},
		{"https://n.test/?rd=$escaped_request_uri", "https://n.test/?rd=%2Fa%252Fb%3Bc%3Fx%3D1%26y%3D%25zz%26z%3D%5B"},
		{"https://$host/$1", "https://h.test/a%3Fb%23c%26d%20e/f"},
		{"https://$http_host/", "https://H.test:8080/"},
		{"https://n.test/?a=$http_x_a", "https://n.test/?a=1%26b%3D2%23%0D%0A%22%2541%C3%A9/"},
		{"https://n.test/$2", "https://n.test/%40evil.test"},
		{"https://n.test?$2", "https://n.test?%40evil.test"},
		{"https://n.test/$remote_addr", "https://n.test/2001:db8::1"},
		{"$scheme://$host$request_uri", "http://h.test/a%2Fb;c?x=1&y=%25zz&z=["},
		{"$pass_access_scheme://www.${host}:$server_port/", "https://www.h.test:443/"},
		{"http://$service_name.$namespace.svc:$server_port/verify", "http://app.shop.svc:443/verify"},
	} {
		u, err := ParseURL(c.text, Captures)
		if err != nil {
			t.Errorf("ParseURL: %v", err)
			continue
		}
		got, err := u.Expand(r, captures)
		if got != c.want || err != nil {
			t.Errorf("%q is %q, %v; want %q", c.text, got, err, c.want)
		}
		if _, err := url.Parse(got); err != nil {
			t.Error(err)
		}
	}
}

func TestAURLIsOneWhateverTheTargetHolds(t *testing.T) {
	u, err := ParseURL("https://n.test$request_uri")
	if err != nil {
		t.Fatal(err)
	}
	got, err := u.Expand(exchanged(&proxy.Exchange{Target: "/a b\\<\x00\r\n\xff%4%41?%#"}, nil), nil) // the front lets no such target through
	if want := "https://n.test/a%20b%5C%3C%00%0D%0A%FF%254%41?%25%23"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestParseURLRefusesWhatIsNoURLOrLetsAClientChooseItsHost(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `"" is no absolute URL, it must begin with http:// or https://`},
		{"n.test/a", `is no absolute URL`},
		{"/a", `is no absolute URL`},
		{"//n.test/a", `is no absolute URL`},
		{"ftp://n.test/", `is no absolute URL`},
		{"javascript:alert(1)", `is no absolute URL`},
		{"$scheme", `is no absolute URL`},
		{"$scheme:/n.test/", `is no absolute URL`},
		{"$host://n.test/", `is no absolute URL`},
		{"$request_uri", `is no absolute URL`},
		{"http://", `has no valid host, ""`},
		{"http:///a", `has no valid host, ""`},
		{"http://a..test/", `has no valid host, "a..test"`},
		{"http://n.test:0/", `has no valid host, "n.test:0"`},
		{"http://n.test:99999/", `has no valid host, "n.test:99999"`},
		{"http://n test/", `holds ' ', which no URL may hold`},
		{"http://n.test/\\a", `holds '\\', which no URL may hold`},
		{"http://n.test/{a}", `holds '{', which no URL may hold`},
		{"http://n.test/%4", `holds a '%' without two hexadecimal digits behind it`},
		{"http://n.test/%4$1", `holds a '%' without two hexadecimal digits behind it`},
		{"http://u:p@n.test/", `holds a user before its host`},
		{"http://u@$host/", `holds a user before its host`},
		{"https://n.test$1", `lets a client write into the host`},
		{"https://$1/", `lets a client write into the host`},
		{"https://$arg_to/", `lets a client write into the host`},
		{"https://$http_x_host/", `lets a client write into the host`},
		{"https://$http_x_forwarded_host/", `lets a client write into the host`},
		{"https://$remote_addr/", `lets a client write into the host`},
		{"https://n.test$is_args$args", `lets a client write into the host`},
		{"https://$ssl_server_name/", `lets a client write into the host`},
		{"https://n.test$nothing", `"$nothing" is no variable`},
	} {
		if u, err := ParseURL(c.text, Captures); err == nil || !strings.Contains(err.Error(), c.want) || u != nil {
			t.Errorf("ParseURL(%q): %v, want ...%s...", c.text, err, c.want)
		}
	}
}

func TestAHostThatCameOutWrongIsAnError(t *testing.T) {
	for _, c := range []struct{ text, host, target string }{
		{"https://$host/", "", "/"},
		{"https://$http_host:8443/", "h.test:80", "/"},
		{"https://www.$host/", strings.Repeat("a.", 126) + "a", "/"},
		// The front lets none of these through.
		{"https://$host/", "h.test@evil.test", "/"},
		{"https://n.test$request_uri", "h.test", ".evil.test/"},
		{"https://n.test$request_uri", "h.test", "@evil.test/"},
		{"$pass_access_scheme://$host/", "h.test", "/"},
	} {
		u, err := ParseURL(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := u.Expand(exchanged(&proxy.Exchange{Host: c.host, Target: c.target}, nil), nil)
		if got != "" || !errors.Is(err, ErrHost) {
			t.Errorf("%q for host %q and target %q is %q, %v; want ErrHost", c.text, c.host, c.target, got, err)
		}
	}
}

func TestRelativeURLsStayOnTheHost(t *testing.T) {
	for _, c := range []struct{ text, target, capture, want string }{
		{"/start", "/", "", "/start"},
		{"/new$request_uri", "/a?b", "", "/new/a?b"},
		{"$request_uri", "/a?b", "", "/a?b"},
		{"$request_uri", "//evil.test/", "", ""},
		{"$uri", "//evil.test/", "", ""},
		{"/$1", "/", "evil.test", "/evil.test"},
		{"/$1", "/", "/evil.test", ""},
		{"/$1", "/", "\\evil.test", "/%5Cevil.test"},
		{"/$1", "/", "\t/evil.test", "/%09/evil.test"},
		{"https://n.test/", "/", "", "https://n.test/"},
	} {
		u, err := ParseURL(c.text, Captures, Relative)
		if err != nil {
			t.Errorf("ParseURL: %v", err)
			continue
		}
		got, err := u.Expand(exchanged(&proxy.Exchange{Target: c.target}, nil), []string{c.capture})
		if got != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, ErrHost) {
			t.Errorf("%q for target %q and capture %q is %q, %v; want %q", c.text, c.target, c.capture, got, err, c.want)
		}
	}
	for _, text := range []string{"", "//n.test", "a/b", "$1", "$1/a", "?a", "#a", "$args", "n.test"} {
		if u, err := ParseURL(text, Captures, Relative); err == nil {
			t.Errorf("ParseURL(%q) = %v, want an error", text, u)
		}
	}
}

func TestAuthorityIsToldWhereItIsFixed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"http://auth.test:8080/$arg_x", "auth.test:8080"},
		{"$scheme://auth.test$request_uri", "auth.test"},
		{"http://$host/", ""},
		{"/a", ""},
	} {
		u, err := ParseURL(c.text, Relative)
		if err != nil {
			t.Fatal(err)
		}
		if got, fixed := u.Authority(); got != c.want || fixed != (c.want != "") {
			t.Errorf("authority of %q is %q, %v; want %q", c.text, got, fixed, c.want)
		}
	}
}
