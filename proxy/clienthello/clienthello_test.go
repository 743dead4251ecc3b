package clienthello

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// helloOf is what crypto/tls sends first, as a client with a configuration.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	c.InsecureSkipVerify = true
	client, server := net.Pipe()
	defer client.Close()
	go tls.Client(client, c).HandshakeContext(context.Background())
	server.SetDeadline(time.Now().Add(10 * time.Second))
	head := make([]byte, recordHead)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(server, payload); err != nil {
		t.Fatal(err)
	}
	return append(head, payload...)
}

// cut puts the payload of a record into records of n bytes.
func cut(record []byte, n int) (all []byte) {
	for payload := record[recordHead:]; len(payload) > 0; {
		part := payload[:min(n, len(payload))]
		payload = payload[len(part):]
		all = append(all, recordHandshake, 3, 1, byte(len(part)>>8), byte(len(part)))
		all = append(all, part...)
	}
	return all
}

// vector is content with its length before it.
func vector(bytes int, content ...byte) []byte {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	return append(length[4-bytes:], content...)
}

// helloWith is a record with a hello that has these extensions, of which each has its type before it.
func helloWith(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, vector(1)...)
	body = append(body, vector(2, 0x13, 0x01)...)
	body = append(body, vector(1, 0)...)
	if len(extensions) > 0 {
		body = append(body, vector(2, bytes.Join(extensions, nil)...)...)
	}
	message := append([]byte{messageHello}, vector(3, body...)...)
	return append([]byte{recordHandshake, 3, 1}, vector(2, message...)...)
}

func extension(kind int, data []byte) []byte {
	return append([]byte{byte(kind >> 8), byte(kind)}, vector(2, data...)...)
}

func names(kind byte, all ...string) []byte {
	var list []byte
	for _, name := range all {
		list = append(append(list, kind), vector(2, []byte(name)...)...)
	}
	return vector(2, list...)
}

// ech is an extension encrypted_client_hello of nonsense, as clients send it that have no key (GREASE).
var ech = extension(0xfe0d, append([]byte{0, 0, 1, 0, 1, 7}, append(vector(2, make([]byte, 32)...), vector(2, make([]byte, 144)...)...)...))

func TestTheNameIsReadHoweverTheHelloIsCut(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "Pass.Test", NextProtos: []string{"h2", "http/1.1"}})
	for what, sent := range map[string][]byte{
		"whole":                   plain,
		"in records of one byte":  cut(plain, 1),
		"in records of 5 bytes":   cut(plain, 5),
		"in records of 700 bytes": cut(plain, 700),
	} {
		for how, from := range map[string]io.Reader{
			"at once":          bytes.NewReader(sent),
			"a byte at a time": iotest.OneByteReader(bytes.NewReader(sent)),
			"in halves":        iotest.HalfReader(bytes.NewReader(sent)),
		} {
			name, read, err := new(Reader).Read(from)
			if name != "Pass.Test" || err != nil {
				t.Errorf("%s, %s: the name is %q, %v; want Pass.Test", what, how, name, err)
			}
			if !bytes.Equal(read, sent) {
				t.Errorf("%s, %s: %d bytes come back, want the %d that were sent", what, how, len(read), len(sent))
			}
		}
	}
}

func TestWhatComesBehindTheHelloComesBackToo(t *testing.T) {
	sent := append(helloOf(t, &tls.Config{ServerName: "a.test"}), "early data"...)
	if name, read, err := new(Reader).Read(bytes.NewReader(sent)); name != "a.test" || err != nil || !bytes.Equal(read, sent) {
		t.Errorf("Read = %q, %d bytes, %v; want a.test and %d bytes", name, len(read), err, len(sent))
	}
}

func TestHellosAndWhatIsNone(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, test := range []struct {
		what string
		sent []byte
		name string
		err  error
	}{
		{"crypto/tls of TLS 1.2", helloOf(t, &tls.Config{ServerName: "a.test", MaxVersion: tls.VersionTLS12}), "a.test", nil},
		{"no name", helloOf(t, &tls.Config{}), "", nil},
		{"an address, which is no name", helloOf(t, &tls.Config{ServerName: "192.0.2.7"}), "", nil},
		{"no extensions", helloWith(), "", nil},
		{"a name alone", helloWith(extension(0, names(0, "a.test"))), "a.test", nil},
		{"GREASE around it", helloWith(extension(0x0a0a, nil), extension(0, names(0, "a.test")), extension(0xfafa, []byte{0})), "a.test", nil},
		{"Encrypted Client Hello", helloWith(extension(0, names(0, "outer.test")), ech), "outer.test", nil},
		{"the longest name", helloWith(extension(0, names(0, long))), long, nil},
		{"a name with a dot behind it", helloWith(extension(0, names(0, "a.test."))), "a.test.", nil},
		{"a name of another type", helloWith(extension(0, names(1, "a.test"))), "", nil},
		{"two names", helloWith(extension(0, names(0, "a.test", "b.test"))), "", ErrNotTLS},
		{"two extensions with a name", helloWith(extension(0, names(0, "a.test")), extension(0, names(0, "b.test"))), "", ErrNotTLS},
		{"two extensions of one type", helloWith(extension(5, nil), extension(0, names(0, "a.test")), extension(5, nil)), "", ErrNotTLS},
		{"an empty name", helloWith(extension(0, names(0, ""))), "", ErrNotTLS},
		{"an empty list", helloWith(extension(0, names(0))), "", ErrNotTLS},
		{"a list that is longer than its extension", helloWith(extension(0, []byte{0, 9, 0, 0, 1, 'a'})), "", ErrNotTLS},
		{"a list that is shorter", helloWith(extension(0, append(names(0, "a.test"), 0))), "", ErrNotTLS},
		{"an extension cut off", helloWith([]byte{0, 0, 0, 9, 1}), "", ErrNotTLS},
		{"HTTP in the clear", []byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "", ErrNotTLS},
		{"SSL 2", []byte{0x80, 0x2e, 1, 0, 2}, "", ErrNotTLS},
		{"SSH", []byte("SSH-2.0-x\r\n"), "", ErrNotTLS},
		{"a version from the future", []byte{recordHandshake, 0x10, 0, 0, 1, 1}, "", ErrNotTLS},
		{"an empty record", []byte{recordHandshake, 3, 1, 0, 0}, "", ErrNotTLS},
		{"a record of 65,535 bytes", []byte{recordHandshake, 3, 1, 0xff, 0xff}, "", ErrNotTLS},
		{"another message", []byte{recordHandshake, 3, 1, 0, 4, 2, 0, 0, 0}, "", ErrNotTLS},
		{"a hello of 16 MiB", []byte{recordHandshake, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, "", ErrNotTLS},
		{"a hello of 20 KiB", []byte{recordHandshake, 3, 1, 0, 4, 1, 0, 80, 0}, "", ErrTooLong},
		{"a long one in many records", cut(helloWith(extension(0x4a4a, make([]byte, 8<<10))), 1), "", ErrTooLong},
		{"a warning before it", append([]byte{recordAlert, 3, 1, 0, 2, 1, 112}, helloWith()...), "", ErrAlert},
		{"something else between its records", append(cut(helloWith(), 10)[:15], 20, 3, 1, 0, 1, 1), "", ErrNotTLS},
		{"nothing", nil, "", io.EOF},
		{"half of one", helloWith()[:20], "", io.EOF},
	} {
		name, read, err := new(Reader).Read(bytes.NewReader(test.sent))
		if name != test.name || !errors.Is(err, test.err) {
			t.Errorf("%s: the name is %q, %v; want %q, %v", test.what, name, err, test.name, test.err)
		}
		if !bytes.HasPrefix(test.sent, read) {
			t.Errorf("%s: what comes back is not what was sent", test.what)
		}
	}
}

func TestLongHellosShareABound(t *testing.T) {
	r := new(Reader)
	long := helloWith(extension(0x4a4a, make([]byte, 14<<10)))
	var halves []net.Conn
	ended := make(chan error, MaxLong/(16<<10-usual)+2)
	crowded := false
	for !crowded && len(halves) < cap(ended) {
		client, server := net.Pipe()
		halves = append(halves, client)
		go func() {
			_, _, err := r.Read(server)
			ended <- err
			server.Close()
		}()
		if _, err := client.Write(long[:len(long)-1]); err != nil {
			crowded = true
		}
	}
	if !crowded {
		t.Fatalf("%d long hellos wait at a time, want fewer", len(halves))
	}
	if err := <-ended; !errors.Is(err, ErrCrowded) {
		t.Errorf("the last of %d ends with %v, want ErrCrowded", len(halves), err)
	}
	if name, _, err := r.Read(bytes.NewReader(helloWith(extension(0, names(0, "a.test"))))); name != "a.test" || err != nil {
		t.Errorf("a usual hello among them: %q, %v; want a.test", name, err)
	}
	for i, half := range halves[:len(halves)-1] {
		half.Close()
		if err := <-ended; err != io.EOF {
			t.Fatalf("hello %d ends with %v, want EOF", i, err)
		}
	}
	if held := r.long.Load(); held != 0 {
		t.Errorf("%d bytes are held once all have gone, want none", held)
	}
}

// asTLS is the name that crypto/tls sees in the same bytes, and whether it sees a hello at all.
func asTLS(sent []byte) (name string, seen bool) {
	server := tls.Server(&once{Reader: bytes.NewReader(sent)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, seen = hello.ServerName, true
			return nil, errors.New("that is all there is to know")
		},
	})
	server.Handshake()
	return name, seen
}

// once is a connection whose client says something and listens to nothing.
type once struct {
	net.Conn
	io.Reader
}

func (o *once) Read(b []byte) (int, error)       { return o.Reader.Read(b) }
func (o *once) Write(b []byte) (int, error)      { return len(b), nil }
func (o *once) Close() error                     { return nil }
func (o *once) SetDeadline(time.Time) error      { return nil }
func (o *once) SetReadDeadline(time.Time) error  { return nil }
func (o *once) SetWriteDeadline(time.Time) error { return nil }

// FuzzTheNameIsTheOneThatTLSSees holds the reader against crypto/tls. Where that sees a hello, a name was read and is the
// same one, or the connection is closed. Where this sees something to hand on, that sees no hello.
func FuzzTheNameIsTheOneThatTLSSees(f *testing.F) {
	plain := helloOf(f, &tls.Config{ServerName: "a.test"})
	for _, seed := range [][]byte{
		plain, cut(plain, 1), cut(plain, 100), helloOf(f, &tls.Config{}), helloOf(f, &tls.Config{ServerName: "b.test", MaxVersion: tls.VersionTLS12}),
		helloWith(), helloWith(extension(0, names(0, "a.test")), ech), helloWith(extension(0, names(1, "a.test"))), helloWith(extension(0, names(0, "a.test", "b.test"))),
		helloWith(extension(0, names(0, "a.test."))), append([]byte{recordAlert, 3, 1, 0, 2, 1, 112}, plain...), []byte("GET / HTTP/1.1\r\n"),
	} {
		f.Add(seed, 0)
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, sent []byte, step int) {
		var from io.Reader = bytes.NewReader(sent)
		if step > 0 {
			from = &steps{from, step}
		}
		name, read, err := new(Reader).Read(from)
		if len(read) > MaxRead || !bytes.HasPrefix(sent, read) {
			t.Fatalf("%d bytes come back of %d, want a beginning of no more than %d", len(read), len(sent), MaxRead)
		}
		theirs, seen := asTLS(sent)
		switch {
		case seen && err == nil && name != theirs:
			t.Errorf("the name is %q, crypto/tls sees %q", name, theirs)
		case seen && err != nil && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrAlert):
			t.Errorf("Read ends with %v, crypto/tls sees a hello for %q", err, theirs)
		}
	})
}

// steps reads a few bytes at a time.
type steps struct {
	io.Reader
	n int
}

func (s *steps) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), s.n)]) }

func BenchmarkRead(b *testing.B) {
	sent := helloOf(b, &tls.Config{ServerName: "a.test", NextProtos: []string{"h2", "http/1.1"}})
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		if name, _, err := r.Read(bytes.NewReader(sent)); name != "a.test" || err != nil {
			b.Fatal(name, err)
		}
	}
}
