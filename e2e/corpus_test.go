package e2e_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestCorpusOfRequests sends the rows of the front's corpus to the product, in the clear and over TLS, each at once on a
// connection of its own that the client never closes, and looks at what an endpoint gets. What is to be refused is answered
// with a status of the client's fault and the end of the connection, and none of it reaches the endpoint as a whole request.
// What is not is the same there, or what [normal] says.
func TestCorpusOfRequests(t *testing.T) {
	rows := corpus(t, "../proxy/testdata/http1.tsv")
	const shards = 4 // some rows are about silence, which takes its time
	var all sync.WaitGroup
	verdicts := make(chan string, 2*len(rows))
	for shard := range shards {
		w := newWitness(t)
		all.Go(func() {
			for i := shard; i < len(rows); i += shards {
				for _, secure := range []bool{false, true} {
					r := rows[i]
					if secure && r.id == "L23" { // a scheme that is not the listener's
						r.bytes = strings.Replace(r.bytes, "https:", "http:", 1)
					}
					verdict, wrong := w.judge(r, secure)
					if wrong != "" {
						t.Errorf("%s (TLS: %v): %s; want %s: %s", r.id, secure, wrong, r.want, r.why)
					}
					verdicts <- verdict
				}
			}
		})
	}
	all.Wait()
	close(verdicts)
	count := make(map[string]int)
	for verdict := range verdicts {
		count[verdict]++
	}
	t.Logf("%d rows, in the clear and over TLS: %v", len(rows), count)
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestCorpusOfStreams does the same with frames of HTTP/2.
func TestCorpusOfStreams(t *testing.T) { e2e.HoldStreams(t, "../proxy/testdata/http2.tsv", e2e.Start) }

// A row is some bytes and what is to become of them: FWD, NORM or a status.
type row struct{ id, want, bytes, why string }

func corpus(t *testing.T, file string) (rows []row) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	repeat := regexp.MustCompile(`@\{([^{}@]*)[*#](\d+)\}`)
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(columns) < 4 {
			continue
		}
		raw := columns[2]
		for repeat.MatchString(raw) {
			raw = repeat.ReplaceAllStringFunc(raw, func(s string) string {
				parts := repeat.FindStringSubmatch(s)
				n, _ := strconv.Atoi(parts[2])
				return strings.Repeat(parts[1], n)
			})
		}
		bytes, err := strconv.Unquote(`"` + strings.ReplaceAll(raw, `"`, `\"`) + `"`)
		if err != nil {
			t.Fatalf("%s: %v", columns[0], err)
		}
		rows = append(rows, row{columns[0], columns[1], bytes, columns[3]})
	}
	return rows
}

// normal is what the endpoint gets of the rows that have a normal form, if it gets anything: as [gist] says it.
var normal = map[string]string{
	"T25": `POST / for a.test, {}, "hello"`,
	"T26": `POST / for a.test, {}, ""`,
	"T27": `POST / for a.test, {}, "hello"`,
	"T28": `GET / for a.test, {Te: trailers}, ""`,
	"K01": `POST / for a.test, {}, "hello"`,
	"K02": `POST / for a.test, {}, "hello"`,
	"K15": `POST / for a.test, {and a trailer: map[X-T:[1]]}, "hello"`,
	"L04": `GET / for a.test, {}, ""`,
	"L07": `GET / for a.test, {}, ""`,
	"L33": `GET // for a.test, {}, ""`,
	"L34": `GET /admin for a.test, {}, ""`,
	"L35": `GET /admin for a.test, {}, ""`,
	"P01": `GET / for a.test, {X-Original-Forwarded-For: 9.9.9.9, X-Original-Forwarded-Host: evil}, ""`,
	"P02": `GET / for a.test, {}, ""`,
	"P07": `GET / for a.test, {X-End: 1}, ""`,
	"P08": `GET / for a.test, {}, ""`,
	"U03": `GET /ws for a.test, {}, ""`,
	"U07": `GET /ws for a.test, {}, ""`,
}

// gist says what a request is, without the fields that are of one connection only and those that are the proxy's own.
func gist(r *http.Request, body []byte) string {
	header := r.Header.Clone()
	upgrade := header.Get("Connection") == "Upgrade" && header.Get("Upgrade") == "websocket"
	for _, name := range []string{"Connection", "Content-Length", "Expect"} {
		header.Del(name)
	}
	for name := range own("", "", "") {
		header.Del(name)
	}
	header.Del("X-Request-Id")
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fields = append(fields, name+": "+strings.Join(header[name], " and "))
	}
	if upgrade {
		fields = append(fields, "and an upgrade")
	}
	if len(r.Trailer) > 0 {
		fields = append(fields, fmt.Sprint("and a trailer: ", r.Trailer))
	}
	return fmt.Sprintf("%s %s for %s, {%s}, %q", r.Method, r.RequestURI, r.Host, strings.Join(fields, ", "), body)
}

// own are the fields that say where a request comes from: what they hold, whatever a client says.
func own(host, scheme, port string) map[string]string {
	return map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Host": host, "X-Forwarded-Port": port,
		"X-Forwarded-Proto": scheme, "X-Forwarded-Scheme": scheme, "X-Scheme": scheme,
	}
}

// A witness is a product with an endpoint that keeps the whole requests it gets.
type witness struct {
	product *e2e.Process

	mu    sync.Mutex
	whole []whole // guarded by mu
}

type whole struct {
	gist, host string
	header     http.Header
}

func newWitness(t *testing.T) *witness {
	w := new(witness)
	endpoint := e2e.Serve(t, "127.0.0.1:0", "witness", http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			w.mu.Lock()
			w.whole = append(w.whole, whole{gist(r, body), r.Host, r.Header})
			w.mu.Unlock()
		}
	}))
	w.product = e2e.Start(t, e2e.Folder(t, map[string]string{
		"app.yaml":    ingress("app", "a.test", "/", "app") + "---\n" + strings.TrimPrefix(ingress("any", `""`, "/", "app"), "---\n"),
		"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {client-header-timeout: \"1\", client-body-timeout: \"1\", ssl-redirect: \"false\"}\n",
	}), "--map=default/app="+endpoint.Addr, "--configmap=default/config")
	return w
}

// judge says how the product takes a row, and what is wrong with that; "" for nothing.
func (w *witness) judge(r row, secure bool) (verdict, wrong string) {
	w.mu.Lock()
	w.whole = nil
	w.mu.Unlock()
	refusal := r.want != "FWD" && r.want != "NORM"
	statuses, err := w.converse(r.bytes, secure, refusal)
	if err != nil {
		return "no verdict", err.Error()
	}
	last, good := 0, 0
	for _, last = range statuses {
		if last < 300 {
			good++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.whole) > good:
		return "passed on and refused", fmt.Sprintf("the endpoint got %d whole requests, answered %v", len(w.whole), statuses)
	case refusal && last >= 500 && last != http.StatusNotImplemented && last != http.StatusHTTPVersionNotSupported:
		return "refused as our fault", fmt.Sprintf("answered %v, which is our fault", statuses)
	case refusal && last < 400:
		return "accepted", fmt.Sprintf("answered %v", statuses)
	case refusal && strconv.Itoa(last) == r.want:
		return "refused with the status of the row", ""
	case refusal:
		return "refused with another status", ""
	case r.want == "NORM" && last >= 400 && last < 500 && len(w.whole) == 0:
		return "refused although there is a normal form", ""
	case r.want == "FWD" && last == 200 && strings.HasPrefix(r.bytes, "OPTIONS *"):
		return "answered by the proxy", ""
	case last != 200 || len(w.whole) != 1:
		return "not passed on", fmt.Sprintf("answered %v, and the endpoint got %d requests", statuses, len(w.whole))
	}
	want := normal[r.id]
	if r.want == "FWD" {
		sent, err := http.ReadRequest(bufio.NewReader(strings.NewReader(r.bytes)))
		if err != nil {
			return "no verdict", err.Error()
		}
		body, err := io.ReadAll(sent.Body)
		if err != nil {
			return "no verdict", err.Error()
		}
		want = gist(sent, body)
	}
	got := w.whole[0]
	if got.gist != want {
		return "passed on wrong", fmt.Sprintf("the endpoint got %s, want %s", got.gist, want)
	}
	scheme, port := "http", w.product.HTTP[strings.LastIndexByte(w.product.HTTP, ':')+1:]
	if secure {
		scheme, port = "https", "443"
	}
	for name, want := range own(got.host, scheme, port) {
		if values := got.header[name]; len(values) != 1 || values[0] != want {
			return "passed on wrong", fmt.Sprintf("the endpoint was told %s %q, want %q", name, values, want)
		}
	}
	if r.want == "FWD" {
		return "passed on as it is", ""
	}
	return "passed on in the normal form", ""
}

// converse sends what a client says, and returns the statuses of the answers: up to the end of the connection, where that
// is to come, or up to the first.
func (w *witness) converse(bytes string, secure, toTheEnd bool) (statuses []int, err error) {
	c, err := w.dial(secure)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(15 * time.Second))
	go io.WriteString(c, bytes)
	in := bufio.NewReader(c)
	for toTheEnd || len(statuses) == 0 {
		answer, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("answered %v, then %w instead of the end of the connection", statuses, err)
		}
		if answer.StatusCode >= 200 {
			statuses = append(statuses, answer.StatusCode)
		}
	}
	return statuses, nil
}

func (w *witness) dial(secure bool) (net.Conn, error) {
	if !secure {
		return net.Dial("tcp", w.product.HTTP)
	}
	return tls.Dial("tcp", w.product.HTTPS, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"http/1.1"}})
}
