//go:build controlplane

package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// The API server keeps an object under /registry/, its resource, namespace and name. Etcd's JSON gateway
// (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/) changes it while nobody is there to tell of the change.

// Stored is an object as etcd has it: bytes that mean nothing here, and can be put back.
type Stored struct {
	key, value []byte
}

// Stored reads an object of etcd, such as "ingress/default/web".
func (c *Cluster) Stored(t testing.TB, path string) Stored {
	t.Helper()
	s := Stored{key: []byte("/registry/" + path)}
	var answer struct {
		Kvs []struct{ Value []byte }
	}
	c.askEtcd(t, "range", map[string]any{"key": s.key}, &answer)
	if len(answer.Kvs) != 1 {
		t.Fatalf("etcd has %d objects %s, want one", len(answer.Kvs), s.key)
	}
	s.value = answer.Kvs[0].Value
	return s
}

// PutBack has an object be what it was.
func (c *Cluster) PutBack(t testing.TB, s Stored) {
	t.Helper()
	c.askEtcd(t, "put", map[string]any{"key": s.key, "value": s.value}, new(struct{}))
}

// Remove deletes an object.
func (c *Cluster) Remove(t testing.TB, s Stored) {
	t.Helper()
	var answer struct{ Deleted string }
	c.askEtcd(t, "deleterange", map[string]any{"key": s.key}, &answer)
	if answer.Deleted != "1" {
		t.Fatalf("etcd deleted %q objects %s, want one", answer.Deleted, s.key)
	}
}

// Compact forgets the history of all objects: a watch that begins before now is answered 410.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	var now struct{ Header struct{ Revision string } }
	c.askEtcd(t, "range", map[string]any{"key": []byte("/")}, &now)
	c.askEtcd(t, "compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, new(struct{}))
}

// askEtcd calls a method of etcd's key-value service; bytes are base64 in both directions, as encoding/json has them.
func (c *Cluster) askEtcd(t testing.TB, method string, request, answer any) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(c.etcdURL+"/v3/kv/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %s to %s %s", response.Status, method, body)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		t.Fatalf("etcd's answer to %s: %v", method, err)
	}
}
