package proxy

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func cidrs(all ...string) (networks []netip.Prefix) {
	for _, one := range all {
		networks = append(networks, netip.MustParsePrefix(one))
	}
	return networks
}

// fieldsOf are the fields that a handler saw, by name.
func fieldsOf(body string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ": "); ok {
			fields[name] = value
		}
	}
	return fields
}

// TestClientsAreBelievedAsFarAsIsSaid asks the front under one Clients after the other, over connections from 127.0.0.1
// that claim to be somebody else's (golden rows 23 to 26 of the reference among them).
func TestClientsAreBelievedAsFarAsIsSaid(t *testing.T) {
	const claims = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\nX-Forwarded-Port: 8443\r\n"
	for _, c := range []struct {
		name    string
		always  []netip.Prefix // --trusted-proxies
		clients *Clients
		sent    string
		want    string // fields that the handler sees; "X: " none
	}{
		{"nobody is believed by default (row 23)", nil, nil, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 127.0.0.1\nX-Real-Ip: 127.0.0.1\nX-Original-Forwarded-For: 1.1.1.1\nX-Forwarded-Proto: http\nX-Scheme: http\nX-Forwarded-Host: a.test\nX-Original-Forwarded-Host: b.test"},
		{"trust alone believes nothing", nil, &Clients{Trusted: cidrs("0.0.0.0/0")}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.test"},
		{"with use-forwarded-headers everyone is believed (row 24)", nil, &Clients{Forwarded: true}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 1.1.1.1\nX-Real-Ip: 1.1.1.1\nX-Forwarded-Proto: https\nX-Forwarded-Scheme: https\nX-Scheme: https\nX-Forwarded-Host: b.test\nX-Forwarded-Port: 8443\nX-Original-Forwarded-For: 1.1.1.1"},
		{"so the leftmost address counts", nil, &Clients{Forwarded: true}, "X-Forwarded-For: 2001:db8::1, 1.1.1.1\r\n", "X-Real-Ip: 2001:db8::1"},
		{"the whole chain (row 25)", nil, &Clients{Forwarded: true, FullForwardedFor: true}, "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 1.1.1.1, 127.0.0.1\nX-Real-Ip: 1.1.1.1"},
		{"the whole chain of several lines", nil, &Clients{Forwarded: true, FullForwardedFor: true}, "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n",
			"X-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1"},
		{"the whole chain where there is none", nil, &Clients{Forwarded: true, FullForwardedFor: true}, "", "X-Forwarded-For: 127.0.0.1\nX-Original-Forwarded-For: "},
		{"no chain of a peer that is not trusted", nil, &Clients{Forwarded: true, FullForwardedFor: true, Trusted: cidrs("10.0.0.0/8")}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 127.0.0.1\nX-Real-Ip: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.test"},
		{"the last that is not trusted counts (row 26)", nil, &Clients{Forwarded: true, Trusted: cidrs("10.0.0.0/8", "127.0.0.1/32")}, "X-Forwarded-For: 9.9.9.9, 1.1.1.1, 10.0.0.1\r\n",
			"X-Forwarded-For: 1.1.1.1\nX-Real-Ip: 1.1.1.1\nX-Original-Forwarded-For: 9.9.9.9, 1.1.1.1, 10.0.0.1"},
		{"enable-real-ip believes the address alone", nil, &Clients{RealIP: true, FullForwardedFor: true}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Forwarded-For: 1.1.1.1\nX-Real-Ip: 1.1.1.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.test"},
		{"--trusted-proxies are believed without a key", cidrs("127.0.0.0/8"), &Clients{}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Real-Ip: 1.1.1.1\nX-Forwarded-Proto: https\nX-Forwarded-Host: b.test"},
		{"--trusted-proxies take the place of everyone", cidrs("10.0.0.0/8"), &Clients{Forwarded: true}, claims + "X-Forwarded-For: 1.1.1.1\r\n",
			"X-Real-Ip: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.test"},
		{"--trusted-proxies stand beside proxy-real-ip-cidr", cidrs("127.0.0.0/8"), &Clients{Forwarded: true, Trusted: cidrs("10.0.0.0/8")}, "X-Forwarded-For: 1.1.1.1, 10.0.0.1\r\n",
			"X-Real-Ip: 1.1.1.1"},
		{"another field", nil, &Clients{Forwarded: true, ForwardedFor: "Cf-Connecting-Ip", FullForwardedFor: true}, "X-Forwarded-For: 2.2.2.2\r\nCF-Connecting-IP: 1.1.1.1\r\n",
			"X-Forwarded-For: 1.1.1.1, 127.0.0.1\nX-Real-Ip: 1.1.1.1\nX-Original-Forwarded-For: 1.1.1.1\nCf-Connecting-Ip: 1.1.1.1"},
		{"another field, of a peer that is not trusted", nil, &Clients{RealIP: true, ForwardedFor: "Cf-Connecting-Ip", Trusted: cidrs("10.0.0.0/8")}, "CF-Connecting-IP: 1.1.1.1\r\n",
			"X-Real-Ip: 127.0.0.1\nCf-Connecting-Ip: "},
		{"another field that nobody asks for", nil, &Clients{ForwardedFor: "Cf-Connecting-Ip"}, "CF-Connecting-IP: 1.1.1.1\r\n", "X-Real-Ip: 127.0.0.1\nCf-Connecting-Ip: 1.1.1.1"},
		{"another field that is one of ours", nil, &Clients{RealIP: true, ForwardedFor: "X-Real-Ip"}, "X-Real-Ip: 1.1.1.1\r\n", "X-Real-Ip: 1.1.1.1\nX-Forwarded-For: 1.1.1.1"},
		{"a trusted peer's Connection field", nil, &Clients{Forwarded: true}, "X-Forwarded-For: 1.1.1.1\r\nConnection: X-Forwarded-For, x-real-ip\r\n", "X-Forwarded-For: 1.1.1.1\nX-Real-Ip: 1.1.1.1"},
		{"the target", nil, &Clients{OriginalURI: true}, "X-Original-Uri: /forged\r\n", "X-Original-Uri: /x?y=%2f"},
		{"no target", nil, nil, "X-Original-Uri: /forged\r\n", "X-Original-Uri: "},
		{"no id", nil, &Clients{NoID: true}, "", "X-Request-Id: "},
		{"the client's id", nil, &Clients{NoID: true}, "X-Request-Id: mine\r\n", "X-Request-Id: mine"},
		{"not whatever it calls an id", nil, &Clients{NoID: true}, "X-Request-Id: a b\r\n", "X-Request-Id: "},
		{"odd names", nil, nil, "X_Own: 1\r\nX.Own: 2\r\nX!Own: 3\r\nX-Own: 4\r\n", "X_own: \nX.own: \nX!own: \nX-Own: 4"},
		{"names with underscores", nil, &Clients{Underscores: true}, "X_Own: 1\r\nX.Own: 2\r\nX_O.wn: 3\r\n", "X_own: 1\nX.own: \nX_o.wn: "},
		{"any names", nil, &Clients{OddNames: true}, "X_Own: 1\r\nX.Own: 2\r\nX!Own: 3\r\n", "X_own: 1\nX.own: 2\nX!own: 3"},
		{"odd names of ours", nil, &Clients{Underscores: true, OddNames: true}, "X_Real_IP: 9.9.9.9\r\nx_forwarded-for: 1\r\nX.Real.IP: 1\r\nSSL_CLIENT_VERIFY: SUCCESS\r\nContent_Length: 3\r\nTransfer_Encoding: chunked\r\nX_Original_URL: /x\r\n",
			"X_real_ip: \nX_forwarded-For: \nX.real.ip: \nSsl_client_verify: \nContent_length: \nTransfer_encoding: \nX_original_url: "},
	} {
		s := &Server{Trusted: c.always}
		plain, _ := front(t, s, seen)
		s.SetClients(c.clients)
		_, body := raw(t, plain, "GET /x?y=%2f HTTP/1.1\r\nHost: a.test\r\n"+c.sent+"\r\n")
		got := fieldsOf(body)
		for name, want := range fieldsOf(c.want + "\n") {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got[name], want)
			}
		}
	}
}

func TestClientsChangeWhileConnectionsStayOpen(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, seen)
	c := open(t, plain)
	believing := &Clients{Forwarded: true}
	for _, step := range []struct {
		clients *Clients
		want    string
	}{{nil, "127.0.0.1"}, {believing, "1.1.1.1"}, {believing, "1.1.1.1"}, {&Clients{Forwarded: true, Trusted: cidrs("10.0.0.0/8")}, "127.0.0.1"}, {nil, "127.0.0.1"}} {
		s.SetClients(step.clients)
		if got := fieldsOf(c.ask("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n"))["X-Real-Ip"]; got != step.want {
			t.Errorf("with %+v the client is %q, want %q", step.clients, got, step.want)
		}
	}
}

func TestSameClientsCostNothing(t *testing.T) {
	s, c := new(Server), &Clients{Forwarded: true}
	s.SetClients(c)
	if n := testing.AllocsPerRun(100, func() { s.SetClients(c) }); n != 0 {
		t.Errorf("SetClients of what is in place allocates %v times", n)
	}
}

// TestTrustedPeersCostOneAllocationMore: the text of the client's address.
func TestTrustedPeersCostOneAllocationMore(t *testing.T) {
	d, w, r := quick(nil)
	d.server.SetClients(&Clients{Forwarded: true, Underscores: true})
	r.Header[xForwardedFor] = []string{"1.1.1.1"}
	d.ServeHTTP(w, r)
	if n := testing.AllocsPerRun(1000, func() {
		delete(r.Header, xRequestID)
		r.Header[xForwardedFor] = chainOf1
		d.ServeHTTP(w, r)
	}); n > 4 {
		t.Errorf("the front allocates %v times a request, want 4", n)
	}
}

var chainOf1 = []string{"1.1.1.1"}

// TestTheDoorTellsThePortItIsReachedAt: plain HTTP its own, HTTPS always 443.
func TestTheDoorTellsThePortItIsReachedAt(t *testing.T) {
	plain, secure := front(t, new(Server), seen)
	_, port, _ := net.SplitHostPort(plain)
	for addr, want := range map[string]string{plain: "http " + port, secure: "https 443"} {
		c := open(t, addr)
		if addr == secure {
			c = c.secure()
		}
		got := fieldsOf(c.ask("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"))
		if said := got["X-Forwarded-Proto"] + " " + got["X-Forwarded-Port"]; said != want {
			t.Errorf("%s: %q, want %q", addr, said, want)
		}
	}
}
