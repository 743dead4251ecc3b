package feature

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// Mirroring (reference B13): a copy of each request goes to another server, whose answer nobody reads.
//
//	client   POST /a?b=1     to  the endpoint, as always
//	we       POST /a?b=1     to  the mirror-target http://shadow.test$request_uri, some time later
//
// The request is never held up and never changed by it. A copy waits in a queue that is bounded in number and in bytes, and is
// dropped, and counted, where there is no room: a mirror that is slow, or away, costs copies and no more than that. A body is
// copied as the endpoint's connection reads it, so the copy of an upload begins when the upload has ended.

const (
	maxMirrorBody  = 1 << 20          // bytes of a body that is copied; a request with more has no copy
	maxMirrorWait  = 1024             // copies that wait at one mirror
	maxMirrorBytes = 16 << 20         // of them, bodies that are being read among them
	maxMirrorsAll  = 64 << 20         // bytes at all mirrors of the process
	maxMirrorsOut  = 64               // copies under way to one mirror
	mirrorPatience = 10 * time.Second // for one copy, from the connection to the end of the answer
	mirrorDial     = 3 * time.Second  // to connect
	maxMirrorReply = 64 << 10         // bytes of an answer that are read to use the connection again
	copyCost       = 2 << 10          // bytes that a copy takes beside its fields and body, about
)

// mirroredField marks a copy. A copy is never copied again: two routes that mirror each other would else send one request
// round and round.
const mirroredField = "X-Sallyport-Mirrored"

// mirror sends copies of requests to another server.
func mirror(a *Annotations, d *Draft) {
	a.Section("Mirroring", ReachPaths, "A copy of each request that goes to an endpoint is sent to mirror-target, with the method and fields that the endpoint gets, X-Forwarded-For and its like among them, "+
		"and with "+mirroredField+", which says whose copy it is; the answer is dropped, redirects are not followed, and the certificate of the server is not verified. "+
		"Unlike in ingress-nginx the copy never holds up the request or the one behind it: it is sent at any later time, once the body has been read. Where the server is too slow for what comes, "+
		"with 1,024 copies waiting or 16 MiB of them, or answers later than after ten seconds, copies are dropped. A request whose body is longer than 1 MiB has no copy, nor has one whose body is not read to its end, "+
		"a WebSocket, or a copy. What became of copies is counted in the metric sallyport_mirrored_requests_total. "+
		"The server's name is resolved as any other name in the proxy's pod; addresses of this machine, link-local ones and those of metadata services are refused as for a Service of type ExternalName. "+
		"A variable that a client fills may stand for the host only as in auth-url.")
	target := a.mirrorTarget()
	host := a.template("mirror-host", "a host, with variables", "the Host of the copies; that of mirror-target where it is absent")
	body := a.OnOff("mirror-request-body", true, "whether copies have the body of the request; without it a request of any length has a copy")
	if target == nil {
		for _, name := range []string{"mirror-host", "mirror-request-body"} {
			if !a.Has("mirror-target") {
				a.Refuse(name, "expected mirror-target beside it; it has no effect")
			}
		}
		return
	}
	if host != nil {
		if text, ok := host.Literal(); ok && !isAuthority(text) {
			a.Refuse("mirror-host", "expected a host, perhaps with a port; that of mirror-target is used")
			host = nil
		}
	}
	m := Recall(d, "mirror-target", func() *mirrors { return newMirrors(d.Settings.RefuseAddress) })
	// Whom to ask is no more for clients to say than with auth-url.
	by := &authGuard{draft: d, chosen: chosenBy(target)}
	name := a.in.Namespace + "/" + a.in.Name
	d.Use(func(next http.Handler) http.Handler {
		return &mirroring{next: next, to: m, target: target, host: host, body: body, checkHost: by.checkHost, source: name}
	})
}

// mirrorTarget reads where copies go. Nil: it is absent, or bad.
func (a *Annotations) mirrorTarget() *value.URL {
	d := Declaration{Name: "mirror-target", Values: "an address; variables are allowed", Usage: "where copies of requests go, as in http://shadow.example.org$request_uri; without $request_uri all go to the same path"}
	return read(a, d, nil, func(text string) (*value.URL, string) {
		u, err := value.ParseURL(strings.TrimSpace(text))
		if err != nil {
			return nil, "expected an address as in http://example.org$request_uri: " + err.Error()
		}
		authority, _ := u.Authority()
		host, _, err := net.SplitHostPort(authority)
		if err != nil {
			host = authority
		}
		if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && a.in.Settings.RefuseAddress != nil {
			if why := a.in.Settings.RefuseAddress(addr); why != "" {
				return nil, fmt.Sprintf("%s is %s, to which nothing is mirrored", addr, why)
			}
		}
		return u, ""
	})
}

// mirroring copies the requests of one route.
type mirroring struct {
	next      http.Handler
	to        *mirrors
	target    *value.URL
	host      *value.Template // nil: that of target
	body      bool
	checkHost func(*http.Request, *proxy.Exchange) error
	source    string // the Ingress, as namespace/name
}

func (m *mirroring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if switches(r) || len(r.Header[mirroredField]) > 0 {
		m.next.ServeHTTP(w, r)
		return
	}
	c, err := m.copy(r)
	switch {
	case err != nil:
		m.to.report("a request could not be copied", m.target, err)
		mirrored.failed.Add(1)
	case c == nil: // there is no room for it
	case !m.body || r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody:
		m.to.send(c)
	default:
		m.serveBody(w, r, c)
		return
	}
	m.next.ServeHTTP(w, r)
}

// switches reports whether a request is to become something else than a request: a WebSocket, a tunnel.
func switches(r *http.Request) bool {
	return r.Method == http.MethodConnect || len(r.Header["Upgrade"]) > 0
}

// copy is the copy of a request, without a body. Nil: there is no room for it.
func (m *mirroring) copy(r *http.Request) (*mirrorCopy, error) {
	e := proxy.From(r)
	if err := m.checkHost(r, e); err != nil {
		return nil, err
	}
	address, err := m.target.Expand(r, nil)
	if err != nil {
		return nil, err
	}
	host := ""
	if m.host != nil {
		if host, err = m.host.ExpandField(r, nil); err != nil {
			return nil, err
		}
		if !isAuthority(host) {
			return nil, fmt.Errorf("mirror-host came out as %q, which is no host", host)
		}
	}
	size := int64(copyCost + len(address))
	for name, values := range r.Header {
		for _, text := range values {
			size += int64(len(name) + len(text))
		}
	}
	c := &mirrorCopy{to: m.to, target: m.target}
	if !c.grow(size) {
		m.to.drop(c, &mirrored.dropped)
		return nil, nil
	}
	if c.request, err = http.NewRequest(r.Method, address, nil); err != nil {
		m.to.forget(c)
		return nil, err
	}
	if host != "" {
		c.request.Host = host
	}
	header := make(http.Header, len(r.Header)+1)
	for name, values := range r.Header {
		if name != "Host" && name != "Proxy-Authorization" && name != "Proxy-Authenticate" && !framing(name) {
			header[name] = slices.Clone(values)
		}
	}
	if len(header["User-Agent"]) == 0 {
		header["User-Agent"] = nil // else net/http would name itself
	}
	header[mirroredField] = []string{m.source}
	c.request.Header = header
	return c, nil
}

// serveBody copies the body of a request while it is read, or at once where it is here already.
func (m *mirroring) serveBody(w http.ResponseWriter, r *http.Request, c *mirrorCopy) {
	if held, ok := r.Body.(*heldBody); ok {
		if c.holds(held) {
			m.to.send(c)
		}
		m.next.ServeHTTP(w, r)
		return
	}
	if r.ContentLength > maxMirrorBody {
		m.to.drop(c, &mirrored.tooLarge)
		m.next.ServeHTTP(w, r)
		return
	}
	body := &copiedBody{ReadCloser: r.Body, length: r.ContentLength, copy: c}
	r.Body = body
	// Whoever reads the body may still do so for a moment, on another goroutine, when the handler has returned or panicked.
	defer body.end()
	m.next.ServeHTTP(w, r)
}

// A copiedBody copies what is read of a body.
type copiedBody struct {
	io.ReadCloser
	length int64 // negative: not known

	mu   sync.Mutex
	copy *mirrorCopy // guarded by mu; nil: it has been sent or dropped
}

func (b *copiedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c := b.copy; {
	case c == nil:
	case len(c.body)+n > maxMirrorBody:
		b.copy = nil
		c.to.drop(c, &mirrored.tooLarge)
	case !c.grow(int64(n)):
		b.copy = nil
		c.to.drop(c, &mirrored.dropped)
	default:
		c.body = append(c.body, p[:n]...)
		if err == io.EOF || int64(len(c.body)) == b.length { // not everybody asks for more than there is
			b.copy = nil
			c.to.send(c)
		}
	}
	return n, err
}

// end gives up a copy whose body was not read to its end.
func (b *copiedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.copy; c != nil {
		b.copy = nil
		c.to.drop(c, &mirrored.unfinished)
	}
}

// A mirrorCopy is a request on its way to a mirror.
type mirrorCopy struct {
	to      *mirrors
	target  *value.URL // for the log
	request *http.Request
	body    []byte
	size    int64 // that it is counted with
}

// holds takes a body that was read already, and says whether it could.
func (c *mirrorCopy) holds(held *heldBody) bool {
	switch n := held.length(); {
	case n > maxMirrorBody:
		c.to.drop(c, &mirrored.tooLarge)
	case !c.grow(n):
		c.to.drop(c, &mirrored.dropped)
	default:
		c.body = make([]byte, n)
		_, err := io.ReadFull(held, c.body)
		held.Rewind()
		if err == nil {
			return true
		}
		c.to.report("a request could not be copied", c.target, err)
		c.to.drop(c, &mirrored.failed)
	}
	return false
}

// grow counts further bytes of the copy, if there is room for them.
func (c *mirrorCopy) grow(n int64) bool {
	c.size += n
	here, all := c.to.bytes.Add(n), mirrored.bytes.Add(n)
	return here <= maxMirrorBytes && all <= maxMirrorsAll
}

// mirrored is what there is to know of all mirrors of the process.
var mirrored struct {
	sent, failed, dropped, tooLarge, unfinished atomic.Uint64
	bytes                                       atomic.Int64 // that copies take now
}

// Mirrored yields how many copies of requests came to what since the process began.
func Mirrored(yield func(outcome string, n uint64)) {
	yield("sent", mirrored.sent.Load())
	yield("failed", mirrored.failed.Load())
	yield("dropped", mirrored.dropped.Load())
	yield("too_large", mirrored.tooLarge.Load())
	yield("unfinished", mirrored.unfinished.Load())
}

// mirrors is where the copies of one Ingress wait and are sent from. Its goroutines end when nothing is left to send, so
// that nobody need stop it who forgets it.
type mirrors struct {
	transport http.RoundTripper
	patience  time.Duration
	bytes     atomic.Int64 // that copies take
	reported  atomic.Int64 // when the log was told last that a copy was lost, in Unix nanoseconds; 0: never
	lost      atomic.Uint64

	mu      sync.Mutex
	waiting []*mirrorCopy // guarded by mu; oldest first
	senders int           // guarded by mu; goroutines
}

// newMirrors sends copies directly, whatever proxy the environment names, by HTTP/1.1. Refuse says why there is no
// connection to an address; nil: there is to every one.
func newMirrors(refuse func(netip.Addr) string) *mirrors {
	dialer := &net.Dialer{Timeout: mirrorDial}
	if refuse != nil {
		// The address is looked at when it is connected to: a name may lead elsewhere a moment later.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if why := refuse(to.Addr().WithZone("")); why != "" {
				return fmt.Errorf("%s is %s, to which nothing is mirrored", to.Addr(), why)
			}
			return nil
		}
	}
	return &mirrors{patience: mirrorPatience, transport: &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		TLSHandshakeTimeout:    mirrorDial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxMirrorsOut,
		MaxConnsPerHost:        maxMirrorsOut,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxMirrorReply,
	}}
}

// send queues a copy.
func (m *mirrors) send(c *mirrorCopy) {
	m.mu.Lock()
	if len(m.waiting) >= maxMirrorWait {
		m.mu.Unlock()
		m.drop(c, &mirrored.dropped)
		return
	}
	m.waiting = append(m.waiting, c)
	more := m.senders < maxMirrorsOut
	if more {
		m.senders++
	}
	m.mu.Unlock()
	if more {
		go m.sendWaiting()
	}
}

// sendWaiting sends copies until none waits.
func (m *mirrors) sendWaiting() {
	for {
		m.mu.Lock()
		if len(m.waiting) == 0 {
			m.waiting = nil // with the room it took
			m.senders--
			m.mu.Unlock()
			return
		}
		c := m.waiting[0]
		m.waiting[0], m.waiting = nil, m.waiting[1:]
		m.mu.Unlock()
		if err := m.sendOne(c); err != nil {
			m.report("a copy of a request could not be sent", c.target, err)
			mirrored.failed.Add(1)
		} else {
			mirrored.sent.Add(1)
		}
		m.forget(c)
	}
}

func (m *mirrors) sendOne(c *mirrorCopy) (err error) {
	defer func() {
		if fault := recover(); fault != nil { // a copy must not cost the process
			err = fmt.Errorf("fault of ours: %v", fault)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), m.patience)
	defer cancel()
	r := c.request.WithContext(ctx)
	if len(c.body) > 0 {
		r.ContentLength = int64(len(c.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
		r.Body, _ = r.GetBody()
	}
	answer, err := m.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	io.CopyN(io.Discard, answer.Body, maxMirrorReply) // for the sake of the connection: an error costs that alone
	return answer.Body.Close()
}

var errDropped = errors.New("there is no room for it")

// drop forgets a copy that is not sent, and counts it.
func (m *mirrors) drop(c *mirrorCopy, as *atomic.Uint64) {
	as.Add(1)
	if as == &mirrored.dropped {
		m.report("a copy of a request was dropped: the mirror is slower than requests come", c.target, errDropped)
	}
	m.forget(c)
}

// forget gives back what a copy took.
func (m *mirrors) forget(c *mirrorCopy) {
	m.bytes.Add(-c.size)
	mirrored.bytes.Add(-c.size)
	c.size = 0
}

// report tells the log of a lost copy, once a minute, with the number of those that were lost meanwhile.
func (m *mirrors) report(what string, target *value.URL, err error) {
	m.lost.Add(1)
	now, last := time.Now().UnixNano(), m.reported.Load()
	if last != 0 && now-last < int64(reportEvery) || !m.reported.CompareAndSwap(last, now) {
		return
	}
	slog.Warn(what, "mirror-target", target.String(), "error", err, "lost", m.lost.Swap(0))
}
