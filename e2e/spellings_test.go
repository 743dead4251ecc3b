package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// What servers do to a path before they serve it.
var (
	decode = func(path string) string {
		return regexp.MustCompile(`%[0-9a-fA-F]{2}|%u00[0-7][0-9a-fA-F]`).ReplaceAllStringFunc(path, func(s string) string {
			n, _ := strconv.ParseUint(s[len(s)-2:], 16, 8)
			return string([]byte{byte(n)})
		})
	}
	mergeSlashes    = replacing(`/+`, "/")
	turnBackslashes = replacing(`\\`, "/")
	dropParameters  = replacing(`;[^/]*`, "")
	endAtSemicolon  = replacing(`(?s);.*`, "")
	endAtQuery      = replacing(`(?s)[?#].*`, "")
	endAtNUL        = replacing(`(?s)\x00.*`, "")
	endAtLine       = replacing(`(?s)[\r\n].*`, "")
)

func replacing(pattern, with string) func(string) string {
	compiled := regexp.MustCompile(pattern)
	return func(path string) string { return compiled.ReplaceAllString(path, with) }
}

// shortenUTF8 decodes ASCII in the two, three or four bytes of longer characters, as nobody may since RFC 3629.
func shortenUTF8(path string) string {
	var pairs []string
	for c := range byte(128) {
		high, low := c>>6, 0x80|c&0x3f
		for _, long := range [][]byte{{0xc0 | high, low}, {0xc0 | high, c & 0x3f}, {0xe0, 0x80 | high, low}, {0xf0, 0x80, 0x80 | high, low}} {
			pairs = append(pairs, string(long), string(rune(c)))
		}
	}
	return strings.NewReplacer(pairs...).Replace(path)
}

// resolveDots also begins every path at the root.
func resolveDots(path string) string {
	var kept []string
	for _, segment := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case segment == ".":
		case segment != "..":
			kept = append(kept, segment)
		case len(kept) > 0:
			kept = kept[:len(kept)-1]
		}
	}
	return "/" + strings.Join(kept, "/")
}

// A reader is a server by what it does to a path, in this order. Opens is a spelling of the table that leads it to /admin.
type reader struct {
	name, opens string
	steps       []func(string) string
}

var readers = []reader{
	{"decodes", "/pub/..%2fadmin", []func(string) string{decode, resolveDots}},
	{"decodes-twice", "/%2561dmin", []func(string) string{decode, decode, resolveDots}},
	{"decodes-between", "/pub/%252e%252e/admin", []func(string) string{resolveDots, decode, resolveDots, decode, resolveDots}},
	{"decodes-often", "/%252525252525252561dmin", []func(string) string{decode, decode, decode, decode, decode, decode, decode, decode, decode, resolveDots}},
	{"decodes-javascript", "/%25u0061dmin", []func(string) string{decode, decode, resolveDots}},
	{"merges-then-decodes", "///admin", []func(string) string{mergeSlashes, decode, resolveDots}},
	{"decodes-then-merges", "/%2f%2fadmin", []func(string) string{decode, mergeSlashes, resolveDots}},
	{"backslashes", "/pub%5c..%5cadmin", []func(string) string{decode, turnBackslashes, resolveDots}},
	{"windows", "/%5cadmin", []func(string) string{decode, turnBackslashes, mergeSlashes, resolveDots}},
	{"servlets", "/pub/..;/admin", []func(string) string{dropParameters, decode, resolveDots}},
	{"late-parameters", "/pub/..%3b/admin", []func(string) string{decode, dropParameters, resolveDots}},
	{"parameters-and-slashes", "/;x=1;y=2/admin", []func(string) string{dropParameters, decode, mergeSlashes, resolveDots}},
	{"last-parameters", "/admin;x=1/users", []func(string) string{decode, endAtSemicolon, resolveDots}},
	{"sends-on-decoded", "/admin%3fx", []func(string) string{decode, endAtQuery, decode, resolveDots}},
	{"c-strings", "/admin%2500.html", []func(string) string{decode, decode, endAtNUL, resolveDots}},
	{"lines", "/admin%0d%0a", []func(string) string{decode, endAtLine, resolveDots}},
	{"long-utf8", "/pub/%c0%ae%c0%ae/admin", []func(string) string{decode, shortenUTF8, resolveDots}},
	{"everything", "/;%2f..%2fadmin", []func(string) string{
		decode, decode, decode, shortenUTF8, decode, endAtNUL, endAtQuery, endAtLine, turnBackslashes, dropParameters, mergeSlashes, resolveDots,
	}},
}

func (s reader) host() string { return s.name + ".test" }

// ServeHTTP answers SECRET for /admin and what is below it.
func (s reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	for _, step := range s.steps {
		path = step(path)
	}
	if path == "/admin" || strings.HasPrefix(path, "/admin/") {
		io.WriteString(w, "SECRET")
		return
	}
	io.WriteString(w, "open")
}

// TestNoSpellingOpensAGuardedPath sends every spelling of testdata/spellings.txt to a host for each reader, which serves all
// of its host and would serve /admin to whoever found a way there past the guard of the Ingress for /admin.
func TestNoSpellingOpensAGuardedPath(t *testing.T) {
	p := startReaders(t)
	for _, s := range readers {
		t.Run(s.name, func(t *testing.T) {
			ask := func(target string) string { return askRaw(t, p.HTTP, s.host(), target) }
			checkDoors(t, ask)
			passed := 0
			for _, target := range spellings(t, s.host()) {
				answer := ask(target)
				if !strings.HasPrefix(answer, "HTTP/1.1 ") {
					t.Errorf("%q is answered %q", target, answer)
				}
				if strings.Contains(answer, "SECRET") {
					t.Errorf("%q leads to what /admin guards", target)
				}
				if strings.HasSuffix(answer, "open") {
					passed++
				}
			}
			if passed == 0 {
				t.Error("no spelling came through, not even those that mean another path")
			}
		})
	}
}

// TestNoSpellingOpensAGuardedPathOverHTTP2 does so with the reader that knows every trick.
func TestNoSpellingOpensAGuardedPathOverHTTP2(t *testing.T) {
	p := startReaders(t)
	s := readers[len(readers)-1]
	ask := func(target string) string { return askHTTP2(t, p.HTTPS, s.host(), target) }
	checkDoors(t, ask)
	for _, target := range spellings(t, s.host()) {
		if strings.Contains(ask(target), "SECRET") {
			t.Errorf("%q leads to what /admin guards", target)
		}
	}
}

// TestSpellingsOpenWhatNobodyGuards shows that each reader has a spelling that would get somewhere, were there no proxy
// before it.
func TestSpellingsOpenWhatNobodyGuards(t *testing.T) {
	for _, s := range readers {
		straight := e2e.Serve(t, "127.0.0.1:0", s.name, s)
		if answer := askRaw(t, straight.Addr, s.host(), s.opens); !strings.HasSuffix(answer, "SECRET") {
			t.Errorf("%s: %q is answered %q, want SECRET", s.name, s.opens, answer)
		}
		all := spellings(t, s.host())
		if len(all) < 60 {
			t.Errorf("%d spellings", len(all))
		}
		if !strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+s.opens+"\n") {
			t.Errorf("%s: %q is not in the table", s.name, s.opens)
		}
	}
}

// startReaders starts a host for each reader. Its / belongs to the reader, its /admin to another Service that answers
// SECRET to everything, and an Ingress of its own guards that.
func startReaders(t *testing.T) *e2e.Process {
	t.Helper()
	guarded := e2e.Serve(t, "127.0.0.1:0", "guarded", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "SECRET")
	}))
	arguments := []string{"--map=default/guarded=" + guarded.Addr}
	manifests := ""
	for _, s := range readers {
		endpoint := e2e.Serve(t, "127.0.0.1:0", s.name, s)
		arguments = append(arguments, "--map=default/"+s.name+"="+endpoint.Addr)
		guard := ingress("guard-"+s.name, s.host(), "/admin", "guarded")
		manifests += ingress(s.name, s.host(), "/", s.name) +
			strings.Replace(guard, "metadata: {", "metadata: {annotations: {nginx.ingress.kubernetes.io/whitelist-source-range: 192.0.2.1}, ", 1)
	}
	return e2e.Start(t, e2e.Folder(t, map[string]string{"readers.yaml": manifests}), arguments...)
}

// checkDoors makes sure that there is a guard, and something that has none.
func checkDoors(t *testing.T, ask func(target string) string) {
	t.Helper()
	if answer := ask("/pub/index.html"); !strings.Contains(answer, "open") {
		t.Fatalf("/pub/index.html is answered %q, want open", answer)
	}
	if answer := ask("/admin"); !strings.Contains(answer, "403") {
		t.Fatalf("/admin is answered %q, want the 403 of its guard", answer)
	}
}

// spellings reads the table for a host.
func spellings(t *testing.T, host string) (targets []string) {
	t.Helper()
	file, err := os.ReadFile("testdata/spellings.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		target, err := strconv.Unquote(`"` + line + `"`)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		targets = append(targets, strings.ReplaceAll(target, "{host}", host))
	}
	return targets
}

// askRaw sends a request whose target no client library would send, and returns all that comes back.
func askRaw(t *testing.T, addr, host, target string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("%q: %v", target, err)
	}
	return string(answer)
}

// The frames of HTTP/2 that matter here (RFC 9113 section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7
	flagEndStream, flagEndHeaders                                   = 1, 4
)

// askHTTP2 sends a request on a new connection, frame by frame, and returns what the frames hold that come back until the
// stream or the connection ends. Header fields in it are as RFC 7541 packs them, the body is as it is.
func askHTTP2(t *testing.T, addr, host, target string) string {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: host})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	var fields []byte
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", host}, {":path", target}} {
		fields = append(fields, 0) // a literal that is not indexed (RFC 7541 section 6.2.2)
		for _, s := range field {
			fields = append(append(fields, byte(len(s))), s...) // in one byte up to 126
		}
	}
	request := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	request = append(request, 0, 0, 0, frameSettings, 0, 0, 0, 0, 0)
	request = append(request, 0, byte(len(fields)>>8), byte(len(fields)), frameHeaders, flagEndStream|flagEndHeaders, 0, 0, 0, 1)
	if _, err := c.Write(append(request, fields...)); err != nil {
		t.Fatal(err)
	}
	var answer []byte
	for {
		var head [9]byte // three bytes of length, type, flags, four of stream
		if _, err := io.ReadFull(c, head[:]); err == io.EOF {
			return string(answer)
		} else if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		answer = append(answer, payload...)
		kind, ends := head[3], head[4]&flagEndStream != 0
		if kind == frameReset || kind == frameGoAway || (kind == frameData || kind == frameHeaders) && ends {
			return string(answer)
		}
	}
}
