package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBodyThatNobodyReadsIsGivenUp announces a body, sends a part of it, and is answered by a handler that wants none of
// it: net/http would wait for the rest before it writes the answer, for as long as the client likes.
func TestBodyThatNobodyReadsIsGivenUp(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a page":         func(w http.ResponseWriter, r *http.Request) { Fail(w, r, http.StatusNotFound, NoRoute) },
		"a long page":    func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 10000)) },
		"a flushed page": func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() },
		"nothing":        func(w http.ResponseWriter, r *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, _ := front(t, &Server{BodyTimeout: 100 * time.Millisecond}, handler)
			c, err := net.Dial("tcp", plain)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhel")
			reader := bufio.NewReader(c)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(answer.Body); err != nil {
				t.Errorf("%s, %v; want a whole answer", answer.Status, err)
			}
			if _, err := reader.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want the connection closed", err)
			}
		})
	}
}

// duplex answers while it reads, as an endpoint that echoes does.
func duplex(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	c.EnableFullDuplex()
	b := make([]byte, 100)
	for {
		n, err := r.Body.Read(b)
		w.Write(b[:n])
		c.Flush()
		if err != nil {
			return
		}
	}
}

// TestAnswerThatHasBegunTakesNoTimeFromTheBody waits three quarters of the gap between two parts of a body that is
// answered as it comes.
func TestAnswerThatHasBegunTakesNoTimeFromTheBody(t *testing.T) {
	const gap = time.Second
	plain, _ := front(t, &Server{BodyTimeout: gap}, http.HandlerFunc(duplex))
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := make([]byte, 3)
	if _, err := io.ReadFull(answer.Body, first); err != nil {
		t.Fatal(err)
	}
	<-time.After(gap * 3 / 4)
	io.WriteString(c, "3\r\ntwo\r\n0\r\n\r\n")
	if rest, err := io.ReadAll(answer.Body); string(rest) != "two" || err != nil {
		t.Errorf("then %q, %v; want the second part", rest, err)
	}
}

// TestLongAnswerAfterAnUnreadBodyKeepsItsClient leaves a body unread and goes on answering for longer than a body may
// stall: no deadline of the body's may make the client look gone.
func TestLongAnswerAfterAnUnreadBodyKeepsItsClient(t *testing.T) {
	const gap = 200 * time.Millisecond
	gone := make(chan error, 1)
	plain, _ := front(t, &Server{BodyTimeout: gap}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		for range 4 {
			io.WriteString(w, "x")
			c.Flush()
			select {
			case <-r.Context().Done():
				gone <- r.Context().Err()
				return
			case <-time.After(gap):
			}
		}
		gone <- nil
	}))
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); string(body) != "xxxx" || err != nil {
		t.Errorf("the client got %q, %v; want all of the answer", body, err)
	}
	if err := <-gone; err != nil {
		t.Errorf("the client was taken for gone: %v", err)
	}
}

// TestStalledBodyIs408AndEndsTheConnection stops in the middle of a body that is being read. Nobody reads on then: the rest
// that comes when the read has failed is no part of the exchange.
func TestStalledBodyIs408AndEndsTheConnection(t *testing.T) {
	for name, rest := range map[string][2]string{
		"length":  {"Content-Length: 8\r\n\r\nhel", "lolol"},
		"chunked": {"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "5\r\nlolol\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			failed, sent := make(chan struct{}), make(chan struct{})
			plain, _ := front(t, &Server{BodyTimeout: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.ReadAll(r.Body)
				close(failed)
				<-sent
				Fail(w, r, http.StatusRequestTimeout, BodyTimeout)
			}))
			c, err := net.Dial("tcp", plain)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second)) // far less than any other limit
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\n"+rest[0])
			<-failed
			io.WriteString(c, rest[1])
			close(sent)
			in := bufio.NewReader(c)
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(answer.Body); answer.StatusCode != 408 || !answer.Close || err != nil {
				t.Errorf("%s, close %t, %v; want 408 and close", answer.Status, answer.Close, err)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("then %v, want the end of the connection", err)
			}
		})
	}
}

// TestStalledBodyOfAStreamIs408 stops in the middle of a body over HTTP/2: its stream ends, and another goes on.
func TestStalledBodyOfAStreamIs408(t *testing.T) {
	_, secure := front(t, &Server{BodyTimeout: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			Fail(w, r, http.StatusRequestTimeout, BodyTimeout)
		}
	}))
	for name, length := range map[string][]string{"length": {"content-length", "8"}, "no length": nil} {
		w := dialHTTP2(t, secure)
		w.head(1, 0, append([]string{":method", "POST", ":scheme", "https", ":authority", "a.test", ":path", "/"}, length...)...)
		w.send(frameData, 0, 1, []byte("hel"))
		for _, want := range []string{"408", "RST"} {
			if got := w.outcome(); got != want {
				t.Errorf("%s: %s, want 408 and the end of the stream", name, got)
			}
		}
		w.get(3)
		if got := w.outcome(); got != "200" {
			t.Errorf("%s: %s on another stream, want 200", name, got)
		}
	}
}

// TestUnreadBodyLeavesTheConnectionForAnother answers without reading a body that is there: the next request on the
// connection is answered too.
func TestUnreadBodyLeavesTheConnectionForAnother(t *testing.T) {
	plain, _ := front(t, &Server{}, ok)
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	in := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello")
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != 200 || answer.Close {
			t.Fatalf("%s, close %t; want 200 on a connection that stays", answer.Status, answer.Close)
		}
	}
}

// TestClientIsNotAskedForABodyThatNobodyWants answers a request that waits for 100.
func TestClientIsNotAskedForABodyThatNobodyWants(t *testing.T) {
	plain, _ := front(t, &Server{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Fail(w, r, http.StatusForbidden, Denied)
	}))
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if all, err := io.ReadAll(c); !strings.HasPrefix(string(all), "HTTP/1.1 403 ") || err != nil {
		t.Errorf("the client got %q, %v; want 403 and the end of the connection", all, err)
	}
}

// TestBodyThatEndsEarlyIs400OnTheWire ends its side of the connection in the middle of a body and reads on. A handler
// cannot tell it from a client that is gone, and says 499; there is no such status on the wire.
func TestBodyThatEndsEarlyIs400OnTheWire(t *testing.T) {
	for name, request := range map[string]string{
		"length":  "Content-Length: 8\r\n\r\nhel",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			observer := make(told, 1)
			s := new(Server)
			plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err == nil {
					t.Error("the body was read to its end")
				}
				Fail(w, r, StatusClientClosed, ClientClosed)
			}))
			InfoOf(s.Table().Lookup("a.test", "/").Handler).Observer = observer
			c, err := net.Dial("tcp", plain)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\n"+request)
			c.(*net.TCPConn).CloseWrite()
			in := bufio.NewReader(c)
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(answer.Body)
			if answer.Status != "400 Bad Request" || !answer.Close || !strings.HasPrefix(string(page), "400 Bad Request\nreason: client_closed\n") || err != nil {
				t.Errorf("%s, close %t, %q, %v; want a whole 400 and close", answer.Status, answer.Close, page, err)
			}
			if e := <-observer; e.Status != StatusClientClosed || e.Reason != ClientClosed || e.Sent != 0 {
				t.Errorf("the log has %d %s, %d bytes; want 499 client_closed and none", e.Status, e.Reason, e.Sent)
			}
		})
	}
}
