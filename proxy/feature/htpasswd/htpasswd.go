// Package htpasswd says whether a user's password is the one that a password file holds the hash of.
//
//	file, problems := htpasswd.Parse(text)
//	switch user, password, _ := r.BasicAuth(); file.Check(r.Context(), user, password) {
//	case htpasswd.Passed:
//	case htpasswd.Busy: // 503, and not 401: the password may be right
//	default: // 401
//	}
//
// A [File] is for Basic authentication, a [DigestFile] for Digest. Both are made from the text of a secret, whole, and
// never change: when the secret changes, make another, which knows nothing that the last one learned.
//
// # Lines
//
// A line is user:hash; what follows a second colon is a comment, as is a line that begins with #. Hashes are bcrypt
// ($2y$, $2a$, $2b$), MD5 crypt ($apr1$, $1$), SHA crypt ($5$, $6$), {SHA} and {SSHA}. Plain text and DES crypt are
// refused. A line that cannot be used is set aside with an error, which names the line and the user and never the hash;
// the others work. The first line of a user counts, also where it cannot be used: what stands below it may be a password
// of long ago.
//
// # What a guess costs
//
// Whoever guesses learns nothing but that a guess was wrong, and pays for each with a hash:
//
//   - A wrong password costs the same whether its user exists or not: every refusal computes one hash of each kind that
//     the file has, with its cost. Hashes are compared in constant time.
//   - A right one is remembered for ten minutes, so that a browser does not cost a hash with each request. What is kept is
//     not the password but its HMAC under a key that is random and this File's own, one for each user of the file. A wrong
//     one is not remembered: guesses do not repeat.
//   - Checks of one user and password at one time compute one hash together.
//   - Half the cores, at least one, compute hashes, for all Files together. The others have requests to serve. A check
//     that finds them taken waits for up to two seconds, with up to 31 others of the same File, and is then [Busy]. Who
//     guesses at many cores' worth keeps out those who log in meanwhile, first to that file and, where its hashes are
//     dear, to others; users that are remembered never wait.
//   - A hash that takes longer than a second or two to check is refused when the file is read, because anybody can ask
//     for it to be checked. For the same reason no password may be longer than 256 bytes; htpasswd takes 255.
//
// # What it does not do
//
// It reads no files and no requests, writes no answers and counts no guesses. A rate limit bounds those.
package htpasswd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Verdict is what a check found. The zero Verdict lets nobody in.
type Verdict int

const (
	// Refused means that user and password are no pair of the file, or were not given as they must be.
	Refused Verdict = iota
	// Passed means that they are.
	Passed
	// Busy means that nobody had the time to find out, or that the request was given up.
	Busy
	// Stale means that a digest proves the password but was made for a challenge that does not count any more, as that of
	// an attacker would be who has heard it. The client makes another without asking its user. Only a [DigestFile] says so.
	Stale
)

const (
	maxUser     = 256 // bytes
	maxPassword = 256 // bytes: SHA crypt hashes them once a round
	remembered  = 10 * time.Minute
)

// A File has the hashes of users. Any number of goroutines may use it.
type File struct {
	users    map[string]*entry
	stranger entry            // stands for every user who has none
	kinds    map[string]check // one hash of each kind, for refusals
	costly   bool             // some kind is worth remembering

	slots   slots
	waiting atomic.Int32 // checks that want a slot
	key     [sha256.BlockSize]byte

	mu       sync.Mutex // guards attempts
	attempts map[[sha256.Size]byte]*attempt
}

// entry is a user's.
type entry struct {
	hash   userHash
	passed atomic.Pointer[passed] // the last that did
}

type passed struct {
	mac   [sha256.Size]byte
	until time.Time
}

// attempt is a hash being computed.
type attempt struct {
	done    chan struct{} // closed when verdict and givenUp are there
	verdict Verdict
	givenUp bool // by the request that began it
}

func newFile() *File {
	f := &File{
		users:    map[string]*entry{},
		kinds:    map[string]check{},
		slots:    everyone,
		attempts: map[[sha256.Size]byte]*attempt{},
	}
	rand.Read(f.key[:])
	return f
}

// Len is how many users the file has. A file of none refuses everybody.
func (f *File) Len() int { return len(f.users) }

// Check says whether the password is the user's. It may take as long as a hash and the wait for its turn; a context that
// ends ends the wait.
func (f *File) Check(ctx context.Context, user, password string) Verdict {
	// A NUL byte ends a password where C computes the hash, and bcrypt repeats a short password with one between: "a" and
	// "a\x00a" have one hash.
	if len(user) > maxUser || len(password) > maxPassword || strings.IndexByte(password, 0) >= 0 {
		return Refused
	}
	e := f.users[user]
	if e == nil {
		e = &f.stranger
	}
	if !f.costly {
		return f.compute(e, password)
	}
	m := f.mac(user, e.hash.significant(password))
	if e.remembers(&m) {
		return Passed
	}
	return f.together(ctx, m, e, password)
}

// compute does the same work for all that it refuses.
func (f *File) compute(e *entry, password string) Verdict {
	if e.hash.matches != nil && e.hash.matches(password) {
		return Passed
	}
	for kind, matches := range f.kinds {
		if kind != e.hash.kind {
			matches(password)
		}
	}
	return Refused
}

func (e *entry) remembers(m *[sha256.Size]byte) bool {
	p := e.passed.Load()
	return p != nil && subtle.ConstantTimeCompare(p.mac[:], m[:]) == 1 && time.Now().Before(p.until)
}

// together computes the hash unless somebody does already, and then waits for that.
func (f *File) together(ctx context.Context, m [sha256.Size]byte, e *entry, password string) Verdict {
	for {
		f.mu.Lock()
		if e.remembers(&m) { // an attempt ended since Check looked
			f.mu.Unlock()
			return Passed
		}
		a, begun := f.attempts[m]
		if !begun {
			a = &attempt{done: make(chan struct{}), verdict: Busy}
			f.attempts[m] = a
		}
		f.mu.Unlock()
		if !begun {
			return f.try(ctx, a, m, e, password)
		}
		select {
		case <-a.done:
			if !a.givenUp {
				return a.verdict
			}
		case <-ctx.Done():
			return Busy
		}
	}
}

// try computes the hash when its turn has come.
func (f *File) try(ctx context.Context, a *attempt, m [sha256.Size]byte, e *entry, password string) Verdict {
	defer func() {
		f.mu.Lock()
		delete(f.attempts, m)
		f.mu.Unlock()
		close(a.done)
	}()
	if !f.slots.take(ctx, &f.waiting) {
		a.givenUp = ctx.Err() != nil
		return a.verdict
	}
	defer f.slots.give()
	a.verdict = f.compute(e, password)
	if a.verdict == Passed {
		e.passed.Store(&passed{m, time.Now().Add(remembered)})
	}
	return a.verdict
}

// mac is what stands for a user and password: the HMAC (RFC 2104) of both, with the length of the user before it to keep
// "ab", "c" from being "a", "bc". It is written out because both are short, and so take no memory that would keep them.
func (f *File) mac(user, password string) [sha256.Size]byte {
	var inner [sha256.BlockSize + 4 + maxUser + maxPassword]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i, k := range f.key {
		inner[i], outer[i] = k^0x36, k^0x5c
	}
	binary.BigEndian.PutUint32(inner[sha256.BlockSize:], uint32(len(user)))
	n := sha256.BlockSize + 4
	n += copy(inner[n:], user)
	n += copy(inner[n:], password)
	sum := sha256.Sum256(inner[:n])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}
