//go:build controlplane

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/e2e"
)

// Namespace is where deploy/ installs Sallyport.
const Namespace = "sallyport"

// A Sallyport is one replica, with a client for which every host is that replica.
type Sallyport struct {
	*e2e.Process
	Name   string // of its Pod, as far as it knows
	client *http.Client
}

// Sallyport starts a replica and waits until it is ready. It has a token of the ServiceAccount that deploy/ installs,
// and may do what that may. It ends with the test.
func (c *Cluster) Sallyport(t testing.TB, flags ...string) *Sallyport {
	t.Helper()
	s := c.Launch(t, flags...)
	s.WaitReady(t)
	return s
}

// Next is the name that the next replica has.
func (c *Cluster) Next() string { return fmt.Sprintf("sallyport-%d", c.replicas+1) }

// Launch is Sallyport without the wait. All replicas have one token, so that one can be started while the API server, which
// gives it, is away.
func (c *Cluster) Launch(t testing.TB, flags ...string) *Sallyport {
	t.Helper()
	return c.launch(t, c.server, flags)
}

// LaunchVia is Launch of a replica that reaches the API server through a gate.
func (c *Cluster) LaunchVia(t testing.TB, gate *Gate, flags ...string) *Sallyport {
	t.Helper()
	return c.launch(t, gate.url, flags)
}

func (c *Cluster) launch(t testing.TB, server string, flags []string) *Sallyport {
	t.Helper()
	user := c.Next()
	c.replicas++
	if c.token == "" {
		c.token = strings.TrimSpace(c.Kubectl(t, "create", "token", "sallyport", "--namespace="+Namespace))
	}
	writeKubeconfig(t, c.kubeconfig(user), kubeconfig{server: server, authority: filepath.Join(c.folder, "ca.crt"), token: c.token})
	process := e2e.LaunchIn(t, []string{"POD_NAMESPACE=" + Namespace, "POD_NAME=" + user},
		append([]string{"--kubeconfig=" + c.kubeconfig(user), "--access-log=off"}, flags...)...)
	s := &Sallyport{Process: process, Name: user, client: process.Client(nil)}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// An Answer is what came back for one request.
type Answer struct {
	*http.Response
	Body string
	Echo Echo // zero when no Pod answered
}

// Get asks for a URL.
func (s *Sallyport) Get(url string) (Answer, error) {
	response, err := s.client.Get(url)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Response: response, Body: string(body)}
	if response.Header.Get("X-Endpoint") != "" {
		err = json.Unmarshal(body, &a.Echo)
	}
	return a, err
}

// A Want is an expectation of an answer: nil when it is met.
type Want func(Answer) error

// Served wants 200 from a Pod with this label app.
func Served(app string) Want {
	return func(a Answer) error {
		if a.StatusCode != http.StatusOK || a.Echo.App != app {
			return fmt.Errorf("%s from app %q, want 200 from %q; the body is %s", a.Status, a.Echo.App, app, a.Body)
		}
		return nil
	}
}

// Refused wants a status with its reason, from the proxy itself.
func Refused(status int, reason string) Want {
	return func(a Answer) error {
		if a.StatusCode != status || !strings.Contains(a.Body, "reason: "+reason+"\n") {
			return fmt.Errorf("%s, want %d with reason %s; the body is %s", a.Status, status, reason, a.Body)
		}
		return nil
	}
}

// Expect asks for a URL until the answer is as wanted, for as long as the harness has patience.
func (s *Sallyport) Expect(t testing.TB, url string, want Want) {
	t.Helper()
	e2e.Eventually(t, "GET "+url+" is answered as wanted", func() error {
		err := s.check(url, want)
		if err != nil {
			s.CloseIdleConnections() // a certificate that has come since is shown to new connections only
		}
		return err
	})
}

// Check asks once: for what must hold now because something later than it already does.
func (s *Sallyport) Check(t testing.TB, url string, want Want) {
	t.Helper()
	if err := s.check(url, want); err != nil {
		t.Errorf("GET %s: %v", url, err)
	}
}

func (s *Sallyport) check(url string, want Want) error {
	answer, err := s.Get(url)
	if err != nil {
		return err
	}
	return want(answer)
}

// CloseIdleConnections has the next request use a new connection.
func (s *Sallyport) CloseIdleConnections() { s.client.CloseIdleConnections() }
