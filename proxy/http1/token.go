package http1

// Classes of octets, one bit each.
const (
	tokenByte  = 1 << iota // tchar of RFC 9110 section 5.6.2
	valueByte              // field-vchar, SP and HTAB of RFC 9110 section 5.5, obs-text included
	targetByte             // what a request target may hold on the wire: VCHAR and obs-text
)

var classes = func() (t [256]uint8) {
	for c := range 256 {
		b := byte(c)
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
			t[c] |= tokenByte
		}
		if b > ' ' && b != 0x7f {
			t[c] |= valueByte | targetByte
		}
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		t[b] |= tokenByte
	}
	t[' '] |= valueByte
	t['\t'] |= valueByte
	return t
}()

func all[T string | []byte](s T, class uint8) bool {
	for i := 0; i < len(s); i++ {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// ValidToken reports whether s is a token, such as a method or a field name: not empty, no separators.
func ValidToken(s string) bool { return s != "" && all(s, tokenByte) }

// ValidValue reports whether s may be the value of a field: no control character but HTAB.
func ValidValue(s string) bool { return valueLength(s) == len(s) }

// valueLength is how many octets at the beginning of s may be in a value. It looks at eight at a time: most of every head
// are values.
func valueLength[T string | []byte](s T) int {
	const (
		ones = 0x0101010101010101
		tops = 0x80 * ones
	)
	n := 0
	for ; n+8 <= len(s); n += 8 {
		p := s[n : n+8]
		w := uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 | uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
		del := w ^ 0x7f*ones
		// The top bit of an octet is set where the subtraction borrows: for one below ' ', and for DEL.
		if ((w-' '*ones)&^w|(del-ones)&^del)&tops != 0 && !all(p, valueByte) {
			break
		}
	}
	for n < len(s) && classes[s[n]]&valueByte != 0 {
		n++
	}
	return n
}

// HasToken reports whether a comma-separated list, as the value of Connection is one, holds token. Case does not count.
func HasToken(list, token string) bool {
	for len(list) > 0 {
		var item string
		item, list = NextToken(list)
		if equalFold(item, token) {
			return true
		}
	}
	return false
}

// NextToken splits the first item off a comma-separated list and trims the white space around it. The item is empty for
// an empty place in the list.
func NextToken(list string) (item, rest string) {
	end := 0
	for end < len(list) && list[end] != ',' {
		end++
	}
	item = trim(list[:end])
	if end < len(list) {
		rest = list[end+1:]
	}
	return item, rest
}

// trim removes SP and HTAB, and nothing else, from both ends.
func trim[T string | []byte](s T) T {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// equalFold compares in ASCII only: strings.EqualFold would take the Kelvin sign for a k.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// canonicalize writes the token at the beginning of l in the form that http.Header keys have, "content-TYPE" becomes
// "Content-Type", and returns its length.
func canonicalize(l []byte) int {
	letters := &upperCase
	for i, b := range l {
		c := letters[b]
		if c == 0 {
			return i
		}
		l[i] = c
		letters = &lowerCase
		if c == '-' {
			letters = &upperCase
		}
	}
	return len(l)
}

// What octets of a token are with letters in one case; 0 for those that no token has.
var upperCase, lowerCase = func() (upper, low [256]byte) {
	for c := range 256 {
		b := byte(c)
		if classes[b]&tokenByte == 0 {
			continue
		}
		upper[b], low[b] = b, lower(b)
		if b >= 'a' && b <= 'z' {
			upper[b] = b - 'a' + 'A'
		}
	}
	return upper, low
}()
