package htpasswd

import (
	"strings"
	"testing"
)

// Hashes of "open sesame", made by OpenSSL, by the C library and from the definition.
const (
	bcrypt05  = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"
	apr1      = "$apr1$abcdefgh$T64oOxnD8c28.dQa.2Lty1"
	crypt6    = "$6$saltsaltsaltsalt$bFDPCeim1lAoNHIVuV/pMLnUrlFnTeup0Y2rY3Qzhrpc5jt4juzyyDqJOnx7GDYBMXDgBtUoroCXtDWBR9jZX."
	crypt5    = "$5$saltsaltsaltsalt$EHLyHXQ/sD5YeLFki3vi2iwPTWCvemZWpD2ZcVxNSm."
	plainSHA  = "{SHA}W8r/fyL/UzygmbNAjq2HbA67qac="
	saltedSHA = "{SSHA}bEiwulKhVqG0wRVxs1ooibgOlxZzYWx0c2FsdA=="
)

// BenchmarkHash is what a guess costs, with the shortest and the longest password.
func BenchmarkHash(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"bcrypt-5", bcrypt05},
		{"bcrypt-10", strings.Replace(bcrypt05, "$05$", "$10$", 1)},
		{"bcrypt-14", strings.Replace(bcrypt05, "$05$", "$14$", 1)},
		{"apr1", apr1},
		{"sha256-crypt", crypt5},
		{"sha512-crypt", crypt6},
		{"sha256-crypt-million", strings.Replace(crypt5, "$5$", "$5$rounds=1000000$", 1)},
		{"sha512-crypt-million", strings.Replace(crypt6, "$6$", "$6$rounds=1000000$", 1)},
		{"SHA", plainSHA},
		{"SSHA", saltedSHA},
	} {
		h, err := parseHash(c.text)
		if err != nil {
			b.Fatal(err)
		}
		for name, password := range map[string]string{"short": "open sesame", "long": strings.Repeat("x", maxPassword)} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					h.matches(password)
				}
			})
		}
	}
}
