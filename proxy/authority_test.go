package proxy

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
)

// TestAnAuthorityIsAnsweredBeforeAnythingElse: whatever stands around the routes, on both listeners, for the tokens of a host
// alone.
func TestAnAuthorityIsAnsweredBeforeAnythingElse(t *testing.T) {
	s := &Server{Answer: func(host, token string) (string, bool) {
		return "proof", host == "a.test" && token == "known"
	}}
	plain, secure := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "route") }))
	s.SetAround(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Fail(w, r, http.StatusForbidden, Denied) })
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	for _, test := range []struct {
		method, host, path string
		known              bool
	}{
		{"GET", "a.test", "known", true},
		{"GET", "A.test.:80", "known", true},
		{"HEAD", "a.test", "known", true},
		{"POST", "a.test", "known", false},
		{"GET", "b.test", "known", false},
		{"GET", "a.test", "unknown", false},
		{"GET", "a.test", "known/", false},
		{"GET", "a.test", "known?x=1", false},
		{"GET", "a.test", "../acme-challenge/known", true}, // it is the same path
		{"GET", "a.test", "", false},
	} {
		for _, base := range []string{"http://" + plain, "https://" + secure} {
			request, err := http.NewRequest(test.method, base+"/.well-known/acme-challenge/"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = test.host
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			switch {
			case !test.known && answer.StatusCode != http.StatusForbidden:
				t.Errorf("%s %s %s of %s: %s %q, want 403 of what stands around", test.method, test.path, base, test.host, answer.Status, body)
			case test.known && (answer.StatusCode != http.StatusOK || test.method == "GET" && string(body) != "proof"):
				t.Errorf("%s %s %s of %s: %s %q, want 200 and the proof", test.method, test.path, base, test.host, answer.Status, body)
			}
		}
	}
}

// TestAHandshakeForAnAuthorityIsAllThereIs: the certificate is the one for it, and no request is served behind it.
func TestAHandshakeForAnAuthorityIsAllThereIs(t *testing.T) {
	proof := newPair(t)
	config := &tls.Config{Certificates: []tls.Certificate{*proof}, NextProtos: []string{"acme-tls/1"}}
	s := &Server{Handshake: func(*tls.ClientHelloInfo) (*tls.Config, any, error) { return config, nil, nil }}
	_, secure := front(t, s, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was served") }))
	c, err := tls.Dial("tcp", secure, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: []string{"acme-tls/1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	state := c.ConnectionState()
	if state.NegotiatedProtocol != "acme-tls/1" || string(state.PeerCertificates[0].Raw) != string(proof.Certificate[0]) {
		t.Errorf("protocol %q with another certificate than the proof", state.NegotiatedProtocol)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if text, _ := io.ReadAll(c); len(text) > 0 {
		t.Errorf("the connection went on: %q", text)
	}
}
