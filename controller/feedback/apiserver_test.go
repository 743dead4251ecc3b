package feedback

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An apiServer speaks as much of the Kubernetes API as a Writer asks for, over real sockets: objects are made, read, replaced
// and patched, each version with a number, and a write that names another version than the last is a conflict.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	objects map[string]map[string]any
	version int
	writes  []string // method and path, of those that were taken
	// refuse answers a request with a status instead; 0 lets it pass. It may wait.
	refuse func(*http.Request) int
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{objects: make(map[string]map[string]any)}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// writer is a Writer to this server, as the replica of that name.
func (a *apiServer) writer(t *testing.T, o Options) *Writer {
	t.Helper()
	o.Config, o.Namespace = &rest.Config{Host: a.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "sallyport"
	if o.Identity == "" {
		o.Identity = "replica-1"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (a *apiServer) refuseWith(refuse func(*http.Request) int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = refuse
}

// put stores an object, or another version of it, and returns its version.
func (a *apiServer) put(path string, object any) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, _ := json.Marshal(object)
	var fields map[string]any
	json.Unmarshal(text, &fields)
	return a.store(path, fields)
}

func (a *apiServer) store(path string, fields map[string]any) string {
	a.version++
	version := strconv.Itoa(a.version)
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = make(map[string]any)
	}
	metadata["resourceVersion"] = version
	fields["metadata"] = metadata
	a.objects[path] = fields
	return version
}

// get is an object as it is stored, nil when there is none.
func (a *apiServer) get(path string) map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.objects[path])
}

// written are the paths under a prefix that were written to so far, in order.
func (a *apiServer) written(prefix string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.writes), func(write string) bool { return !strings.HasPrefix(write, prefix) })
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	refuse := a.refuse
	a.mu.Unlock()
	if refuse != nil {
		if code := refuse(r); code != 0 {
			answerStatus(w, code)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent map[string]any
	if len(body) > 0 && json.Unmarshal(body, &sent) != nil {
		answerStatus(w, http.StatusBadRequest)
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodPost {
		path += "/" + sent["metadata"].(map[string]any)["name"].(string)
	}
	object, known := a.objects[path]
	switch {
	case r.Method == http.MethodPost && known:
		answerReason(w, http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && !known:
		answerStatus(w, http.StatusNotFound)
		return
	case r.Method == http.MethodPut || r.Method == http.MethodPatch:
		metadata, _ := sent["metadata"].(map[string]any)
		wanted, _ := metadata["resourceVersion"].(string)
		if wanted != "" && wanted != object["metadata"].(map[string]any)["resourceVersion"] {
			answerStatus(w, http.StatusConflict)
			return
		}
	}
	if r.Method != http.MethodGet {
		if r.Method == http.MethodPatch {
			merged := maps.Clone(object)
			merge(merged, sent)
			sent = merged
		}
		a.store(path, sent)
		a.writes = append(a.writes, r.Method+" "+r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(a.objects[path])
}

// merge is a JSON merge patch, RFC 7396.
func merge(object, patch map[string]any) {
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(object, key)
		case map[string]any:
			inner, _ := object[key].(map[string]any)
			inner = maps.Clone(inner)
			if inner == nil {
				inner = make(map[string]any)
			}
			merge(inner, v)
			object[key] = inner
		default:
			object[key] = value
		}
	}
}

func answerStatus(w http.ResponseWriter, code int) {
	reason := map[int]string{
		http.StatusConflict: "Conflict", http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden",
		http.StatusUnprocessableEntity: "Invalid", http.StatusBadRequest: "BadRequest", http.StatusInternalServerError: "InternalError",
	}[code]
	answerReason(w, code, reason)
}

func answerReason(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "the test says " + reason})
}

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
