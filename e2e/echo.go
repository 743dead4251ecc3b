package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An Endpoint is a server behind the proxy, playing a pod.
type Endpoint struct {
	Name string
	Addr string
}

// An EchoBody is what an [Echo] endpoint answers: the request as it arrived.
type EchoBody struct {
	Endpoint string      `json:"endpoint"`
	Method   string      `json:"method"`
	Target   string      `json:"target"`
	Host     string      `json:"host"`
	Header   http.Header `json:"header"`
	Body     string      `json:"body"`
}

// Echo starts an endpoint that answers every request with what it got. Addr may end in ":0". It ends with the test.
func Echo(t testing.TB, addr, name string) *Endpoint {
	return Serve(t, addr, name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { echo(w, r, name) }))
}

// echo answers a request with what it is.
func echo(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the upload was cut: no answer may look like success
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Endpoint", name)
	answer := bid(w, r, name)
	w.WriteHeader(answer)
	json.NewEncoder(w).Encode(EchoBody{
		Endpoint: name, Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(body),
	})
}

// bid does what the request's Echo fields ask for, each "NAME WORD ..." or "all WORD ...", where NAME is the endpoint's, and
// returns the status to answer with:
//
//	status 404                  the status
//	field Set-Cookie: a=b       a field of the answer
//	break                       the connection ends without an answer
//	silence                     there is no answer until the client leaves
func bid(w http.ResponseWriter, r *http.Request, name string) (status int) {
	status = http.StatusOK
	for _, line := range r.Header["Echo"] {
		who, what, _ := strings.Cut(line, " ")
		if who != name && who != "all" {
			continue
		}
		word, rest, _ := strings.Cut(what, " ")
		switch word {
		case "status":
			status, _ = strconv.Atoi(rest)
		case "field":
			field, value, _ := strings.Cut(rest, ": ")
			w.Header().Add(field, value)
		case "silence":
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case "break":
			panic(http.ErrAbortHandler)
		}
	}
	return status
}

// Serve starts an endpoint with a handler of the test's own, over HTTP/1.1 and HTTP/2 cleartext; over TLS, with a certificate
// for its own name, where that begins with "tls-".
func Serve(t testing.TB, addr, name string, handler http.Handler) *Endpoint {
	t.Helper()
	var config *tls.Config
	if strings.HasPrefix(name, "tls-") {
		config = &tls.Config{Certificates: []tls.Certificate{SelfSigned(t, name)}}
	}
	return serveOver(t, config, addr, name, handler)
}

// serveOver is Serve over TLS, unless config is nil.
func serveOver(t testing.TB, config *tls.Config, addr, name string, handler http.Handler) *Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("endpoint %s: %v", name, err)
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Protocols.SetHTTP2(true)
	server.TLSConfig = config
	done := make(chan struct{})
	go func() {
		defer close(done)
		if config != nil {
			server.ServeTLS(listener, "", "")
		} else {
			server.Serve(listener)
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return &Endpoint{Name: name, Addr: listener.Addr().String()}
}

// SelfSigned makes a certificate for names that nobody trusts.
func SelfSigned(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
