package feature

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// A list of cipher suites as OpenSSL writes it (reference B9): names and groups of suites, of which a sign in front takes
// some away, and directions that begin with @. Only those are spoken that encrypt with authentication and keep secrets
// forward, and in TLS 1.3, which has no others, all of them always.

// suites are those of TLS 1.2 that are spoken, with the names of the groups that they are in.
var suites = []struct {
	id     uint16
	name   string
	groups []string
}{
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", []string{"ECDSA", "aECDSA", "AES", "AES128", "AESGCM"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", []string{"aRSA", "AES", "AES128", "AESGCM"}},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", []string{"ECDSA", "aECDSA", "AES", "AES256", "AESGCM"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", []string{"aRSA", "AES", "AES256", "AESGCM"}},
	{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", []string{"ECDSA", "aECDSA", "CHACHA20"}},
	{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", []string{"aRSA", "CHACHA20"}},
}

// allGroups are those that every suite is in.
var allGroups = []string{"ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kEECDH", "kECDHE", "TLSv1.2", "FIPS", "COMPLEMENTOFALL"}

// otherGroups hold suites that are not spoken, none of ours.
var otherGroups = []string{
	"NULL", "eNULL", "aNULL", "MD5", "SHA", "SHA1", "SHA256", "SHA384", "RC4", "RC2", "DES", "3DES", "EXP", "EXPORT", "EXPORT40", "EXPORT56", "LOW", "MEDIUM", "PSK", "kPSK", "aPSK",
	"SRP", "kSRP", "aSRP", "CAMELLIA", "CAMELLIA128", "CAMELLIA256", "ARIA", "ARIA128", "ARIA256", "SEED", "IDEA", "DSS", "aDSS", "DH", "DHE", "EDH", "kDHE", "kEDH", "ADH", "AECDH",
	"RSA", "kRSA", "CBC", "AESCCM", "AESCCM8", "SSLv2", "SSLv3", "TLSv1", "TLSv1.0", "TLSv1.1", "COMPLEMENTOFDEFAULT", "kECDH", "ECDH", "kDH", "kDHr", "kDHd", "aDH", "aECDH", "GOST", "kGOST", "aGOST",
}

// of13 are the suites of TLS 1.3, which are always there.
var of13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

// ParseCiphers reads a list as OpenSSL takes it. Chosen are the suites of TLS 1.2; unspoken are the names of those that
// exist, or seem to, and are not spoken, and unknown are the words that mean nothing.
func ParseCiphers(list string) (chosen []uint16, unspoken, unknown []string) {
	var banned []uint16
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		if strings.HasPrefix(word, "@") {
			if word != "@STRENGTH" && !strings.HasPrefix(word, "@SECLEVEL=") {
				unknown = append(unknown, word)
			}
			continue
		}
		sign, name := byte(0), word
		if strings.IndexByte("!-+", word[0]) >= 0 {
			sign, name = word[0], word[1:]
		}
		named, known := matching(name)
		switch {
		case !known:
			unknown = append(unknown, word)
		case sign == '!':
			banned = append(banned, named...)
			fallthrough
		case sign == '-':
			chosen = slices.DeleteFunc(chosen, func(id uint16) bool { return slices.Contains(named, id) })
		case sign == '+': // later in the order, which is not ours to choose
		case len(named) == 0 && !slices.Contains(of13, name):
			unspoken = append(unspoken, name)
		}
		if sign != 0 {
			continue
		}
		for _, id := range named {
			if !slices.Contains(chosen, id) && !slices.Contains(banned, id) {
				chosen = append(chosen, id)
			}
		}
	}
	return chosen, unspoken, unknown
}

// matching are the suites that a name stands for: that of one, or of groups joined by +. known says that it means
// something, if only suites that are not spoken.
func matching(name string) (ids []uint16, known bool) {
	if slices.Contains(of13, name) {
		return nil, true
	}
	for _, s := range suites {
		if name == s.name || name == tls.CipherSuiteName(s.id) {
			return []uint16{s.id}, true
		}
	}
	if looksLikeSuite(name) {
		return nil, true
	}
	for _, s := range suites {
		ids = append(ids, s.id)
	}
	for group := range strings.SplitSeq(name, "+") {
		found := false
		ids = slices.DeleteFunc(ids, func(id uint16) bool {
			at := slices.IndexFunc(suites, func(s struct {
				id     uint16
				name   string
				groups []string
			}) bool {
				return s.id == id
			})
			return !slices.Contains(suites[at].groups, group) && !slices.Contains(allGroups, group)
		})
		found = slices.Contains(allGroups, group) || slices.Contains(otherGroups, group)
		for _, s := range suites {
			found = found || slices.Contains(s.groups, group)
		}
		if !found {
			return nil, false
		}
	}
	return ids, true
}

// looksLikeSuite reports whether a name is built as those of suites are.
func looksLikeSuite(name string) bool {
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if name == c.Name {
			return true
		}
	}
	if strings.Contains(name, "+") || !strings.Contains(name, "-") {
		return false
	}
	for _, end := range []string{"-SHA", "-SHA256", "-SHA384", "-MD5", "-POLY1305", "-CCM", "-CCM8", "-GCM-SHA256", "-GCM-SHA384"} {
		if rest, ok := strings.CutSuffix(name, end); ok {
			for part := range strings.SplitSeq(rest, "-") {
				if !slices.Contains(suiteParts, part) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// suiteParts are what names of suites are built of.
var suiteParts = []string{
	"ECDHE", "ECDH", "DHE", "EDH", "DH", "ADH", "AECDH", "RSA", "ECDSA", "DSS", "PSK", "SRP", "AES128", "AES256", "GCM", "CBC", "CBC3", "CHACHA20", "DES", "3DES", "RC4", "RC2", "NULL",
	"CAMELLIA128", "CAMELLIA256", "ARIA128", "ARIA256", "ARIA", "SEED", "IDEA", "AES", "128", "256", "3", "EDE", "EXP", "CCM", "CCM8",
}

// ciphers reads such a list. Nil: it is absent, or names nothing that is spoken.
func (a *Annotations) ciphers(name, usual, usage string) []uint16 {
	d := Declaration{Name: name, Values: "names of cipher suites as OpenSSL has them, separated by colons", Default: usual, Usage: usage}
	var remarks []string
	chosen := read(a, d, nil, func(value string) ([]uint16, string) {
		if expected := oneLine(value); expected != "" {
			return nil, expected
		}
		chosen, unspoken, unknown := ParseCiphers(value)
		if len(chosen) == 0 {
			return nil, "expected at least one suite of TLS 1.2 that is spoken, as in " + suites[0].name
		}
		remarks = nil
		if len(unknown) > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: no suite and no group has such a name", strings.Join(unknown, ", ")))
		}
		if len(unspoken) > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: not spoken here, where only suites with ECDHE and AES-GCM or ChaCha20 are", strings.Join(unspoken, ", ")))
		}
		return chosen, ""
	})
	for _, remark := range remarks {
		a.Refuse(name, remark+"; the others are used")
	}
	return chosen
}
