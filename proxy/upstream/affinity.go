package upstream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"sallyport/proxy"
)

// An Affinity keeps a client at the endpoint that answered it first, by a cookie (reference A17):
//
//	Set-Cookie: INGRESSCOOKIE=3fd81c09aa51e07b|5f0c...(32 digits); Path=/cart; HttpOnly
//	                          key              mark of the pool
//
// Which endpoint a new client gets is for the policy of the route to say. What the cookie says of it depends on the mode:
//
//	balanced    the key is a number that belongs to the endpoint on the ring of the pool (ring.go). When an endpoint is added
//	            or goes its own share of the clients moves; their cookies stay as they are.
//	persistent  the key is made of the endpoint's address. Nobody moves while it is there; who has lost it gets another and
//	            another cookie.
//
// A cookie is set when the client has none, or none that means anything here: another pool's mark, a key of another form, an
// endpoint that is gone. It goes with an answer of the endpoint, never with one of the proxy's own.
//
// A client can write any cookie, and so choose its endpoint; what it can reach is the same. The address of an endpoint cannot
// be read in a key, though who knows the Service may guess addresses and compare. All replicas understand each other's
// cookies, and those from before a restart.
//
// An endpoint that cannot be connected to, is full or is to be left alone is no reason for an error. The request goes to the
// endpoint next to it on the ring, where the others like it go too, and the client comes back with its next request;
// with ChangeOnFailure it goes to another for good, with another cookie. One that took the request and gave no
// answer, or one that the route retries, is asked again, because its client's session is there; with ChangeOnFailure
// another is.
type Affinity struct {
	Cookie          string // its name, a token
	Persistent      bool
	ChangeOnFailure bool
	// Attributes are what stands in Set-Cookie behind the value: "; Path=/; HttpOnly". Nil: nothing.
	Attributes func(*http.Request) string
}

// Holds reports whether the client has a cookie of the pool's, so that it was there before.
func (a *Affinity) Holds(r *http.Request, p *Pool) bool {
	if p.Len() == 0 {
		return false
	}
	return a.find(r, p.homes(), func(string) bool { return true }) != ""
}

const (
	numberDigits = 16 // hexadecimal, of a key in balanced mode
	nameDigits   = 32 // in persistent mode
	markDigits   = 32
)

// find returns the key of the client's cookie for a pool, "" when it has none that counts. There may be several of the
// name: for other Services of the host, for other paths.
func (a *Affinity) find(r *http.Request, of *homes, counts func(key string) bool) string {
	digits := numberDigits
	if a.Persistent {
		digits = nameDigits
	}
	for _, line := range r.Header["Cookie"] {
		for rest := line; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name != a.Cookie || len(value) != digits+1+markDigits || value[digits] != '|' || value[digits+1:] != of.mark {
				continue
			}
			if key := value[:digits]; isHex(key) && counts(key) {
				return key
			}
		}
	}
	return ""
}

func isHex(text string) bool {
	for i := range len(text) {
		if _, ok := digit(text[i]); !ok {
			return false
		}
	}
	return true
}

// digit is the value of a hexadecimal digit as we write it.
func digit(c byte) (value uint64, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10, true
	}
	return 0, false
}

// number is the one that a text of [numberDigits] is.
func number(key string) (at uint64) {
	for i := range len(key) {
		value, _ := digit(key[i])
		at = at<<4 | value
	}
	return at
}

// homes are what cookies say of the endpoints of a pool. They never change.
type homes struct {
	endpoints []*Endpoint
	mark      string
	ring      *ring
	named     map[string]*Endpoint
}

// cookies has the homes of a pool.
type cookies struct {
	mu  sync.Mutex // held while they are made, so that one does
	now atomic.Pointer[homes]
}

// homes returns those of the endpoints that there are now. They are made by the first who asks.
func (p *Pool) homes() *homes {
	members := p.members()
	if h := p.cookies.now.Load(); h.areOf(members) {
		return h
	}
	p.cookies.mu.Lock()
	defer p.cookies.mu.Unlock()
	h := p.cookies.now.Load()
	if h.areOf(members) {
		return h
	}
	h = &homes{endpoints: members, mark: p.id.mark(), ring: newRing(members), named: make(map[string]*Endpoint, len(members))}
	for _, e := range members {
		h.named[e.name(p.id)] = e
	}
	p.cookies.now.Store(h)
	return h
}

// areOf reports whether they were made of these endpoints: the slice of a pool is another one after every change.
func (h *homes) areOf(members []*Endpoint) bool {
	if h == nil || len(h.endpoints) != len(members) {
		return false
	}
	return len(members) == 0 || &h.endpoints[0] == &members[0]
}

// mark stands in the cookies of a pool.
func (id ID) mark() string { return digest(id, "")[:markDigits] }

// name stands in cookies for an endpoint.
func (e *Endpoint) name(id ID) string { return digest(id, e.addr.String())[:nameDigits] }

// digest is a hash of texts that none of which holds a zero byte.
func digest(id ID, text string) string {
	sum := sha256.Sum256([]byte(id.Namespace + "\x00" + id.Service + "\x00" + id.Port + "\x00" + text))
	return hex.EncodeToString(sum[:])
}

// A bond is what is known, while a request is on its way, of where its client belongs.
type bond struct {
	read bool   // the cookie was looked for
	key  string // of the cookie; empty: none that counts
	new  bool   // the endpoint that answers is where the client belongs from now on
}

// choose is the endpoint for the next try: where the client belongs, else one that has not been tried, by the route's
// policy. Nil: there is none.
func (x *trip) choose() *Endpoint {
	p := x.t.pool
	pick := Pick{Exchange: x.e, Request: x.r, HashBy: x.t.options.HashBy, before: x.before}
	a := x.t.options.Affinity
	if a == nil {
		return p.pick(x.t.policy, pick)
	}
	of := p.homes()
	if !x.bond.read {
		x.bond.read = true
		x.bond.key = a.find(x.r, of, func(key string) bool { return a.home(of, key) != nil })
	}
	home := a.home(of, x.bond.key)
	x.bond.new = home == nil
	switch {
	case home == nil:
	case pick.Fits(home) && !home.full(), !a.ChangeOnFailure && x.reached(home) && home.available(false):
		return home
	case a.ChangeOnFailure && !home.full():
		x.bond.new = true
	default:
		if endpoint := of.ring.find(number(x.bond.key[:numberDigits]), &pick); endpoint != nil {
			return endpoint
		}
		if pick.anyhow = true; pick.Fits(home) && !home.full() {
			return home
		}
		pick.anyhow = false
	}
	return p.pick(x.t.policy, pick)
}

// home is the endpoint that a key stands for, nil when there is none.
func (a *Affinity) home(of *homes, key string) *Endpoint {
	switch {
	case key == "":
		return nil
	case a.Persistent:
		return of.named[key]
	}
	return of.ring.named(number(key))
}

// reached reports whether the last try of this trip at an endpoint came as far as a connection.
func (x *trip) reached(endpoint *Endpoint) bool {
	attempts := x.attempts()
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].Endpoint != endpoint.addr {
			continue
		}
		switch attempts[i].Reason {
		case proxy.ConnectRefused, proxy.ConnectFailed, proxy.UpstreamTLS, proxy.ConnectTimeout:
			return false
		}
		return true
	}
	return false
}

// setCookie is the Set-Cookie field that goes with the answer to an attempt; empty: none does.
func (x *trip) setCookie(attempt *proxy.Attempt) string {
	a := x.t.options.Affinity
	if a == nil || !x.bond.new {
		return ""
	}
	p := x.t.pool
	of := p.homes()
	key := (&Endpoint{addr: attempt.Endpoint}).name(p.id)
	if !a.Persistent {
		key = of.ring.key(attempt.Endpoint)
	}
	field := a.Cookie + "=" + key + "|" + of.mark
	if a.Attributes != nil {
		field += a.Attributes(x.r)
	}
	return field
}

// key is a number that belongs to an endpoint, any of those that do, as cookies have it. For one that is not on the ring it
// is a number of somebody else's.
func (r *ring) key(addr netip.AddrPort) string {
	var b [numberDigits / 2]byte
	binary.BigEndian.PutUint64(b[:], r.numberOf(addr))
	return hex.EncodeToString(b[:])
}

// numberOf draws a number from all that belong to an endpoint: each is as likely, so that the clients of one that is added
// later are its share. A point is drawn, and a number not far before it, until that is behind the point before. Of an
// endpoint that has more points than others, for its weight, as many as others have are enough.
func (r *ring) numberOf(addr netip.AddrPort) uint64 {
	if len(r.points) == 0 {
		return rand.Uint64()
	}
	hash := hashAddrPort(addr)
	far := 16 * (1 << (64 - indexBits) / uint64(len(r.points))) // so far apart are hardly any two points
	at, own := uint64(0), uint64(pointsEach)
	for range 256 { // which are some 16, mostly
		at = scramble(hash+rand.Uint64N(own)*golden) &^ indexMask
		if r.named(at).addr != addr {
			own = max(own/2, 1) // a small weight has fewer points; the first it always has
			continue
		}
		before := r.points[(r.at(at)+len(r.points)-1)%len(r.points)] &^ indexMask
		back := rand.Uint64N(far) << indexBits
		if back < at-before || at == before { // round the end as well; the same: there is one point
			return at - back | rand.Uint64()&indexMask
		}
	}
	return at | rand.Uint64()&indexMask
}
