//go:build controlplane

package cluster_test

import (
	"slices"
	"testing"

	"github.com/coder/websocket"

	"sallyport/e2e/cluster"
)

// TestDeploymentIsServedWithTheDeployedPermissions goes all the way: Deployment, ReplicaSet, Pods, EndpointSlice, by the
// real controllers, and an Ingress to them, read with the token and the ClusterRole of deploy/.
// A WebSocket goes the same way.
func TestDeploymentIsServedWithTheDeployedPermissions(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	s.Expect(t, "http://web.test/some/path?x=1", cluster.Served("web"))

	answer, err := s.Get("http://web.test/some/path?x=1")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Echo.Target != "/some/path?x=1" || answer.Echo.Host != "web.test" || answer.Echo.Namespace != "default" {
		t.Errorf("the Pod saw %+v, want the target /some/path?x=1, the host web.test and the namespace default", answer.Echo)
	}
	checkWebSocket(t, c, s)
}

// checkWebSocket opens a WebSocket to a Pod, which sends back what it is sent, and keeps it open while the Pod
// of another Ingress comes.
func checkWebSocket(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	t.Helper()
	ctx := t.Context()
	client := s.Client(nil)
	client.Timeout = 0 // it would end the WebSocket too
	socket, answer, err := websocket.Dial(ctx, "ws://web.test/socket", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if got, pods := answer.Header.Get("X-Endpoint"), c.Pods(t, "web"); !slices.Contains(pods, got) {
		t.Errorf("the WebSocket was accepted by %q, want a Pod of %q", got, pods)
	}
	echo := func(message string) {
		t.Helper()
		if err := socket.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := socket.Read(ctx); err != nil || string(got) != message {
			t.Fatalf("the Pod sent %q, %v, want %q", got, err, message)
		}
	}
	echo("before")
	c.Apply(t, app("later", 1)+ingress("later", ours, "rules:", rule("later.test", "/", "Prefix", "later")))
	s.Expect(t, "http://later.test/", cluster.Served("later"))
	echo("after")
}
