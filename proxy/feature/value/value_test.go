package value

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/router"
)

func parse(t testing.TB, text string, allow ...Option) *Template {
	t.Helper()
	template, err := Parse(text, allow...)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return template
}

// answerWith is a front whose every request is answered with what a template gives.
func answerWith(template *Template, info *proxy.RouteInfo) *proxy.Server {
	s := &proxy.Server{Log: slog.New(slog.DiscardHandler)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := template.Expand(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		io.WriteString(w, text)
	})
	s.SetTable(router.New([]router.Route{{Match: router.Match{Path: "/"}, Handler: proxy.Identify(info, handler)}}, nil))
	return s
}

// listen serves on loopback until the test ends.
func listen(t testing.TB, s *proxy.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// send writes bytes on a fresh connection and returns the body of the answer, and the address they were sent from.
func send(t testing.TB, addr, request string) (body string, from netip.AddrPort) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, request)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("answer to %q: %v", request, err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("body of the answer to %q: %v", request, err)
	}
	return string(text), c.LocalAddr().(*net.TCPAddr).AddrPort()
}

var shop = &proxy.RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Port: "http", Host: "h.test", Path: "/api/(.*)"}

func TestVariablesAreWhatNginxGives(t *testing.T) {
	const head = "GET /a%20b/../c%2Fd%20e?x=1&Page=%41&page=2&empty=&r=%2F HTTP/1.1\r\nHost: H.Test:8080\r\n" +
		"Authorization: Basic YWxpY2U6czNjcmV0OngK\r\nX-Request-ID: r-1\r\nX-Forwarded-For: 203.0.113.9\r\n" +
		"X-Two: one\r\nX-Two: two\r\nCookie: a=1; Session = s=1 ; b=2\r\nCookie: c=3\r\nContent-Length: 0\r\n\r\n"
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain", "plain"},
		{"$host", "h.test"},
		{"$http_host", "H.Test:8080"},
		{"$best_http_host", "H.Test:8080"},
		{"$hostname", name},
		{"$server_name", "h.test"},
		{"$scheme", "http"},
		{"$pass_access_scheme", "http"},
		{"$request_method", "GET"},
		{"$server_protocol", "HTTP/1.1"},
		{"$request_uri", "/c%2Fd%20e?x=1&Page=%41&page=2&empty=&r=%2F"},
		{"$escaped_request_uri", "%2Fc%252Fd%2520e%3Fx%3D1%26Page%3D%2541%26page%3D2%26empty%3D%26r%3D%252F"},
		{"$uri", "/c%2Fd e"},
		{"$args", "x=1&Page=%41&page=2&empty=&r=%2F"},
		{"$query_string", "x=1&Page=%41&page=2&empty=&r=%2F"},
		{"$is_args", "?"},
		{"$arg_page", "%41"},
		{"$arg_empty", ""},
		{"$arg_pag", ""},
		{"$arg_r", "%2F"},
		{"$remote_addr", "127.0.0.1"},
		{"$binary_remote_addr", "\x7f\x00\x00\x01"},
		{"$remote_user", "alice"},
		{"$request_id", "r-1"},
		{"$req_id", "r-1"},
		{"$http_x_two", "one, two"},
		{"$http_cookie", "a=1; Session = s=1 ; b=2; c=3"},
		{"$http_x_absent", ""},
		{"$http_x_forwarded_for", "127.0.0.1"},
		{"$proxy_add_x_forwarded_for", "203.0.113.9, 127.0.0.1"},
		{"$cookie_session", "s=1"},
		{"$cookie_c", "3"},
		{"$cookie_absent", ""},
		{"$namespace/$ingress_name/$service_name/$service_port", "shop/web/app/http"},
		{"$proxy_upstream_name", "shop-app-http"},
		{"$location_path", "/api/(.*)"},
		{"$ssl_protocol$ssl_cipher$ssl_server_name$ssl_client_verify$ssl_client_s_dn", ""},
		{"$ssl_client_i_dn$ssl_client_serial$ssl_client_fingerprint", ""},

		{"${host}name", "h.testname"},
		{"$HOST", "h.test"},
		{"$host-$host.x", "h.test-h.test.x"},
		{"a$", "a$"},
		{"$", "$"},
		{"$$host$-$ $/", "$h.test$-$ $/"},
	} {
		if got, _ := send(t, listen(t, answerWith(parse(t, c.text), shop)), head); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

func TestVariablesOfTheConnectionAndTheClock(t *testing.T) {
	got, from := send(t, listen(t, answerWith(parse(t, "$remote_port $server_port $request_length $msec $time_iso8601"), shop)), "GET /?q HTTP/1.1\r\nHost: h.test\r\n\r\n")
	words := strings.Fields(got)
	if len(words) != 5 {
		t.Fatalf("got %q, want five words", got)
	}
	if want := netip.AddrPortFrom(from.Addr(), from.Port()).String(); !strings.HasSuffix(want, ":"+words[0]) {
		t.Errorf("$remote_port is %q, the client is %s", words[0], want)
	}
	if words[1] == "" || words[1] == words[0] {
		t.Errorf("$server_port is %q", words[1])
	}
	if words[2] != "34" { // bytes of the head above
		t.Errorf("$request_length is %q, want 34", words[2])
	}
	seconds, thousandths, _ := strings.Cut(words[3], ".")
	if len(seconds) != 10 || len(thousandths) != 3 {
		t.Errorf("$msec is %q", words[3])
	}
	at, err := time.Parse(time.RFC3339, words[4])
	if since := time.Since(at); err != nil || since < 0 || since > time.Minute {
		t.Errorf("$time_iso8601 is %q: %v", words[4], err)
	}
}

func TestVariablesBehindATrustedBalancer(t *testing.T) {
	s := answerWith(parse(t, "$remote_addr|$remote_port|$scheme|$pass_access_scheme|$server_port|$host|$best_http_host|$proxy_add_x_forwarded_for"), shop)
	s.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	got, _ := send(t, listen(t, s), "GET / HTTP/1.1\r\nHost: h.test\r\nX-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: Out.test\r\n\r\n")
	if want := "2001:db8::1||http|https|443|h.test|Out.test|2001:db8::1, 2001:db8::1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVariablesWithoutARule(t *testing.T) {
	for _, c := range []struct {
		info *proxy.RouteInfo
		want string
	}{
		{&proxy.RouteInfo{Namespace: "shop"}, "_|_||"},
		{&proxy.RouteInfo{Host: "*.w.test"}, "*.w.test|*.w.test||"},
		{nil, "|||"},
	} {
		got, _ := send(t, listen(t, answerWith(parse(t, "$host|$server_name|$proxy_upstream_name|$is_args"), c.info)), "GET /? HTTP/1.0\r\n\r\n")
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.info, got, c.want)
		}
	}
}

func TestParseNamesWhatItRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"$requst_uri", `"$requst_uri" is no variable (did you mean $request_uri?)`},
		{"/a/${htp_host}", `"$htp_host" is no variable (did you mean $http_host?)`},
		{"$request_urisuffix", `"$request_urisuffix" is no variable (did you mean ${request_uri}suffix?)`},
		{"$hostname_of_it", `"$hostname_of_it" is no variable (did you mean ${hostname}_of_it?)`},
		{"$xyzzyx", `"$xyzzyx" is no variable`},
		{"$http_", `"$http_" is no variable`},
		{"$geoip2_city_country_code", `"$geoip2_city_country_code" is not supported: Sallyport has no database of places`},
		{"/$1", `"$1" is a capture, and nothing is captured for this value`},
		{"/${2}0", `"$2" is a capture, and nothing is captured for this value`},
		{"$0", `"$0" is no capture, they are $1 to $9`},
		{"a${host", `"${host" has no closing brace behind a name`},
		{"a${host-name}", `"${host" has no closing brace behind a name`},
		{"${}", `"${}" names no variable`},
		{"a\r\nb", `"a\r\nb" holds the byte 0x0d, only printable ASCII is allowed`},
		{"é", `"é" holds the byte 0xc3, only printable ASCII is allowed`},
		{strings.Repeat("a", 5000), `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"... is 5000 bytes long, at most 4096 are allowed`},
	} {
		template, err := Parse(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || template != nil {
			t.Errorf("Parse(%q) = %v, want %s", c.text, err, c.want)
		}
	}
}

func TestCapturesAreOneDigit(t *testing.T) {
	r, _ := http.NewRequest("GET", "/", nil)
	for _, c := range []struct {
		text    string
		want    string
		highest int
	}{
		{"/$1/$2", "/one/two", 2},
		{"$10", "one0", 1},
		{"${1}0$2x", "one0twox", 2},
		{"$1a", "onea", 1},
		{"[$3$9]", "[]", 9},
		{"$-", "$-", 0},
	} {
		template := parse(t, c.text, Captures)
		if got, err := template.ExpandWith(r, []string{"one", "two"}); got != c.want || err != nil {
			t.Errorf("%q is %q, %v; want %q", c.text, got, err, c.want)
		}
		if got := template.Highest(); got != c.highest {
			t.Errorf("%q: highest capture is %d, want %d", c.text, got, c.highest)
		}
		if got, err := template.Expand(r); err != nil || strings.Contains(got, "one") {
			t.Errorf("%q without captures is %q, %v", c.text, got, err)
		}
	}
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]bool{"": true, "a": true, "$": true, "a$-b": true, "$host": false, "a$1": false} {
		if got, ok := parse(t, text, Captures).Literal(); ok != want || got != text {
			t.Errorf("Literal of %q is %q, %v; want %v", text, got, ok, want)
		}
	}
}

func TestEveryVariableOfTheReferenceIsKnown(t *testing.T) {
	const reference = `host http_host best_http_host hostname scheme pass_access_scheme request_uri escaped_request_uri uri
		args query_string is_args request_method remote_addr binary_remote_addr remote_user remote_port server_name server_port
		server_protocol request_id req_id proxy_add_x_forwarded_for namespace ingress_name service_name service_port
		location_path ssl_client_s_dn ssl_client_i_dn ssl_client_verify ssl_client_fingerprint ssl_client_serial ssl_protocol
		ssl_cipher ssl_server_name time_iso8601 msec request_length proxy_upstream_name arg_NAME http_NAME cookie_NAME`
	want := strings.Fields(reference)
	slices.Sort(want)
	if got := Variables(); !slices.Equal(got, want) {
		t.Errorf("Variables() = %q, want %q", got, want)
	}
	for _, name := range want {
		if _, err := Parse("${" + name + "}"); err != nil {
			t.Error(err)
		}
	}
}

// exchanged is a request as a handler sees it, without a server.
func exchanged(e *proxy.Exchange, header http.Header) *http.Request {
	if header == nil {
		header = http.Header{}
	}
	return proxy.With(&http.Request{Method: "GET", Header: header, Proto: "HTTP/1.1", Host: e.Host}, e)
}

func TestAFieldIsOneFieldWhateverAClientWrites(t *testing.T) {
	e := &proxy.Exchange{Host: "h.test", Path: "/a\r\nSet-Cookie: x=1\x00\x7f/\xc3\xa9", Client: netip.MustParseAddr("10.0.0.1")}
	r := exchanged(e, http.Header{"X-A": {" padded\t"}, "X-B": {"mid dle"}})
	for _, c := range []struct{ text, want string }{
		{"$uri", "/a%0D%0ASet-Cookie: x=1%00%7F/%C3%A9"},
		{"p $http_x_a", "p %20padded%09"},
		{"$http_x_b", "mid dle"},
		{"$1", "%20"},
		{"$2", "%20 %20"},
		{"$binary_remote_addr", "%0A%00%00%01"},
		{"100%$host", "100%h.test"},
	} {
		got, err := parse(t, c.text, Captures).ExpandField(r, []string{" ", "   "})
		if got != c.want || err != nil {
			t.Errorf("%q is %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestALongValueIsRefusedNotCut(t *testing.T) {
	r := exchanged(&proxy.Exchange{}, http.Header{"X-A": {strings.Repeat("a", Longest/2)}, "X-B": {strings.Repeat("\xff", Longest/3)}})
	if got, err := parse(t, "$http_x_a$http_x_a").Expand(r); len(got) != Longest || err != nil {
		t.Errorf("the longest value: %d bytes, %v", len(got), err)
	}
	dst := []byte("kept")
	if got, err := parse(t, "$http_x_a$http_x_a.").Append(dst, r); string(got) != "kept" || !errors.Is(err, ErrTooLong) {
		t.Errorf("one byte more: %d bytes, %v", len(got), err)
	}
	if got, err := parse(t, "$http_x_b...").ExpandField(r, nil); got != "" || !errors.Is(err, ErrTooLong) {
		t.Errorf("too long when encoded: %d bytes, %v", len(got), err)
	}
}

func TestTheLongestTargetFits(t *testing.T) {
	target := "/" + strings.Repeat("%", 8<<10-1) // no target, but the worst that one could become
	got, err := parse(t, "https://sign-in.test/start?rd=$escaped_request_uri").Expand(exchanged(&proxy.Exchange{Target: target}, nil))
	if err != nil || len(got) < 3*len(target) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestExpandingAllocatesNothing(t *testing.T) {
	e := &proxy.Exchange{Host: "h.test", Target: "/a?b=1", Path: "/a", Scheme: "http", Client: netip.MustParseAddr("2001:db8::1"), Info: shop, Start: time.Now()}
	r := exchanged(e, http.Header{"Cookie": {"a=1; session=2"}, "X-A": {"1", "2"}})
	buffer := make([]byte, 0, 1024)
	for _, text := range []string{
		"literal", "$", "$remote_addr", "$binary_remote_addr", "$host$request_uri", "$cookie_session$arg_b$http_x_a",
		"$escaped_request_uri", "$proxy_upstream_name$msec$time_iso8601$request_length", "$proxy_add_x_forwarded_for",
	} {
		template := parse(t, text)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := template.Append(buffer, r); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Append of %q allocates %v times", text, n)
		}
	}
	literal := parse(t, "literal")
	address, err := ParseURL("https://h.test/a")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		literal.Expand(r)
		literal.ExpandField(r, nil)
		address.Expand(r, nil)
	}); n != 0 {
		t.Errorf("literals allocate %v times", n)
	}
	several := parse(t, "$host$request_uri")
	if n := testing.AllocsPerRun(100, func() { several.Expand(r) }); n > 1 {
		t.Errorf("Expand allocates %v times, want 1: the string", n)
	}
}
