package feature

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// An authCache remembers answers of a service. It holds no more bytes than it was made for; what was not asked for longest
// goes first.
type authCache struct {
	mu    sync.Mutex // guards what follows
	lru   *simplelru.LRU[cacheKey, remembered]
	bytes int
	most  int
}

// A cacheKey stands for a question; it is a hash, so that no credentials are kept.
type cacheKey [sha256.Size]byte

type remembered struct {
	reply   *authReply
	until   time.Time
	bytes   int
	variant cacheKey // of the fields that reply.vary names, as they were
}

const (
	maxCached      = 4 << 20  // bytes, of one Ingress
	maxCachedReply = 32 << 10 // bytes
	cachedOverhead = 256      // bytes that an answer takes beside its text, about
)

func newAuthCache(most int) *authCache {
	c := &authCache{most: most}
	c.lru, _ = simplelru.NewLRU(most/cachedOverhead, func(_ cacheKey, old remembered) { c.bytes -= old.bytes }) // fails for no size only
	return c
}

// get returns nil where nothing is remembered for a request with that header.
func (c *authCache) get(key cacheKey, header http.Header, now time.Time) *authReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.lru.Get(key)
	if !ok {
		return nil
	}
	if !now.Before(known.until) {
		c.lru.Remove(key)
		return nil
	}
	if known.variant != variantOf(header, known.reply.vary) {
		return nil
	}
	return known.reply
}

// variantOf stands for the values of the fields that an answer's Vary names (RFC 9111 section 4.1).
func variantOf(header http.Header, vary []string) (variant cacheKey) {
	if len(vary) == 0 {
		return variant
	}
	h := sha256.New()
	for _, name := range vary {
		mix(h, header[name]...)
	}
	h.Sum(variant[:0])
	return variant
}

// varies are the fields that an answer's Vary names. With "*" it is remembered for nobody: see lifetime.
func varies(header http.Header) (names []string) {
	for _, line := range header["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, canonical(name))
			}
		}
	}
	return names
}

// put remembers an answer, unless its time is over before it begins. One with cookies is for one client alone.
func (c *authCache) put(key cacheKey, header http.Header, reply *authReply, now, until time.Time) {
	bytes := reply.bytes()
	if !now.Before(until) || len(reply.cookies) > 0 || bytes > maxCachedReply {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key) // an Add in its place would not count it out
	c.lru.Add(key, remembered{reply, until, bytes, variantOf(header, reply.vary)})
	for c.bytes += bytes; c.bytes > c.most; {
		c.lru.RemoveOldest()
	}
}

func (p *authReply) bytes() int {
	n := cachedOverhead
	for _, values := range append([][]string{p.challenge, p.vary}, p.passed...) {
		for _, text := range values {
			n += len(text) + 16
		}
	}
	return n
}

// credentials says which of a request's are mixed into the key because the key does not name them: without them one
// client would get another's answer.
type credentials struct{ authorization, cookie bool }

// credentialsBeside reads what a key names. One cookie is not the Cookie field: whoever has none of that name, or has it
// under another as a long session has, would share an answer with others.
func credentialsBeside(key *value.Template) credentials {
	return credentials{authorization: !key.NamesField("Authorization"), cookie: !key.NamesField("Cookie")}
}

// key is what requests have in common that get the same answer. Each piece is preceded by its length, so that no client
// can move text from one into the next.
func (g *authGuard) key(r *http.Request, e *proxy.Exchange, address string) (key cacheKey, err error) {
	own, err := g.cacheKey.Expand(r)
	if err != nil {
		return key, err
	}
	h := sha256.New()
	if e.Route != nil {
		mix(h, e.Route.Host)
		mix(h, e.Route.Path)
	}
	mix(h, e.Host)
	mix(h, address)
	mix(h, own)
	if g.mixes.authorization {
		mix(h, r.Header["Authorization"]...)
	}
	if g.mixes.cookie {
		mix(h, r.Header["Cookie"]...)
	}
	if e.ClientVerify != "" { // the service is told of the client's certificate, and no key need name it
		mix(h, e.ClientVerify)
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			mix(h, string(r.TLS.PeerCertificates[0].Raw))
		}
	}
	h.Sum(key[:0])
	return key, nil
}

func mix(h hash.Hash, pieces ...string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(pieces)))
	h.Write(length[:])
	for _, piece := range pieces {
		binary.BigEndian.PutUint64(length[:], uint64(len(piece)))
		h.Write(length[:])
		h.Write([]byte(piece))
	}
}

// lifetime is how long an answer may be remembered: as long as was asked for, or shorter where the service says so.
func lifetime(header http.Header, asked time.Duration, now time.Time) time.Duration {
	control := strings.ToLower(strings.Join(header["Cache-Control"], ","))
	aged := false
	for word := range strings.SplitSeq(control, ",") {
		name, argument, _ := strings.Cut(strings.TrimSpace(word), "=")
		switch name {
		case "no-store", "no-cache", "private":
			return 0
		case "max-age", "s-maxage":
			seconds, err := strconv.ParseUint(strings.Trim(argument, `"`), 10, 31)
			if err != nil {
				return 0
			}
			asked, aged = min(asked, time.Duration(seconds)*time.Second), true
		}
	}
	if slices.Contains(varies(header), "*") {
		return 0
	}
	if expires := header.Get("Expires"); expires != "" && !aged {
		at, err := http.ParseTime(expires)
		if err != nil {
			return 0
		}
		asked = min(asked, at.Sub(now))
	}
	return asked
}

// usualDurations is the default of auth-cache-duration.
const usualDurations = "200 202 401 5m"

// durations reads how long answers are remembered, by status.
func (a *Annotations) durations(name, usage string) map[int]time.Duration {
	d := Declaration{Name: name, Values: "a list of statuses and a time behind them, as in 200 202 5m, 401 30s", Default: usualDurations, Usage: usage}
	usual, _ := parseDurations(usualDurations)
	return read(a, d, usual, parseDurations)
}

func parseDurations(text string) (durations map[int]time.Duration, expected string) {
	list, expected := parseList(text, `statuses and times as in "200 202 5m"`)
	durations = map[int]time.Duration{}
	for _, item := range list {
		words := strings.Fields(item)
		length, ok := parseTime(words[len(words)-1])
		if !ok {
			return nil, shown(item) + ` does not end in a time such as "5m"; the units are ms, s, m, h, d, w, M and y`
		}
		statuses := words[:len(words)-1]
		if len(statuses) == 0 {
			statuses = []string{"200", "301", "302"}
		}
		for _, word := range statuses {
			status, ok := parseStatus(word)
			if !ok {
				return nil, fmt.Sprintf("%s is no status", shown(word))
			}
			durations[status] = length
		}
	}
	return durations, expected
}

// maxDuration bounds each time: what is remembered longer is remembered wrongly.
const maxDuration = 366 * 24 * time.Hour

// parseTime reads a time as nginx has it, with one unit. Without one, "200 202" would be a status and 202 seconds.
func parseTime(text string) (length time.Duration, ok bool) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseUint(text[:digits], 10, 31)
	unit, known := timeUnits[text[digits:]]
	if err != nil || !known || time.Duration(n) > maxDuration/unit {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

var timeUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "M": 30 * 24 * time.Hour, "y": 365 * 24 * time.Hour,
}
