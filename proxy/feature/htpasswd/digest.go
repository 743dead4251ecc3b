package htpasswd

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Digest authentication (RFC 7616) in one exchange:
//
//	server  WWW-Authenticate: Digest realm="r", qop="auth", nonce="N"
//	client  Authorization: Digest username="u", realm="r", uri="/a", nonce="N", nc=00000001, cnonce="C", qop=auth,
//	        response=H( HA1 : N : 00000001 : C : auth : H(GET:/a) )
//
// where HA1 = H(u:r:password) is what the file holds: it proves the password without being it, and is as good as the
// password for whoever reads the file. H is MD5 or SHA-256.
//
// A nonce is when it was made, which one it is, and an HMAC of both under a key that is random and the DigestFile's own.
// So handing them out costs no memory. They count for five minutes, and each number of uses (nc) of a nonce once: see
// uses. The key must be random: one derived from the file would be the same in all replicas, but anybody who was
// challenged could then try passwords against the HMAC at home. With several replicas, a client that comes to another is
// told that its nonce is stale, and asks once more by itself.

const (
	nonceLifetime = 5 * time.Minute
	nonceBytes    = 8 + 8 + 16 // when, which one, HMAC
)

// A DigestFile has what is needed to know users by Digest authentication. Any number of goroutines may use it.
type DigestFile struct {
	realms map[string]*realm

	made   time.Time
	key    [32]byte
	nonces atomic.Uint64 // handed out
	uses   uses
}

// realm is users who log in to one thing, all with the same kind of hash: a client picks the kind before it is known who
// it is.
type realm struct {
	algorithm *algorithm
	users     map[string][]byte // HA1
}

type algorithm struct {
	name string
	size int // bytes of a hash
	sum  func(string) []byte
}

var algorithms = []*algorithm{
	{"MD5", md5.Size, func(s string) []byte { sum := md5.Sum([]byte(s)); return sum[:] }},
	{"SHA-256", sha256.Size, func(s string) []byte { sum := sha256.Sum256([]byte(s)); return sum[:] }},
}

func (a *algorithm) hex(s string) string { return hex.EncodeToString(a.sum(s)) }

// ParseDigest reads the text of a file that htdigest made, whose lines are user:realm:HA1, or the same with SHA-256. The
// file is never nil; each error is of a line that it does without.
func ParseDigest(text []byte) (*DigestFile, []error) {
	f, p := newDigestFile(), new(problems)
	for where, line := range lines(text) {
		user, rest, found := strings.Cut(line, ":")
		if !found || !strings.Contains(rest, ":") {
			p.add("%s is not user:realm:hash", where)
			continue
		}
		f.add(fmt.Sprintf("%s, user %s", where, quote(user)), user, rest, p)
	}
	return f, p.all()
}

// DigestFromMap reads a map whose keys are users and whose values are realm:HA1. The file is never nil; each error is of a
// key that it does without.
func DigestFromMap(users map[string][]byte) (*DigestFile, []error) {
	f, p := newDigestFile(), new(problems)
	for _, user := range slices.Sorted(maps.Keys(users)) {
		value := strings.TrimSpace(string(users[user]))
		if !strings.Contains(value, ":") {
			p.add("key %s is not realm:hash", quote(user))
			continue
		}
		f.add("key "+quote(user), user, value, p)
	}
	return f, p.all()
}

func newDigestFile() *DigestFile {
	f := &DigestFile{realms: map[string]*realm{}, made: time.Now()}
	rand.Read(f.key[:])
	return f
}

func (f *DigestFile) add(where, user, rest string, p *problems) {
	name, text, _ := strings.Cut(rest, ":")
	text, _, _ = strings.Cut(text, ":")
	if user == "" || len(user) > maxUser {
		p.add("%s: a user has a name, of at most %d bytes", where, maxUser)
		return
	}
	if p.repeated(where, user+":"+name) {
		return
	}
	ha1, err := hex.DecodeString(text)
	which := slices.IndexFunc(algorithms, func(a *algorithm) bool { return len(ha1) == a.size })
	if err != nil || which < 0 {
		p.add("%s: the hash is not 32 hexadecimal digits of MD5 or 64 of SHA-256", where)
		return
	}
	r := f.realms[name]
	if r == nil {
		r = &realm{algorithm: algorithms[which], users: map[string][]byte{}}
		f.realms[name] = r
	}
	if r.algorithm != algorithms[which] {
		p.add("%s: the hash is %s and those before it in its realm are %s; a client picks one before its user is known", where, algorithms[which].name, r.algorithm.name)
		return
	}
	r.users[user] = ha1
}

// Realms are those that some user of the file can log in to.
func (f *DigestFile) Realms() []string { return slices.Sorted(maps.Keys(f.realms)) }

// realm is never nil.
func (f *DigestFile) realm(name string) *realm {
	if r := f.realms[name]; r != nil {
		return r
	}
	return &realm{algorithm: algorithms[0]}
}

// Challenge is the value of a WWW-Authenticate field. It is stale when that was the verdict. The realm is printable text.
func (f *DigestFile) Challenge(realm string, stale bool) string {
	also := ""
	if stale {
		also = ", stale=true"
	}
	return fmt.Sprintf(`Digest realm="%s", qop="auth", algorithm=%s, nonce="%s", charset=UTF-8%s`,
		escaper.Replace(realm), f.realm(realm).algorithm.name, f.nonce(realm), also)
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Check reads the value of an Authorization field, and returns its user when the verdict is Passed. The target is that of
// the request line, as the client wrote it: what a digest was made for counts for nothing else.
func (f *DigestFile) Check(method, target, authorization, realm string) (user string, v Verdict) {
	d, ok := parseDigest(authorization)
	r := f.realm(realm)
	if !ok || d.realm != realm || d.uri != target || d.qop != "auth" || d.algorithm != "" && !strings.EqualFold(d.algorithm, r.algorithm.name) ||
		d.algorithm == "" && r.algorithm != algorithms[0] {
		return "", Refused
	}
	ha1, known := r.users[d.username]
	if !known {
		ha1 = f.key[:r.algorithm.size] // so that it takes as long
	}
	want := r.algorithm.sum(hex.EncodeToString(ha1) + ":" + d.nonce + ":" + d.nc + ":" + d.cnonce + ":auth:" + r.algorithm.hex(method+":"+d.uri))
	got, err := hex.DecodeString(d.response)
	if err != nil || subtle.ConstantTimeCompare(want, got) != 1 || !known {
		return "", Refused
	}
	number, fresh := f.fresh(d.nonce, realm)
	if !fresh || !f.uses.first(number, d.count) {
		return "", Stale
	}
	return d.username, Passed
}

func (f *DigestFile) nonce(realm string) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(time.Since(f.made)))
	b = binary.BigEndian.AppendUint64(b, f.nonces.Add(1))
	return base64.RawURLEncoding.EncodeToString(append(b, f.seal(b, realm)...))
}

func (f *DigestFile) seal(b []byte, realm string) []byte {
	h := hmac.New(sha256.New, f.key[:])
	h.Write(b)
	h.Write([]byte(realm))
	return h.Sum(nil)[:16]
}

// fresh reports whether a nonce counts, and its number.
func (f *DigestFile) fresh(nonce, realm string) (number uint64, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(nonce)
	if err != nil || len(b) != nonceBytes || !hmac.Equal(b[16:], f.seal(b[:16], realm)) {
		return 0, false
	}
	age := time.Since(f.made) - time.Duration(binary.BigEndian.Uint64(b))
	return binary.BigEndian.Uint64(b[8:]), age <= nonceLifetime
}
