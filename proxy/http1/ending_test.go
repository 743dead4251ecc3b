package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// covered are connections that cannot be looked beneath, as those of TLS cannot.
type covered struct{ net.Listener }

func (l covered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// TestRequestsThatHaveComeAreServed: a client that was not told of the end in time may have sent its next request.
func TestRequestsThatHaveComeAreServed(t *testing.T) {
	for name, cover := range map[string]func(net.Listener) net.Listener{
		"in the clear": func(l net.Listener) net.Listener { return l },
		"covered":      func(l net.Listener) net.Listener { return covered{l} },
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan bool)
			s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					http.NewResponseController(w).Flush()
					<-goOn
				}
				echo(w, r)
			})}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go s.Serve(cover(l))
			c := dial(t, l.Addr().String())
			io.WriteString(c, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := c.in.Peek(1); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() { ended <- s.Shutdown(context.Background()) }()
			eventually(t, func() string {
				if s.isClosed() {
					return ""
				}
				return "Shutdown has not begun"
			})
			io.WriteString(c, simple)
			goOn <- true
			c.hear(t, `GET /long "" <nil> map[]`)
			res, err := http.ReadResponse(c.in, nil)
			if err != nil || !res.Close {
				t.Errorf("the next request: %v, %v; want an answer that is the last", res, err)
			}
			c.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnswersOfAnEndingServerAreTheLast: those too whose requests came before.
func TestAnswersOfAnEndingServerAreTheLast(t *testing.T) {
	goOn := make(chan bool)
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goOn <- true
		<-goOn
		echo(w, r)
	})}
	c := dial(t, serve(t, s))
	io.WriteString(c, simple)
	<-goOn
	s.Drain()
	goOn <- true
	if res, err := http.ReadResponse(c.in, nil); err != nil || !res.Close {
		t.Errorf("%v, %v; want an answer that is the last", res, err)
	}
}

// TestDeadlinesOfBodiesAreNoneOfTheNextRequest: who gives a body up may do so when it has just been read.
func TestDeadlinesOfBodiesAreNoneOfTheNextRequest(t *testing.T) {
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		http.NewResponseController(w).SetReadDeadline(past)
	})}
	c := dial(t, serve(t, s))
	c.ask(t, "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok", `POST /b "ok" <nil> map[]`)
	c.ask(t, simple, simpleEcho)
}
