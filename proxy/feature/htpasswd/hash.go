package htpasswd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tg123/go-htpasswd"
)

// A check reports whether a password has a certain hash.
type check func(password string) bool

// A userHash is the hash of one user's password.
type userHash struct {
	matches check // nil for a stranger
	// kind names what a check costs: two hashes of one kind take the same time for the same password.
	kind string
	fast bool // takes no longer than to remember it
	most int  // bytes of a password that count; 0 means all
}

// bcrypt reads no more of a password than this. A longer one is cut, as it was when Apache made its hash. To refuse it
// would keep nobody out: the first 72 bytes alone pass.
const bcryptBytes = 72

func (h *userHash) significant(password string) string {
	if h.most > 0 && len(password) > h.most {
		return password[:h.most]
	}
	return password
}

// The dearest hashes, which take about a second each; BenchmarkHash has the numbers. A bcrypt cost of 31 would take a
// day, for anybody who asks.
const (
	maxBcryptCost = 14
	minRounds     = 1000 // of SHA crypt; fewer are computed as this many, and so never written
	maxRounds     = 1_000_000
)

// parseHash checks the shape of a hash whole, because what computes the hashes does not: from a malformed one it makes
// one that nothing matches, or a panic with the first password. Its errors say nothing of the hash.
func parseHash(text string) (userHash, error) {
	switch prefix, rest := cutPrefix(text); prefix {
	case "$2y$", "$2a$", "$2b$":
		return parseBcrypt(text, rest)
	case "$apr1$", "$1$":
		salt, sum, _ := strings.Cut(rest, "$")
		if len(salt) > 8 || !visible(salt) || len(sum) != 22 || !crypt64(sum) {
			return userHash{}, fmt.Errorf("the %s hash is not whole", prefix)
		}
		return made(htpasswd.AcceptMd5, text, fmt.Sprint("md5 ", prefix, len(salt)))
	case "$5$":
		return parseSHACrypt(text, prefix, rest, 43)
	case "$6$":
		return parseSHACrypt(text, prefix, rest, 86)
	case "{SHA}":
		h, err := made(htpasswd.AcceptSha, text, "sha")
		h.fast = true
		return h, err
	case "{SSHA}":
		h, err := made(htpasswd.AcceptSsha, text, "sha")
		h.fast = true
		return h, err
	case "{PLAIN}":
		return userHash{}, errors.New("the password is written as {PLAIN} text, which is refused; write its bcrypt hash, as htpasswd -B does")
	case "$2x$":
		return userHash{}, errors.New("the hash is of the bcrypt that had a bug, $2x$; make another with htpasswd -B")
	case "":
		if text == "" {
			return userHash{}, errors.New("there is no hash")
		}
		return userHash{}, errors.New("plain text, DES crypt or an unknown kind of hash, which are refused; write a bcrypt hash, as htpasswd -B does")
	default:
		return userHash{}, fmt.Errorf("hashes of the kind %s are not known here; write a bcrypt hash, as htpasswd -B does", prefix)
	}
}

// prefixes are of the kinds of hashes, known and unknown, that errors may name: any other prefix may be part of a
// password.
var prefixes = []string{
	"$2y$", "$2a$", "$2b$", "$2x$", "$apr1$", "$1$", "$5$", "$6$", "{SHA}", "{SSHA}", "{PLAIN}",
	"$y$", "$gy$", "$7$", "$argon2i$", "$argon2d$", "$argon2id$", "{SHA256}", "{SSHA256}", "{SHA512}", "{SSHA512}", "{MD5}", "{SMD5}", "{CRYPT}",
}

func cutPrefix(text string) (prefix, rest string) {
	for _, p := range prefixes {
		if rest, found := strings.CutPrefix(text, p); found {
			return p, rest
		}
	}
	return "", text
}

// parseBcrypt reads 10$, then 22 characters of salt and 31 of hash.
func parseBcrypt(text, rest string) (userHash, error) {
	digits, sum, _ := strings.Cut(rest, "$")
	cost, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || len(digits) != 2 || cost < 4 || cost > 31 || len(sum) != 22+31 || !crypt64(sum) {
		return userHash{}, errors.New("the bcrypt hash is not whole")
	}
	if cost > maxBcryptCost {
		return userHash{}, fmt.Errorf("the bcrypt hash has cost %d and would take seconds to check; at most %d is taken", cost, maxBcryptCost)
	}
	h, err := made(htpasswd.AcceptBcrypt, text, "bcrypt "+digits)
	if err != nil {
		return userHash{}, err
	}
	whole := h.matches
	h.most = bcryptBytes
	h.matches = func(password string) bool { return whole(h.significant(password)) }
	return h, nil
}

// parseSHACrypt reads rounds=N$, which may be missing, then a salt, $ and the hash, which is size characters.
func parseSHACrypt(text, prefix, rest string, size int) (userHash, error) {
	rounds := ""
	if more, found := strings.CutPrefix(rest, "rounds="); found {
		rounds, rest, _ = strings.Cut(more, "$")
		n, err := strconv.ParseUint(rounds, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != rounds || n < minRounds {
			return userHash{}, fmt.Errorf("the %s hash does not say its rounds as a whole number from %d", prefix, minRounds)
		}
		if n > maxRounds {
			return userHash{}, fmt.Errorf("the %s hash has %d rounds and would take seconds to check; at most %d are taken", prefix, n, maxRounds)
		}
	}
	salt, sum, _ := strings.Cut(rest, "$")
	if salt == "" || len(salt) > 16 || !visible(salt) || len(sum) != size || !crypt64(sum) {
		return userHash{}, fmt.Errorf("the %s hash is not whole", prefix)
	}
	return made(htpasswd.AcceptCryptSha, text, fmt.Sprint("sha crypt ", prefix, rounds, "$", len(salt)))
}

// made is what the parser makes of a hash. The parser is named and not found by trying all there are: the last of those
// takes any line for plain text.
func made(parse htpasswd.PasswdParser, text, kind string) (userHash, error) {
	encoded, err := parse(text)
	if err != nil || encoded == nil {
		return userHash{}, errors.New("the hash is not whole") // err would tell it
	}
	return userHash{matches: encoded.MatchesPassword, kind: kind}, nil
}

// crypt64 reports whether s is made of the 64 characters of crypt.
func crypt64(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '.' <= c && c <= '9') {
			return false
		}
	}
	return true
}

// visible reports whether s is made of visible ASCII.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
