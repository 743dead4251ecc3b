//go:build controlplane

package cluster_test

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// visit shakes hands with what the cache has, asks for something, so that tickets that came with the answer are read, and
// reports whether a session was resumed.
func visit(addr string, version uint16, sessions tls.ClientSessionCache) (resumed bool, err error) {
	c, err := tls.Dial("tcp", addr, &tls.Config{ServerName: "secure.test", InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, ClientSessionCache: sessions})
	if err != nil {
		return false, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: secure.test\r\nConnection: close\r\n\r\n"); err != nil {
		return false, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false, err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return false, errors.New(answer.Status)
	}
	return c.ConnectionState().DidResume, nil
}

// crossed returns nil when each replica resumes the sessions of every other.
func crossed(replicas ...*cluster.Sallyport) error {
	for _, from := range replicas {
		for _, to := range replicas {
			sessions := tls.NewLRUClientSessionCache(1)
			if _, err := visit(from.HTTPS, tls.VersionTLS13, sessions); err != nil {
				return err
			}
			resumed, err := visit(to.HTTPS, tls.VersionTLS13, sessions)
			if err != nil {
				return err
			}
			if !resumed {
				return fmt.Errorf("a session that began at %s is not resumed at %s", from.Name, to.Name)
			}
		}
	}
	return nil
}

// TestSessionsAreResumedAtWhicheverReplica has clients come back through a balancer that sends every connection to the next of
// two replicas; then another Secret takes the keys of their tickets away.
func TestSessionsAreResumedAtWhicheverReplica(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 1)+c.Secret(t, "secure", "secure.test")+
		ingress("secure", ours, "tls: [{hosts: [secure.test], secretName: secure}]", "rules:", rule("secure.test", "/", "Prefix", "web")))
	first, second := c.Sallyport(t, "--election-ttl=3s"), c.Sallyport(t, "--election-ttl=3s")
	for _, s := range []*cluster.Sallyport{first, second} {
		s.Expect(t, "https://secure.test/", shown("secure.test"))
	}
	e2e.Eventually(t, "the replicas have the same keys", func() error { return crossed(first, second) })

	const clients, visits = 20, 25
	balancer := cluster.Balance(t, first, second)
	before := [2]float64{handshakes(t, first), handshakes(t, second)}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		back, resumed := 0, 0
		for range clients {
			sessions := tls.NewLRUClientSessionCache(1)
			for n := range visits {
				again, err := visit(balancer.Process.HTTPS, version, sessions)
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					back++
				}
				if again {
					resumed++
				}
			}
		}
		rate := float64(resumed) / float64(back)
		t.Logf("%s: %d clients came %d times: %d of %d who came back resumed their session, %.1f %%", tls.VersionName(version), clients, visits, resumed, back, 100*rate)
		if rate <= 0.95 {
			t.Errorf("%s: %.1f %% of those who came back resumed their session, want more than 95 %%", tls.VersionName(version), 100*rate)
		}
	}
	for i, s := range []*cluster.Sallyport{first, second} {
		if n := handshakes(t, s) - before[i]; n < clients*visits/2 {
			t.Errorf("%s took %v connections of %d: this shows nothing", s.Name, n, 2*clients*visits)
		}
	}

	old := map[uint16]*lastSession{tls.VersionTLS12: {}, tls.VersionTLS13: {}}
	for version, sessions := range old {
		if _, err := visit(first.HTTPS, version, sessions); err != nil {
			t.Fatal(err)
		}
		sessions.kept = true
		if resumed, err := visit(second.HTTPS, version, sessions); err != nil || !resumed {
			t.Fatalf("%s: a session is resumed at the other replica: %v, %v", tls.VersionName(version), resumed, err)
		}
	}
	rotateOut(t, c)
	for _, s := range []*cluster.Sallyport{first, second} {
		since := time.Now()
		for deadline := since.Add(90 * time.Second); ; { // replicas look once a minute
			resumed := false
			for version, sessions := range old {
				again, err := visit(s.HTTPS, version, sessions)
				if err != nil {
					t.Fatal(err)
				}
				resumed = resumed || again
			}
			if !resumed {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s resumes sessions of keys that were taken away a minute and a half ago", s.Name)
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Logf("%s shakes hands anew with whoever comes with a ticket of a key that is gone, %v later", s.Name, time.Since(since).Round(time.Second))
	}
	if err := crossed(first, second); err != nil {
		t.Errorf("with the new keys: %v", err)
	}
}

// handshakes are the requests that a replica has answered, one a connection here.
func handshakes(t testing.TB, s *cluster.Sallyport) float64 {
	t.Helper()
	return s.Metric(t, "nginx_ingress_controller_requests")
}

// lastSession is a cache of one session, which is never replaced once it is to be kept.
type lastSession struct {
	session *tls.ClientSessionState
	kept    bool
}

func (l *lastSession) Get(string) (*tls.ClientSessionState, bool) { return l.session, l.session != nil }

func (l *lastSession) Put(_ string, s *tls.ClientSessionState) {
	if !l.kept {
		l.session = s
	}
}

// rotateOut puts other keys in the place of all there are, as old as the second and third of them are.
func rotateOut(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	secrets := c.Client().CoreV1().Secrets(cluster.Namespace)
	secret, err := secrets.Get(t.Context(), ticketSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data = make(map[string][]byte)
	for _, age := range []time.Duration{time.Hour, 2 * time.Hour} {
		key := make([]byte, 32)
		rand.Read(key)
		secret.Data[strconv.FormatInt(time.Now().Add(-age).Unix(), 10)] = key
	}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
