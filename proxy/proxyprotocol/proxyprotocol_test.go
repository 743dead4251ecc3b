package proxyprotocol

import (
	"bytes"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

// ipv4 are addresses of version 2: 192.0.2.1:56324 to 198.51.100.1:443.
const ipv4 = "\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb"

func said(source, destination string) Header {
	return Header{Source: netip.MustParseAddrPort(source), Destination: netip.MustParseAddrPort(destination)}
}

func datagramOf(h Header) Header {
	h.Datagram = true
	return h
}

func TestHeadersAreRead(t *testing.T) {
	v4 := said("192.0.2.1:56324", "198.51.100.1:443")
	v6 := said("[2001:db8::1]:56324", "[2001:db8::2]:443")
	inet6Bytes := "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" + "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x02" + "\xdc\x04\x01\xbb"
	for header, want := range map[string]Header{
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n":        v4,
		"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n":       v6,
		"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 443\r\n":      said("192.0.2.1:1", "[2001:db8::2]:443"),
		"PROXY TCP4 255.255.255.255 255.255.255.255 65535 0\r\n": said("255.255.255.255:65535", "255.255.255.255:0"),
		"PROXY UNKNOWN\r\n":                                                          {},
		"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n":                                      {},
		"PROXY UNKNOWN " + strings.Repeat("x", MaxV1-16) + "\r\n":                    {},
		signature2 + "\x21\x11\x00\x0c" + ipv4:                                       v4,
		signature2 + "\x21\x12\x00\x0c" + ipv4:                                       datagramOf(v4),
		signature2 + "\x21\x21\x00\x24" + inet6Bytes:                                 v6,
		signature2 + "\x21\x11\x00\x13" + ipv4 + "\x04\x00\x04abcd":                  v4, // a TLV
		signature2 + "\x21\x11\x00\x0e" + ipv4 + "\x04\xff":                          v4, // half of one, which is skipped too
		signature2 + "\x21\x31\x00\xd8" + strings.Repeat("/", 216):                   {},
		signature2 + "\x21\x00\x00\x00":                                              {},
		signature2 + "\x21\x00\x00\x03abc":                                           {},
		signature2 + "\x20\x00\x00\x00":                                              {},
		signature2 + "\x20\x11\x00\x0c" + ipv4:                                       {}, // LOCAL: its addresses mean nothing
		signature2 + "\x20\xff\x00\x00":                                              {}, // nor does its family
		signature2 + "\x21\x11\x0f\xf0" + ipv4 + strings.Repeat("\x04", MaxV2-16-12): v4,
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			r := reader(strings.NewReader(header + "GET / HTTP/1.1\r\n"))
			got, rest, err := Read(r)
			behind, _ := io.ReadAll(r)
			if err != nil || got != want || string(rest)+string(behind) != "GET / HTTP/1.1\r\n" {
				t.Errorf("%q, %s: %+v, then %q and %q, error %v; want %+v, then the request", header, name, got, rest, behind, err, want)
			}
		}
	}
}

func TestWhatIsNoHeaderIsRefused(t *testing.T) {
	for _, c := range []struct{ sent, says string }{
		{"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", ErrNone.Error()},
		{"POST / HTTP/1.1\r\n", ErrNone.Error()},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrNone.Error()},
		{"\x16\x03\x01\x02\x00", ErrNone.Error()},
		{"proxy TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", ErrNone.Error()},
		{"\r\n\r\n\x00\r\nQUIX\n", ErrNone.Error()},
		{" PROXY UNKNOWN\r\n", ErrNone.Error()},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n", "CR LF"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\r\n", "CR LF"},
		{"PROXY UNKNOWN a\rb\r\n", "CR LF"},
		{"PROXY UNKNOWN " + strings.Repeat("x", MaxV1) + "\r\n", "more than 107 bytes"},
		{"PROXY \r\n", "expected TCP4 or TCP6"},
		{"PROXY UNKNOWNS\r\n", "expected TCP4 or TCP6"},
		{"PROXY UDP4 192.0.2.1 198.51.100.1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4  192.0.2.1 198.51.100.1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.01 198.51.100.1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2 198.51.100.1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 2001:db8::1 198.51.100.1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP6 192.0.2.1 2001:db8::1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP6 fe80::1%eth0 2001:db8::1 56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 +56324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 056324 443\r\n", "expected TCP4 or TCP6"},
		{"PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n", "expected TCP4 or TCP6"},
		{signature2 + "\x11\x11\x00\x0c" + ipv4, "version and command"},
		{signature2 + "\x22\x11\x00\x0c" + ipv4, "version and command"},
		{signature2 + "\x31", "version and command"}, // without waiting for more
		{signature2 + "\x21\x13\x00\x0c" + ipv4, "family and transport"},
		{signature2 + "\x21\x41\x00\x0c" + ipv4, "family and transport"},
		{signature2 + "\x21\x11\x00\x0b" + ipv4, "addresses have 11 bytes"},
		{signature2 + "\x21\x21\x00\x0c" + ipv4, "addresses have 12 bytes"},
		{signature2 + "\x21\x10\x00\x00", "addresses have 0 bytes"},
		{signature2 + "\x21\x11\x0f\xf1", "more than 4096"}, // without waiting for more
		{signature2 + "\x21\x11\xff\xff", "more than 4096"},
		{"", io.EOF.Error()},
		{"PROXY TCP4 192.0.2.1", io.ErrUnexpectedEOF.Error()},
		{signature2, io.ErrUnexpectedEOF.Error()},
		{signature2 + "\x21\x11\x00\x0c" + ipv4[:11], io.ErrUnexpectedEOF.Error()},
	} {
		h, rest, err := Read(strings.NewReader(c.sent))
		if err == nil || !strings.Contains(err.Error(), c.says) || (err == io.EOF) != (c.sent == "") || h != (Header{}) || rest != nil {
			t.Errorf("%.60q: %+v, %q, error %v; want an error with %q alone", c.sent, h, rest, err, c.says)
		}
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	v4, v6 := said("192.0.2.1:56324", "198.51.100.1:443"), said("[2001:db8::1]:1", "[2001:db8::2]:65535")
	mixed := said("192.0.2.1:1", "[2001:db8::2]:2")
	mapped := said("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2")
	for _, c := range []struct {
		header, want1, want2 Header
		text                 string
	}{
		{v4, v4, v4, "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"},
		{v6, v6, v6, "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n"},
		{mixed, mixed, mixed, "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"},
		{mapped, said("192.0.2.1:1", "192.0.2.2:2"), said("192.0.2.1:1", "192.0.2.2:2"), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"},
		{Header{}, Header{}, Header{}, "PROXY UNKNOWN\r\n"},
		{Header{Source: v4.Source}, Header{}, Header{}, "PROXY UNKNOWN\r\n"},
		{datagramOf(v4), Header{}, datagramOf(v4), "PROXY UNKNOWN\r\n"},
	} {
		text, binary := c.header.AppendV1([]byte("x"))[1:], c.header.AppendV2([]byte("x"))[1:]
		if string(text) != c.text {
			t.Errorf("%+v: %q, want %q", c.header, text, c.text)
		}
		for i, written := range [][]byte{text, binary} {
			want := []Header{c.want1, c.want2}[i]
			if got, n, err := Parse(written); got != want || n != len(written) || err != nil {
				t.Errorf("%+v: version %d is read as %+v of %d bytes, error %v; want %+v of %d", c.header, i+1, got, n, err, want, len(written))
			}
		}
	}
}

// FuzzParse: a header is complete at one length and at no other, is read alike however it comes, and means the same when
// it is written again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET", "PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "PROXY UNKNOWN x\r\n", "GET / HTTP/1.1\r\n",
		signature2 + "\x21\x11\x00\x0c" + ipv4, signature2 + "\x20\x00\x00\x00rest", signature2 + "\x21\x12\x00\x0f" + ipv4 + "\x01\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Parse(b)
		fromRead, _, readErr := Read(iotest.OneByteReader(bytes.NewReader(b)))
		if err != nil {
			if h != (Header{}) || n != 0 || readErr == nil {
				t.Fatalf("%q: %+v, %d and %v, while byte by byte the error is %v", b, h, n, err, readErr)
			}
			return
		}
		if n > len(b) || n > MaxV2 || fromRead != h || readErr != nil {
			t.Fatalf("%q: %+v of %d bytes, while byte by byte it is %+v, error %v", b, h, n, fromRead, readErr)
		}
		for i := range n {
			if _, _, err := Parse(b[:i]); err != ErrIncomplete {
				t.Fatalf("%q: error %v for the first %d bytes, want that more are needed", b, err, i)
			}
		}
		if again, _, err := Parse(h.AppendV2(nil)); again != h || err != nil {
			t.Fatalf("%q: %+v is written and read as %+v, error %v", b, h, again, err)
		}
		if again, _, err := Parse(h.AppendV1(nil)); !h.Datagram && again != h || err != nil {
			t.Fatalf("%q: %+v is written in version 1 and read as %+v, error %v", b, h, again, err)
		}
	})
}
