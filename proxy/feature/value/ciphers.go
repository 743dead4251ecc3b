package value

import (
	"crypto/tls"
	"slices"
	"strings"
)

// A suite is a cipher suite of TLS 1.2 under OpenSSL's name, and the words of OpenSSL's lists that take it.
type suite struct {
	id    uint16
	name  string
	words []string // nil: it is old, and must be named to be used
}

// suites are those of TLS 1.2 that can be had, the best first.
var suites = []suite{
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", words("ECDSA aECDSA AESGCM AES AES128 SHA256")},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", words("RSA aRSA AESGCM AES AES128 SHA256")},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", words("ECDSA aECDSA AESGCM AES AES256 SHA384")},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", words("RSA aRSA AESGCM AES AES256 SHA384")},
	{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", words("ECDSA aECDSA CHACHA20 SHA256")},
	{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", words("RSA aRSA CHACHA20 SHA256")},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "ECDHE-ECDSA-AES256-SHA", nil},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, "ECDHE-RSA-AES256-SHA", nil},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "ECDHE-ECDSA-AES128-SHA", nil},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, "ECDHE-RSA-AES128-SHA", nil},
	{tls.TLS_RSA_WITH_AES_256_GCM_SHA384, "AES256-GCM-SHA384", nil},
	{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, "AES128-GCM-SHA256", nil},
	{tls.TLS_RSA_WITH_AES_256_CBC_SHA, "AES256-SHA", nil},
	{tls.TLS_RSA_WITH_AES_128_CBC_SHA, "AES128-SHA", nil},
}

// words are those of a suite, and those that take every suite that has any.
func words(text string) []string {
	return append(strings.Fields(text), "DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", "FIPS")
}

func (s *suite) is(word string) bool {
	return strings.EqualFold(word, s.name) || slices.ContainsFunc(s.words, func(w string) bool { return strings.EqualFold(w, word) })
}

// Ciphers reads a list of cipher suites as OpenSSL has it: names and words for kinds of them, which may be joined with "+"
// and struck out with "!" or "-", separated by colons, commas or spaces. It returns the suites of TLS 1.2 that can be had,
// and what of the list means none of them, as it stands there. Suites of TLS 1.3 need not be listed and cannot be left out.
//
// Words take suites alone that encrypt with authentication and keep secrets forward; older ones must be named.
func Ciphers(list string) (ids []uint16, unknown []string) {
	struck := make(map[uint16]bool)
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return strings.ContainsRune(":, ;\t\n", r) }) {
		term := strings.TrimLeft(item, "!-+")
		if strings.HasPrefix(item, "@") || strings.HasPrefix(item, "TLS_AES_") || strings.HasPrefix(item, "TLS_CHACHA20_") {
			continue // how to sort, or suites of TLS 1.3
		}
		found := false
		for i := range suites {
			s := &suites[i]
			if !s.isAll(term) {
				continue
			}
			found = true
			switch item[0] {
			case '!':
				struck[s.id] = true
				fallthrough
			case '-':
				ids = slices.DeleteFunc(ids, func(id uint16) bool { return id == s.id })
			case '+': // at the end of those that there are
			default:
				if !struck[s.id] && !slices.Contains(ids, s.id) {
					ids = append(ids, s.id)
				}
			}
		}
		if !found && item[0] != '!' && item[0] != '-' { // what is struck out need not be there
			unknown = append(unknown, item)
		}
	}
	return ids, unknown
}

// isAll reports whether all words joined with "+" take the suite.
func (s *suite) isAll(term string) bool {
	for word := range strings.SplitSeq(term, "+") {
		if !s.is(word) {
			return false
		}
	}
	return true
}

// openSSLName is the name of a suite of TLS 1.2 that OpenSSL has one of its own for; "" for others.
func openSSLName(id uint16) string {
	for i := range suites {
		if suites[i].id == id {
			return suites[i].name
		}
	}
	return ""
}
