package proxy

import (
	"io"
	"net/http"
	"net/netip"
	"testing"
)

// TestAddressWithAZoneIsNoAddress: a zone may hold any text, which would stand in fields and in log lines.
func TestAddressWithAZoneIsNoAddress(t *testing.T) {
	s := &Server{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Real-Ip"))
	}))
	for said, want := range map[string]string{
		`fe80::1%x" - admin [now] "GET /forged`:     "127.0.0.1",
		`[fe80::1%x" - admin]:80`:                   "127.0.0.1",
		"2001:db8::1":                               "2001:db8::1",
		`2001:db8::9, fe80::1%eth0, 127.0.0.9`:      "127.0.0.9",
		"2001:db8::9, [2001:db8::1]:443, 127.0.0.9": "2001:db8::1",
	} {
		_, got := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: "+said+"\r\nConnection: close\r\n\r\n")
		if got != want {
			t.Errorf("X-Forwarded-For: %s makes the client %q, want %q", said, got, want)
		}
	}
}
