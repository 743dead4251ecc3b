package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A contender is a proxy that can be started with a setting.
type contender struct {
	name    string
	version string
	ours    bool // it has profiles
	start   func(s setting) (*process, error)
}

// A setting is what a contender is to serve, and how.
type setting struct {
	folder   string // for its files, its alone
	backends []string
	http     string // address to listen on
	https    string
	admin    string // of ours, for metrics
	logging  bool
	buffered bool   // answers of nginx are buffered, however large
	profiled bool   // ours serves its profiles
	cert     string // file with the certificate
	key      string // file with its key
	both     string // file with both, as HAProxy has it
	workers  int
}

// A running contender.
type running struct {
	*process
	setting
	contender string
}

// begin starts a contender and waits until it serves the case.
func (c contender) begin(s setting, path string) (*running, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	s.http, s.https, s.admin = addresses[0], addresses[1], addresses[2]
	p, err := c.start(s)
	if err != nil {
		return nil, err
	}
	r := &running{process: p, setting: s, contender: c.name}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: host},
	}}
	for _, url := range []string{"http://" + s.http + path, "https://" + s.https + path} {
		if err := p.await(func() error { return serves(client, url) }); err != nil {
			p.stop()
			return nil, err
		}
	}
	return r, nil
}

func serves(client *http.Client, url string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Host = host
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// lastPort is the last one that was tried; they are below those that outgoing connections take for themselves.
var lastPort = 21000

// freeAddresses are addresses of the loopback interface whose ports nobody has.
func freeAddresses(n int) (addresses []string, err error) {
	for range 5000 {
		if len(addresses) == n {
			return addresses, nil
		}
		lastPort++
		if lastPort > 32000 {
			lastPort = 21000
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lastPort))
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			addresses = append(addresses, address)
		}
	}
	return nil, fmt.Errorf("no port from 21000 to 32000 is free")
}
