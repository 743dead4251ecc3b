package feature

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/proxy"
)

// A shadow is a server to which requests are mirrored. It tells what it gets, once it has read it.
type shadow struct {
	*httptest.Server
	got chan gotten
}

type gotten struct {
	method, target, host, body string
	header                     http.Header
}

func got(r *http.Request) gotten {
	body, _ := io.ReadAll(r.Body)
	return gotten{r.Method, r.RequestURI, r.Host, string(body), r.Header.Clone()}
}

func newShadow(t testing.TB, answer http.HandlerFunc) *shadow {
	s := &shadow{got: make(chan gotten, 5000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.got <- got(r)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shadow) next(t testing.TB) gotten {
	t.Helper()
	select {
	case g := <-s.got:
		return g
	case <-time.After(10 * time.Second):
		t.Fatal("no copy came")
		panic("unreachable")
	}
}

// counts are what became of copies, by outcome.
func counts() map[string]uint64 {
	all := map[string]uint64{}
	Mirrored(func(outcome string, n uint64) { all[outcome] = n })
	return all
}

// since is what became of copies after counts were taken; outcomes of none are left out. It waits until there are as many as
// wanted.
func since(t testing.TB, before map[string]uint64, wanted uint64) map[string]uint64 {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		all, n := map[string]uint64{}, uint64(0)
		for outcome, count := range counts() {
			if count -= before[outcome]; count > 0 {
				all[outcome] = count
				n += count
			}
		}
		if n >= wanted || time.Now().After(deadline) {
			return all
		}
	}
}

func wantOutcomes(t testing.TB, before map[string]uint64, want map[string]uint64) {
	t.Helper()
	n := uint64(0)
	for _, count := range want {
		n += count
	}
	if all := since(t, before, n); !maps.Equal(all, want) {
		t.Errorf("copies came to %v, want %v", all, want)
	}
}

// patient has mirrors that wait as long as a test may take.
func patient(_ *Annotations, d *Draft) {
	Recall(d, "mirror-target", func() *mirrors {
		m := newMirrors(nil)
		m.patience = time.Hour
		return m
	})
}

// mirrorPassage is a passage whose endpoint tells what it gets.
func mirrorPassage(t testing.TB, annotations map[string]string) (p *passage, endpoint chan gotten) {
	endpoint = make(chan gotten, 5000)
	p = &passage{
		annotations: annotations, features: []func(*Annotations, *Draft){patient, requestBuffering, mirror},
		endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g := got(r)
			endpoint <- g
			fmt.Fprintf(w, "%s %s", g.method, g.body)
		})},
	}
	return p.open(t), endpoint
}

func TestACopyIsWhatTheEndpointGets(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 40<<10/16)
	for _, c := range []struct {
		claim       string
		annotations map[string]string
		method, url string
		body        io.Reader
		fields      []string
		want        string // target
		text        string // body of the copy
	}{
		{"a GET", nil, "GET", "http://h.test/a/b?c=d&e=%20f", nil, []string{"X-Mine: 1", "Cookie: a=b", "Authorization: Basic eDp5", "Keep-Alive: timeout=5", "Proxy-Authorization: Basic eDp5"}, "/shadow/a/b?c=d&e=%20f", ""},
		{"over HTTP/2", nil, "GET", "https://h.test/a", nil, nil, "/shadow/a", ""},
		{"a form", nil, "POST", "http://h.test/form", strings.NewReader("a=b"), []string{"Content-Type: application/x-www-form-urlencoded"}, "/shadow/form", "a=b"},
		{"a body in a file", nil, "PUT", "http://h.test/file", strings.NewReader(long), nil, "/shadow/file", long},
		{"a body of unknown length", nil, "POST", "http://h.test/", io.MultiReader(strings.NewReader(long)), nil, "/shadow/", long},
		{"a small body that is streamed", map[string]string{"proxy-request-buffering": "off"}, "POST", "http://h.test/", strings.NewReader("small"), nil, "/shadow/", "small"},
		{"a long body that is streamed", map[string]string{"proxy-request-buffering": "off"}, "POST", "http://h.test/", strings.NewReader(long), nil, "/shadow/", long},
		{"one of unknown length", map[string]string{"proxy-request-buffering": "off"}, "POST", "http://h.test/", io.MultiReader(strings.NewReader(long)), nil, "/shadow/", long},
		{"one over HTTP/2", map[string]string{"proxy-request-buffering": "off"}, "POST", "https://h.test/", io.MultiReader(strings.NewReader(long)), nil, "/shadow/", long},
		{"without its body", map[string]string{"mirror-request-body": "off"}, "POST", "http://h.test/form", strings.NewReader("a=b"), nil, "/shadow/form", ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s := newShadow(t, nil)
			annotations := map[string]string{"mirror-target": s.URL + "/shadow$request_uri"}
			maps.Copy(annotations, c.annotations)
			p, endpoint := mirrorPassage(t, annotations)
			before := counts()
			r := request(t, c.method, c.url, c.body, c.fields...)
			answer, body := p.do(t, r)
			sent, copied := <-endpoint, s.next(t)
			if answer.StatusCode != 200 || body != c.method+" "+sent.body {
				t.Errorf("answered %d with %d bytes", answer.StatusCode, len(body))
			}
			if copied.method != c.method || copied.target != c.want || copied.host != s.Listener.Addr().String() {
				t.Errorf("copied as %s %s at %s, want %s %s at %s", copied.method, copied.target, copied.host, c.method, c.want, s.Listener.Addr())
			}
			if copied.body != c.text {
				t.Errorf("the copy has %d bytes, want %d", len(copied.body), len(c.text))
			}
			if mark := copied.header[mirroredField]; !slices.Equal(mark, []string{"shop/web"}) || sent.header[mirroredField] != nil {
				t.Errorf("the copy is marked %q and the request %q, want shop/web and not at all", mark, sent.header[mirroredField])
			}
			for _, h := range []http.Header{copied.header, sent.header} {
				delete(h, mirroredField)
				delete(h, "Content-Length")
			}
			if sent.header.Get("X-Forwarded-For") == "" || !maps.EqualFunc(copied.header, sent.header, slices.Equal) {
				t.Errorf("the copy has the fields\n%v, the endpoint got\n%v", copied.header, sent.header)
			}
			wantOutcomes(t, before, map[string]uint64{"sent": 1})
		})
	}
}

// TestABodyEndsWithItsLengthInItsCopy has a reader that asks for no more than there is, and so is never told of the end.
func TestABodyEndsWithItsLengthInItsCopy(t *testing.T) {
	s := newShadow(t, nil)
	a, d := reads(prefixed(map[string]string{"mirror-target": s.URL})), new(Draft)
	a.run(d, []func(*Annotations, *Draft){mirror})
	h := d.Handler(Place{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.ReadFull(r.Body, make([]byte, 3)) }))
	h.ServeHTTP(httptest.NewRecorder(), proxy.With(httptest.NewRequest("POST", "/", strings.NewReader("a=b")), &proxy.Exchange{Host: "h.test", Target: "/"}))
	if g := s.next(t); g.body != "a=b" {
		t.Errorf("copied with %q", g.body)
	}
}

func TestTheHostOfACopyMayBeAnother(t *testing.T) {
	s := newShadow(t, nil)
	p, _ := mirrorPassage(t, map[string]string{"mirror-target": s.URL + "/", "mirror-host": "$namespace.shadow.test:81"})
	p.get(t, "/a")
	if g := s.next(t); g.host != "shop.shadow.test:81" || g.target != "/" {
		t.Errorf("copied to %s at %s, want / at shop.shadow.test:81", g.target, g.host)
	}
}

func TestASlowMirrorCostsCopiesAndNothingElse(t *testing.T) {
	unblock := make(chan struct{})
	release := sync.OnceFunc(func() { close(unblock) })
	s := newShadow(t, func(http.ResponseWriter, *http.Request) { <-unblock })
	t.Cleanup(release) // before the server is closed
	p, _ := mirrorPassage(t, map[string]string{"mirror-target": s.URL + "$request_uri"})
	before := counts()
	const more = 50
	for range maxMirrorsOut + maxMirrorWait + more {
		if answer, body := p.get(t, "/"); answer.StatusCode != 200 || body != "GET " {
			t.Fatalf("answered %d %q while the mirror is stuck", answer.StatusCode, body)
		}
		p.became(t)
	}
	wantOutcomes(t, before, map[string]uint64{"dropped": more})
	release()
	wantOutcomes(t, before, map[string]uint64{"dropped": more, "sent": maxMirrorsOut + maxMirrorWait})
	wantNothingKept(t)
}

// wantNothingKept waits until no copy takes any memory, and fails if that does not come to pass.
func wantNothingKept(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); mirrored.bytes.Load() != 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("copies still take %d bytes", mirrored.bytes.Load())
		}
	}
}

func TestTheBodiesOfCopiesAreBounded(t *testing.T) {
	unblock := make(chan struct{})
	release := sync.OnceFunc(func() { close(unblock) })
	s := newShadow(t, func(http.ResponseWriter, *http.Request) { <-unblock })
	t.Cleanup(release)
	for _, buffering := range []string{"on", "off"} {
		a, d := reads(prefixed(map[string]string{"mirror-target": s.URL, "proxy-request-buffering": buffering})), new(Draft)
		a.run(d, []func(*Annotations, *Draft){patient, requestBuffering, mirror})
		h := d.Handler(Place{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		post := func(length int, known bool) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", length)))
			if !known {
				r.ContentLength = -1
			}
			h.ServeHTTP(httptest.NewRecorder(), proxy.With(r, &proxy.Exchange{Host: "h.test", Target: "/"}))
		}
		before := counts()
		post(maxMirrorBody+1, true)
		post(maxMirrorBody+1, false)
		wantOutcomes(t, before, map[string]uint64{"too_large": 2})
		const fit = maxMirrorBytes/maxMirrorBody - 1 // beside what copies take otherwise
		for range fit + 5 {
			post(maxMirrorBody, true)
		}
		wantOutcomes(t, before, map[string]uint64{"too_large": 2, "dropped": 5})
	}
	release()
	wantNothingKept(t)
}

func TestWhatIsNotCopied(t *testing.T) {
	s := newShadow(t, nil)
	p, endpoint := mirrorPassage(t, map[string]string{"mirror-target": s.URL, "proxy-request-buffering": "off"})
	before := counts()
	p.get(t, "/", mirroredField+": other/web")
	<-endpoint

	// A handshake: the endpoint does not switch, which is no matter here.
	c, answers := p.dial(t)
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n")
	if _, err := http.ReadResponse(answers, nil); err != nil {
		t.Fatal(err)
	}
	<-endpoint

	// A client that leaves in the midst of its body.
	c, _ = p.dial(t)
	io.WriteString(c, "POST /half HTTP/1.1\r\nHost: h.test\r\nContent-Length: 100000\r\n\r\nhalf")
	c.Close()
	for range 3 {
		p.became(t)
	}
	wantOutcomes(t, before, map[string]uint64{"unfinished": 1})

	p.get(t, "/last")
	if g := s.next(t); g.method != "GET" || len(s.got) > 0 {
		t.Errorf("%s was copied, with %d more, want the last request alone", g.method, len(s.got))
	}
}

func TestNothingIsMirroredToRefusedAddresses(t *testing.T) {
	refuse := func(a netip.Addr) string {
		if a.Unmap().IsLoopback() {
			return "this machine"
		}
		return ""
	}
	for _, target := range []string{"http://127.0.0.1/", "http://127.0.0.1:8080$request_uri", "https://[::1]:1/", "http://[::ffff:127.0.0.1]/"} {
		a := newAnnotations(Input{Annotations: prefixed(map[string]string{"mirror-target": target}), Settings: Settings{RefuseAddress: refuse}})
		a.run(new(Draft), []func(*Annotations, *Draft){mirror})
		if len(a.problems) != 1 || !strings.Contains(a.problems[0].Message, "is this machine, to which nothing is mirrored") {
			t.Errorf("%s: %v, want it told that nothing goes there", target, a.problems)
		}
	}

	// A name tells only when it is resolved.
	s := newShadow(t, nil)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	d := &Draft{Settings: Settings{RefuseAddress: refuse}}
	a := reads(prefixed(map[string]string{"mirror-target": "http://localhost:" + port + "/"}))
	a.run(d, []func(*Annotations, *Draft){mirror})
	before := counts()
	ask(t, d.Handler(Place{}, say("served")), &proxy.Exchange{Host: "h.test", Target: "/"})
	wantOutcomes(t, before, map[string]uint64{"failed": 1})
	if len(s.got) > 0 {
		t.Error("a copy went to this machine")
	}
}

func TestNoClientChoosesWhereCopiesGo(t *testing.T) {
	s := newShadow(t, nil)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	p, _ := mirrorPassage(t, map[string]string{"mirror-target": "http://$host:" + port + "/"})
	before := counts()
	r := request(t, "GET", "http://h.test/", nil)
	r.Host = "127.0.0.1"
	p.do(t, r)
	// The copies of tests before this one may still be on their way.
	for deadline := time.Now().Add(10 * time.Second); counts()["failed"] == before["failed"]; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the copy has not failed after 10 s")
		}
	}
	if len(s.got) > 0 {
		t.Error("a copy went where the client said")
	}
	for _, target := range []string{"shadow", "//shadow.test/", "ftp://shadow.test/", "http://$http_x_where/", "http://shadow.test$arg_more", "http://shadow.test:x/", "http://user@shadow.test/", "http://shadow.test/$nothing", ""} {
		a := reads(prefixed(map[string]string{"mirror-target": target}))
		a.run(new(Draft), []func(*Annotations, *Draft){mirror})
		if len(a.problems) != 1 {
			t.Errorf("%q: problems %v, want one", target, a.problems)
		}
	}
}

func TestTheAnswerOfAMirrorMeansNothing(t *testing.T) {
	for claim, answer := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) },
		"an error":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"a body without end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		},
	} {
		s := newShadow(t, answer)
		p, _ := mirrorPassage(t, map[string]string{"mirror-target": s.URL})
		before := counts()
		if answer, body := p.get(t, "/"); answer.StatusCode != 200 || body != "GET " {
			t.Errorf("%s: answered %d %q", claim, answer.StatusCode, body)
		}
		wantOutcomes(t, before, map[string]uint64{"sent": 1})
		s.next(t)
		if len(s.got) > 0 {
			t.Errorf("%s: asked again", claim)
		}
	}
}

func TestAMirrorThatIsAwayCostsItsCopies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p, _ := mirrorPassage(t, map[string]string{"mirror-target": "http://" + l.Addr().String()})
	before := counts()
	for range 10 {
		p.get(t, "/")
	}
	wantOutcomes(t, before, map[string]uint64{"failed": 10})
}

func TestWhatWaitsForAMirrorOutlivesTheDraft(t *testing.T) {
	of := func(memory *Memory, target string) (*Draft, *mirrors) {
		d := &Draft{memory: memory.next()}
		a := reads(prefixed(map[string]string{"mirror-target": target}))
		a.run(d, []func(*Annotations, *Draft){mirror})
		return d, Recall(d, "mirror-target", func() *mirrors { t.Fatal("nothing is remembered"); return nil })
	}
	first, before := of(nil, "http://a.test/")
	if _, after := of(first.Memory(), "http://b.test/"); after != before {
		t.Error("another draft has other mirrors")
	}
}

// TestARequestBehindACopyIsNotHeldUp sends requests over one connection while the mirror is stuck with those before.
func TestARequestBehindACopyIsNotHeldUp(t *testing.T) {
	unblock := make(chan struct{})
	release := sync.OnceFunc(func() { close(unblock) })
	s := newShadow(t, func(http.ResponseWriter, *http.Request) { <-unblock })
	t.Cleanup(release)
	p, _ := mirrorPassage(t, map[string]string{"mirror-target": s.URL})
	c, answers := p.dial(t)
	for range 3 {
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: h.test\r\nContent-Length: 3\r\n\r\na=b")
		if body := readAnswer(t, answers); body != "POST a=b" {
			t.Fatalf("answered %q", body)
		}
		s.next(t) // the mirror has it, and keeps it
	}
}

func readAnswer(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestMirrorAnnotationsWithoutATargetAreTold(t *testing.T) {
	for _, annotation := range []string{"mirror-host", "mirror-request-body"} {
		a := reads(prefixed(map[string]string{annotation: "on"}))
		a.run(new(Draft), []func(*Annotations, *Draft){mirror})
		if len(a.problems) != 1 || !strings.Contains(a.problems[0].Message, "expected mirror-target beside it") {
			t.Errorf("%s alone: %v", annotation, a.problems)
		}
	}
}
