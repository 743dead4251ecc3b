package e2e_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestCorpusOfRequests sends the rows of the front's corpus to the product, in the clear and over TLS, each at once on a
// connection of its own that the client never closes, and looks at what an endpoint gets. What is to be refused is answered
// with a status of the client's fault and the end of the connection, and none of it reaches the endpoint as a whole request.
func TestCorpusOfRequests(t *testing.T) {
	rows := corpus(t, "../proxy/testdata/http1.tsv")
	const shards = 4 // some rows are about silence, which takes its time
	var all sync.WaitGroup
	for shard := range shards {
		w := newWitness(t)
		all.Go(func() {
			for i := shard; i < len(rows); i += shards {
				for _, secure := range []bool{false, true} {
					if secure && rows[i].id == "L23" {
						continue // whose target is right there
					}
					if wrong := w.judge(rows[i], secure); wrong != "" {
						t.Errorf("%s (TLS: %v): %s; want %s: %s", rows[i].id, secure, wrong, rows[i].want, rows[i].why)
					}
				}
			}
		})
	}
	all.Wait()
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

// A witness is a product with an endpoint that counts the whole requests it gets.
type witness struct {
	product *e2e.Process
	whole   atomic.Int32
}

func newWitness(t *testing.T) *witness {
	w := new(witness)
	endpoint := e2e.Serve(t, "127.0.0.1:0", "witness", http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.whole.Add(1)
		}
	}))
	w.product = e2e.Start(t, e2e.Folder(t, map[string]string{
		"app.yaml":    ingress("app", "a.test", "/", "app") + "---\n" + strings.TrimPrefix(ingress("any", `""`, "/", "app"), "---\n"),
		"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {client-header-timeout: \"1\", client-body-timeout: \"1\", ssl-redirect: \"false\"}\n",
	}), "--map=default/app="+endpoint.Addr, "--configmap=default/config")
	return w
}

// judge says what is wrong with how the product takes a row; "" for nothing.
func (w *witness) judge(r row, secure bool) string {
	w.whole.Store(0)
	c, err := w.dial(secure)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(15 * time.Second))
	go io.WriteString(c, r.bytes)
	refusal := r.want != "FWD" && r.want != "NORM"
	var statuses []int
	in := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				return fmt.Sprintf("answered %v, then %v instead of the end of the connection", statuses, err)
			}
			break
		}
		if answer.StatusCode >= 200 {
			statuses = append(statuses, answer.StatusCode)
		}
		if !refusal && len(statuses) > 0 {
			break
		}
	}
	good := 0
	last := 0
	for _, last = range statuses {
		if last < 300 {
			good++
		}
	}
	whole := int(w.whole.Load())
	switch {
	case whole > good:
		return fmt.Sprintf("the endpoint got %d whole requests, answered %v", whole, statuses)
	case refusal && last >= 500 && last != http.StatusNotImplemented && last != http.StatusHTTPVersionNotSupported:
		return fmt.Sprintf("answered %v, which is our fault", statuses)
	case refusal && last < 400:
		return fmt.Sprintf("answered %v", statuses)
	case r.want == "FWD" && (last != 200 || whole != 1 && !strings.HasPrefix(r.bytes, "OPTIONS *")):
		return fmt.Sprintf("answered %v, and the endpoint got %d requests", statuses, whole)
	case r.want == "NORM" && last == 200 && whole != 1:
		return fmt.Sprintf("answered %v, and the endpoint got %d requests", statuses, whole)
	}
	return ""
}

func (w *witness) dial(secure bool) (net.Conn, error) {
	if !secure {
		return net.Dial("tcp", w.product.HTTP)
	}
	return tls.Dial("tcp", w.product.HTTPS, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"http/1.1"}})
}
