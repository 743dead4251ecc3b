package value

import (
	"slices"
	"strings"
)

// A place is where a value goes, and with it which of its bytes are percent-encoded.
type place uint8

const (
	asIs    place = iota // none
	inField              // those that cannot stand in a header field
	inURL                // those that cannot stand in a URL, or would end the part of it that the value stands in
)

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes the bytes of b[from:] that bad says must not stand there, in place. bad is given the value and
// the index of the byte.
func escape(b []byte, from int, bad func(value []byte, i int) bool) []byte {
	value, count := b[from:], 0
	for i := range value {
		if bad(value, i) {
			count++
		}
	}
	if count == 0 {
		return b
	}
	b = slices.Grow(b, 2*count)
	value = b[from:len(b):cap(b)]
	b = b[:len(b)+2*count]
	// From the end, so that nothing is overwritten before it is moved: what is written next stands 2*count bytes behind
	// where it was read, hence the byte that is looked at and the two behind it are as they were.
	for i := len(value) - 1; count > 0; i-- {
		c, to := value[i], from+i+2*count
		if !bad(value, i) {
			b[to] = c
			continue
		}
		count--
		b[to], b[to-1], b[to-2] = hexDigits[c&15], hexDigits[c>>4], '%'
	}
	return b
}

func notInField(value []byte, i int) bool {
	c := value[i]
	return c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(value)-1)
}

// notUnreserved is what JavaScript's encodeURIComponent would encode, and five more (RFC 3986 section 2.3).
func notUnreserved(value []byte, i int) bool { return !isUnreserved(value[i]) }

// notInSegments keeps slashes: the value may be several segments of a path. Nothing it keeps delimits parameters, so that
// it may as well be one of a query.
func notInSegments(value []byte, i int) bool { return value[i] != '/' && !isUnreserved(value[i]) }

// notInURL keeps what a URL may hold: delimiters, and escapes that are some.
func notInURL(value []byte, i int) bool {
	c := value[i]
	if c == '%' {
		return i+2 >= len(value) || !isHex(value[i+1]) || !isHex(value[i+2])
	}
	return !isURL(c) || c == '#'
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || strings.IndexByte("-._~", c) >= 0
}

// isURL reports whether a byte may stand in a URL (RFC 3986 appendix A).
func isURL(c byte) bool {
	return isUnreserved(c) || strings.IndexByte(":/?#[]@!$&'()*+,;=%", c) >= 0
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
