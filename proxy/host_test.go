package proxy

import (
	"strings"
	"testing"
)

func TestNormalHost(t *testing.T) {
	label := strings.Repeat("a", 63)
	for in, want := range map[string]string{
		"a.test":                   "a.test",
		"A.Test.:8080":             "a.test",
		"localhost":                "localhost",
		"under_score.test":         "under_score.test",
		"xn--bcher-kva.example":    "xn--bcher-kva.example",
		"192.0.2.1:80":             "192.0.2.1",
		"[2001:DB8::1]:443":        "[2001:db8::1]",
		"[::1]":                    "[::1]",
		"1.2.3.4.test":             "1.2.3.4.test",
		label + ".test":            label + ".test",
		"a.test:1":                 "a.test",
		"a.test:65535":             "a.test",
		"a.test:0":                 "",
		"a.test:65536":             "",
		"a.test:":                  "",
		"a.test:x":                 "",
		"a.test:+80":               "",
		"a.test:80:90":             "",
		"":                         "",
		".":                        "",
		"a..test":                  "",
		".test":                    "",
		"a.test..":                 "",
		"*.a.test":                 "",
		"a%2etest":                 "",
		"a.test/../b":              "",
		"u@a.test":                 "",
		"a.test, b.test":           "",
		"a test":                   "",
		"a.test\x00.b":             "",
		"a.test(){}`'\"<>":         "",
		"bücher.example":           "",
		"[::1":                     "",
		"[::1]x":                   "",
		"[::1%eth0]":               "",
		"[1.2.3.4]":                "",
		"256.1.1.1":                "",
		"1.2.3":                    "",
		label + "a.test":           "",
		strings.Repeat("a.", 127):  strings.Repeat("a.", 126) + "a",
		strings.Repeat("ab.", 100): "",
	} {
		got, ok := NormalHost(in)
		if got != want || ok != (want != "") {
			t.Errorf("NormalHost(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func TestNormalHostOfLowerCaseAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { NormalHost("shop.example.org:8080") }); n != 0 {
		t.Errorf("NormalHost allocates %v times", n)
	}
}
