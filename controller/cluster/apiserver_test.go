package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An apiServer speaks as much of the Kubernetes API as the source asks for, list and watch of six resources, over real
// sockets. It keeps every version there ever was, until it is told to forget.
type apiServer struct {
	*httptest.Server
	mu        sync.Mutex // guards all below
	history   []change
	losing    bool          // changes are being lost
	forgotten int           // versions before this one can no longer be watched from
	more      chan struct{} // closed when the history has grown
	forbidden string        // a resource that may not be read, or NAMESPACE/RESOURCE
	away      bool
	asked     []string // requests
	gone      int      // how often a watch could not be resumed

	knocks chan struct{} // one for a request that came while the server was away
}

// A change is one version of one object; its version is its place in the history, from 1.
type change struct {
	kind      string // ADDED, MODIFIED, DELETED
	resource  string
	namespace string
	name      string
	fields    fields.Set // that can be selected by
	object    json.RawMessage
}

// in says whether a request for a resource, of one namespace or all, gets the object.
func (c change) in(resource, namespace string, selector fields.Selector) bool {
	return c.resource == resource && (namespace == "" || namespace == c.namespace) && selector.Matches(c.fields)
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{more: make(chan struct{}), knocks: make(chan struct{}, 1)}
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.CloseClientConnections() // watches never end by themselves
		a.Close()
	})
	return a
}

// kubeconfig writes the file that names this server.
func (a *apiServer) kubeconfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "%s"}}], users: [{name: u, user: {token: secret}}]}`, a.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// put stores a version of objects, and remove deletes them.
func (a *apiServer) put(objects ...client.Object) {
	for _, o := range objects {
		a.record("", o)
	}
}
func (a *apiServer) remove(objects ...client.Object) {
	for _, o := range objects {
		a.record("DELETED", o)
	}
}

func (a *apiServer) record(kind string, o client.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := change{kind: kind, resource: resourceOf(o), namespace: o.GetNamespace(), name: o.GetName()}
	c.fields = fields.Set{"metadata.name": c.name}
	if secret, ok := o.(*corev1.Secret); ok {
		c.fields["type"] = string(secret.Type)
	}
	if kind == "" {
		c.kind = "ADDED"
		if _, there := a.state(c.resource)[c.namespace+"/"+c.name]; there {
			c.kind = "MODIFIED"
		}
	}
	copied := o.DeepCopyObject().(client.Object)
	copied.SetResourceVersion(strconv.Itoa(len(a.history) + 1))
	c.object, _ = json.Marshal(copied)
	a.history = append(a.history, c)
	close(a.more)
	a.more = make(chan struct{})
}

// resourceOf also fills in the kind that JSON must have.
func resourceOf(o client.Object) string {
	switch o := o.(type) {
	case *networkingv1.Ingress:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}
		return "ingresses"
	case *networkingv1.IngressClass:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass"}
		return "ingressclasses"
	case *corev1.Service:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		return "services"
	case *corev1.Secret:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		return "secrets"
	case *corev1.Namespace:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
		return "namespaces"
	case *discoveryv1.EndpointSlice:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
		return "endpointslices"
	}
	panic(fmt.Sprintf("no resource for %T", o))
}

// state is the objects of a resource as they are now. The mutex is held.
func (a *apiServer) state(resource string) map[string]change {
	state := make(map[string]change)
	for _, c := range a.history {
		switch {
		case c.resource != resource:
		case c.kind == "DELETED":
			delete(state, c.namespace+"/"+c.name)
		default:
			state[c.namespace+"/"+c.name] = c
		}
	}
	return state
}

// lose makes changes that no watch tells of: all end, as they do every few minutes, and whoever wants to resume one is
// answered 410 Gone.
func (a *apiServer) lose(changes func()) {
	a.mu.Lock()
	a.losing = true
	a.mu.Unlock()
	changes()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.losing, a.forgotten = false, len(a.history)
}

// leave breaks every connection and refuses new ones until comeBack.
func (a *apiServer) leave() {
	a.mu.Lock()
	a.away = true
	a.mu.Unlock()
	a.CloseClientConnections()
}

// forbid refuses to let a resource be read, all of it or that of one namespace; "" allows everything.
func (a *apiServer) forbid(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forbidden = what
}

func (a *apiServer) comeBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = false
}

// timesGone is how often a watch could not be resumed.
func (a *apiServer) timesGone() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone
}

func (a *apiServer) requests() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.asked, "\n")
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.String())
	away, forbidden := a.away, a.forbidden
	a.mu.Unlock()
	if away {
		select {
		case a.knocks <- struct{}{}:
		default:
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	// /api/v1/secrets, /apis/GROUP/v1/namespaces/NAMESPACE/ingresses
	_, path, _ := strings.Cut(r.URL.Path, "/v1/")
	namespace, resource := "", path
	if rest, ok := strings.CutPrefix(path, "namespaces/"); ok {
		namespace, resource, _ = strings.Cut(rest, "/")
	}
	if forbidden != "" && (forbidden == resource || forbidden == namespace+"/"+resource) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("User \"u\" cannot list resource %q", resource))
		return
	}
	if name, ok := strings.CutPrefix(resource, "nodes/"); ok {
		json.NewEncoder(w).Encode(corev1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "zone-of-" + name}},
		})
		return
	}
	a.objects(w, r, resource, namespace)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// objects answers list and watch.
func (a *apiServer) objects(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	query := r.URL.Query()
	selector, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	a.mu.Lock()
	now, gone := len(a.history), a.losing || from < a.forgotten
	items := []json.RawMessage{}
	for _, c := range a.state(resource) {
		if c.in(resource, namespace, selector) {
			items = append(items, c.object)
		}
	}
	a.mu.Unlock()
	if query.Get("watch") == "" {
		json.NewEncoder(w).Encode(map[string]any{
			"kind": "List", "apiVersion": "v1", "metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(now)}, "items": items,
		})
		return
	}
	if query.Get("sendInitialEvents") == "true" {
		for _, item := range items {
			send(w, "ADDED", item)
		}
		send(w, "BOOKMARK", bookmark(resource, now))
		from = now
	} else if gone {
		a.mu.Lock()
		a.gone++
		a.mu.Unlock()
		refuse(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	a.watch(w, r, from, func(c change) bool { return c.in(resource, namespace, selector) })
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, from int, wanted func(change) bool) {
	w.(http.Flusher).Flush()
	for {
		a.mu.Lock()
		if a.losing || from < a.forgotten {
			a.mu.Unlock()
			return
		}
		news, more := a.history[from:], a.more
		from = len(a.history)
		a.mu.Unlock()
		for _, c := range news {
			if wanted(c) {
				send(w, c.kind, c.object)
			}
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

func send(w http.ResponseWriter, kind string, object json.RawMessage) {
	json.NewEncoder(w).Encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}})
	w.(http.Flusher).Flush()
}

// bookmark says that the initial events of a watch are over.
func bookmark(resource string, version int) json.RawMessage {
	types := map[string]metav1.TypeMeta{
		"services":       {Kind: "Service", APIVersion: "v1"},
		"secrets":        {Kind: "Secret", APIVersion: "v1"},
		"namespaces":     {Kind: "Namespace", APIVersion: "v1"},
		"ingresses":      {Kind: "Ingress", APIVersion: "networking.k8s.io/v1"},
		"ingressclasses": {Kind: "IngressClass", APIVersion: "networking.k8s.io/v1"},
		"endpointslices": {Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
	}
	text, _ := json.Marshal(metav1.PartialObjectMetadata{
		TypeMeta:   types[resource],
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}},
	})
	return text
}
