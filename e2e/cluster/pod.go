//go:build controlplane

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
)

// An Echo is what a Pod answers: itself, and the request as it arrived.
type Echo struct {
	Namespace string      `json:"namespace"`
	App       string      `json:"app"` // the Pod's label of that name
	Pod       string      `json:"pod"`
	Port      string      `json:"port"` // the container port's name, or its number
	Protocol  string      `json:"protocol"`
	Method    string      `json:"method"`
	Target    string      `json:"target"`
	Host      string      `json:"host"`
	Header    http.Header `json:"header"`
	Body      string      `json:"body"`
}

// A pod is a Pod that has an address. It serves HTTP/1.1, HTTP/2 in cleartext and WebSocket on its container ports.
type pod struct {
	*corev1.Pod
	address netip.Addr
	deleted chan struct{}
	delete  func()      // closes deleted, once
	ending  atomic.Bool // every answer is the last on its connection
	doors   []*door
	servers []*http.Server
	serving sync.WaitGroup
}

func newPod(object *corev1.Pod, address netip.Addr) *pod {
	p := &pod{Pod: object, address: address, deleted: make(chan struct{})}
	p.delete = sync.OnceFunc(func() { close(p.deleted) })
	return p
}

// readyAfter is the longest initialDelaySeconds of a readinessProbe.
func (p *pod) readyAfter() time.Duration {
	var delay int32
	for _, c := range p.Spec.Containers {
		if c.ReadinessProbe != nil {
			delay = max(delay, c.ReadinessProbe.InitialDelaySeconds)
		}
	}
	return time.Duration(delay) * time.Second
}

// lingers is the longest sleep of a preStop hook.
func (p *pod) lingers() time.Duration {
	var sleep int64
	for _, c := range p.Spec.Containers {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			sleep = max(sleep, c.Lifecycle.PreStop.Sleep.Seconds)
		}
	}
	return time.Duration(sleep) * time.Second
}

// listen starts a server for each container port.
func (p *pod) listen() error {
	var problems []error
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			listener, err := net.Listen("tcp", netip.AddrPortFrom(p.address, uint16(port.ContainerPort)).String())
			if err != nil {
				problems = append(problems, err)
				continue
			}
			name := port.Name
			if name == "" {
				name = strconv.Itoa(int(port.ContainerPort))
			}
			server := &http.Server{Handler: p.echo(name), ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
			server.Protocols.SetHTTP1(true)
			server.Protocols.SetUnencryptedHTTP2(true)
			d := newDoor(listener.(*net.TCPListener))
			p.doors, p.servers = append(p.doors, d), append(p.servers, server)
			p.serving.Go(func() { server.Serve(d) })
		}
	}
	return errors.Join(problems...)
}

// lastAnswers is the time that a program takes, when it ends, for connections that it has.
const lastAnswers = time.Second

// close refuses connections from now on, and lets those that are there end: what is asked on them for a while yet is answered,
// each with the word that it was the last. A program does well to end so: one that closes a connection which is idle cannot
// know whether a request is on its way there, and whoever sent it cannot know whether it was acted upon.
func (p *pod) close() {
	p.ending.Store(true)
	for _, d := range p.doors {
		d.refuse()
	}
	if len(p.doors) > 0 {
		<-time.After(lastAnswers)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	for _, server := range p.servers {
		server.Shutdown(ctx)
		server.Close()
	}
	p.serving.Wait()
	p.doors, p.servers = nil, nil
}

func (p *pod) echo(port string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Endpoint", p.Name)
		if p.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		if r.Header.Get("Upgrade") == "websocket" {
			echoMessages(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the upload was cut: no answer may look like success
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(Echo{
			Namespace: p.Namespace, App: p.Labels["app"], Pod: p.Name, Port: port, Protocol: r.Proto,
			Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(body),
		})
	})
}

// echoMessages sends every message of a WebSocket back.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer socket.CloseNow()
	for {
		kind, message, err := socket.Read(r.Context())
		if err != nil || socket.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}
