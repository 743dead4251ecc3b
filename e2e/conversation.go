package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// A Conversation is manifests, then requests and the answers expected: a txtar archive
// (https://pkg.go.dev/golang.org/x/tools/txtar) whose comment says what it claims and whose files are
//
//	-- world --             what exists beside the proxy, a line each:
//	service [NS/]NAME:PORT A [B ...] a Service of `run --map`, with echo endpoints A, B, ...; those named tls-... speak TLS
//	authority NAME [ISSUER]          an authority for certificates, which vouches for itself or has another do so
//	certificate NAME AUTHORITY [CN]  a certificate of an authority, or of none: "self"; its common name and host is NAME or CN
//	secret NAME KEY=WHAT:NAME ...    a Secret that is served, of namespace default: WHAT is ca, crt or key
//	secure NAME:PORT A CERTIFICATE [AUTHORITY] a Service with an echo endpoint that shows a certificate over TLS and, with an
//	                                 authority, wants one of its own; it tells the client's as the field Client-Name
//	listen ADDRESS:PORT A            an echo endpoint at an address of the namespace
//	name HOST ADDRESS ...            what the name server says of a host name; without such lines there is none
//	manifest FILE                    a file beside the script that is served too, as if it stood in manifests/
//	args FLAG ...                    further flags of the command
//	-- manifests/... --     the folder that is served
//	-- talk --              the requests and answers, in order
//	-- any other name --    a version of a manifest that the talk puts in place
//
// A talk:
//
//	# A comment.
//	> GET http://a.test/web?x=1        a request; "> GET x9 URL" sends it nine times, and all answers must fit
//	> X-Name: value                    a field of it
//	>| body                            a line of its body
//	>with NAME                         a certificate of the world that the client shows
//	< 200                              the status
//	< X-Name: value                    a field of the answer, exactly this value
//	< !X-Name                          no such field
//	< endpoint A                       the echo endpoint that answered; several: all of them did, equally often
//	< upstream X-Name: value           a field as the endpoint saw it
//	< upstream !X-Name                 a field that the endpoint did not see
//	< target /web?x=1                  the request target as the endpoint saw it
//	< host a.test                      the Host as the endpoint saw it
//	< body ~ regexp                    the body matches
//	< certificate a.test               the certificate that was shown is for this name
//	< nothing                          the connection ends without an answer
//	put manifests/a.yaml from b.yaml   the folder changes; the next request is repeated until its answer fits
//	remove manifests/a.yaml            likewise
//	wait                               likewise, for what changes by itself
type Conversation struct {
	Name  string
	files map[string][]byte
	world world
	steps []step
}

type world struct {
	services  []mapped
	listen    []mapped
	hosts     []mapped // names and their addresses
	manifests []string
	args      []string

	authorities  []mapped // and their issuers
	certificates []mapped // their authorities, and common names
	secrets      []mapped // and their fields
	secure       []mapped // Services; and endpoints, certificates, authorities
}

// mapped is a Service or an address and the names of its endpoints.
type mapped struct {
	at    string
	names []string
}

// A step is one request with its expectations, one change of the folder, or, with neither, a wait.
type step struct {
	line     int    // of the talk
	put      string // empty: nothing changes
	from     string // empty with put: the file is removed
	times    int
	method   string
	url      string
	header   http.Header
	body     string
	with     string   // the certificate that the client shows; empty: none
	expected []string // lines behind "<"
}

// Conversations yields those of a folder.
func Conversations(t *testing.T, folder string) iter.Seq[*Conversation] {
	scripts, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no conversations in %s: %v", folder, err)
	}
	return func(yield func(*Conversation) bool) {
		for _, script := range scripts {
			conversation, err := ReadConversation(script)
			if err != nil {
				t.Error(err)
				continue
			}
			if !yield(conversation) {
				return
			}
		}
	}
}

// ReadConversation reads and checks a script.
func ReadConversation(path string) (*Conversation, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	c := &Conversation{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), files: make(map[string][]byte)}
	var talk string
	for _, file := range archive.Files {
		switch file.Name {
		case "world":
			if err := c.world.parse(string(file.Data)); err != nil {
				return nil, fmt.Errorf("%s: world: %w", path, err)
			}
		case "talk":
			talk = string(file.Data)
		default:
			c.files[file.Name] = file.Data
		}
	}
	if c.steps, err = parseTalk(talk); err != nil {
		return nil, fmt.Errorf("%s: talk: %w", path, err)
	}
	if len(c.steps) == 0 {
		return nil, fmt.Errorf("%s: the talk is empty", path)
	}
	for _, file := range c.world.manifests {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
		if err != nil {
			return nil, err
		}
		c.files["manifests/"+filepath.Base(file)] = content
	}
	return c, nil
}

func (w *world) parse(text string) error {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case words[0] == "service" && len(words) > 2:
			at := words[1]
			if !strings.Contains(at, "/") {
				at = "default/" + at
			}
			w.services = append(w.services, mapped{at, words[2:]})
		case words[0] == "listen" && len(words) == 3:
			w.listen = append(w.listen, mapped{words[1], words[2:]})
		case words[0] == "name" && len(words) > 2:
			w.hosts = append(w.hosts, mapped{words[1], words[2:]})
		case words[0] == "manifest" && len(words) == 2:
			w.manifests = append(w.manifests, words[1])
		case words[0] == "authority" && len(words) <= 3 && len(words) > 1:
			w.authorities = append(w.authorities, mapped{words[1], words[2:]})
		case words[0] == "certificate" && (len(words) == 3 || len(words) == 4):
			w.certificates = append(w.certificates, mapped{words[1], words[2:]})
		case words[0] == "secret" && len(words) > 2:
			w.secrets = append(w.secrets, mapped{words[1], words[2:]})
		case words[0] == "secure" && (len(words) == 4 || len(words) == 5):
			w.secure = append(w.secure, mapped{"default/" + words[1], words[2:]})
		case words[0] == "args":
			w.args = append(w.args, words[1:]...)
		default:
			return fmt.Errorf("line %q begins with none of service, listen, name, manifest, authority, certificate, secret, secure and args, or lacks what follows", strings.TrimSpace(line))
		}
	}
	return nil
}

func parseTalk(text string) ([]step, error) {
	var steps []step
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		var request *step
		if len(steps) > 0 && steps[len(steps)-1].method != "" {
			request = &steps[len(steps)-1]
		}
		switch {
		case line == "" || line[0] == '#':
		case mark == ">" && isRequestLine(rest):
			s, err := parseRequest(rest)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			s.line = number
			steps = append(steps, s)
		case mark == ">" && request != nil && strings.Contains(rest, ":"):
			name, value, _ := strings.Cut(rest, ":")
			request.header.Add(name, strings.TrimSpace(value))
		case mark == ">|" && request != nil:
			request.body += rest + "\n"
		case mark == ">with" && request != nil:
			request.with = rest
		case mark == "<" && request != nil:
			request.expected = append(request.expected, rest)
		case mark == "put" && len(strings.Fields(rest)) == 3:
			words := strings.Fields(rest)
			steps = append(steps, step{line: number, put: words[0], from: words[2]})
		case mark == "remove":
			steps = append(steps, step{line: number, put: rest})
		case line == "wait":
			steps = append(steps, step{line: number})
		default:
			return nil, fmt.Errorf("line %d: %q is no line of a talk", number, line)
		}
	}
	return steps, nil
}

func isRequestLine(s string) bool {
	words := strings.Fields(s)
	return len(words) >= 2 && !strings.Contains(words[0], ":") && strings.Contains(words[len(words)-1], "://")
}

func parseRequest(line string) (step, error) {
	words := strings.Fields(line)
	s := step{times: 1, method: words[0], url: words[len(words)-1], header: make(http.Header)}
	if len(words) == 3 {
		times, err := strconv.Atoi(strings.TrimPrefix(words[1], "x"))
		if err != nil || times < 1 {
			return s, fmt.Errorf("%q is not a count such as x9", words[1])
		}
		s.times = times
	}
	return s, nil
}

// Run holds the conversation with a fresh process of the built binary.
func (c *Conversation) Run(t *testing.T) { c.hold(t, Start) }

// RunInside holds it with a function that does what the binary would, in this process.
func (c *Conversation) RunInside(t *testing.T, run Command) {
	c.hold(t, func(t testing.TB, folder string, args ...string) *Process {
		return StartInside(t, run, folder, args...)
	})
}

func (c *Conversation) hold(t *testing.T, start func(t testing.TB, folder string, args ...string) *Process) {
	folder := t.TempDir()
	for name, content := range c.files {
		if rest, ok := strings.CutPrefix(name, "manifests/"); ok {
			WriteFile(t, filepath.Join(folder, rest), string(content))
		}
	}
	args := slices.Clone(c.world.args)
	for _, at := range c.world.listen {
		Echo(t, at.at, at.names[0])
	}
	for _, service := range c.world.services {
		for _, name := range service.names {
			args = append(args, "--map="+service.at+"="+Echo(t, "127.0.0.1:0", name).Addr)
		}
	}
	if len(c.world.hosts) > 0 {
		server := ServeNames(t, "127.0.0.1:0")
		for _, host := range c.world.hosts {
			server.Set(host.at, Records{Addresses: host.names})
		}
		args = append(args, "--resolv-conf="+server.Settings(t))
	}
	known := c.world.issue(t)
	for i, secret := range c.world.secrets {
		WriteFile(t, filepath.Join(folder, fmt.Sprintf("secret-%d.yaml", i)), known.secret(t, secret.at, secret.names))
	}
	for _, service := range c.world.secure {
		args = append(args, "--map="+service.at+"="+known.serve(t, service.names).Addr)
	}
	process := start(t, folder, args...)
	settled := true
	for _, s := range c.steps {
		if s.method == "" {
			if s.put != "" {
				c.change(t, folder, s)
			}
			settled = false
			continue
		}
		ask := func() error { return s.ask(process, known.client(t, process, s.with)) }
		if settled {
			if err := ask(); err != nil {
				t.Errorf("%s, line %d of the talk: %s %s: %v", c.Name, s.line, s.method, s.url, err)
			}
			continue
		}
		Eventually(t, fmt.Sprintf("%s, line %d of the talk: %s %s answers as expected", c.Name, s.line, s.method, s.url), ask)
		settled = true
	}
}

func (c *Conversation) change(t *testing.T, folder string, s step) {
	path := filepath.Join(folder, strings.TrimPrefix(s.put, "manifests/"))
	if s.from == "" {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	content, ok := c.files[s.from]
	if !ok {
		t.Fatalf("%s, line %d of the talk: the archive has no file %s", c.Name, s.line, s.from)
	}
	WriteFile(t, path, string(content))
}

// An answer is what came back for one request.
type answer struct {
	*http.Response
	body string
	echo EchoBody // zero when the answer is not an echo's
}

// ask sends the request of a step as often as it says and checks the answers.
func (s *step) ask(p *Process, client *http.Client) error {
	endpoints := make(map[string]int)
	for range s.times {
		request, err := http.NewRequest(s.method, s.url, strings.NewReader(s.body))
		if err != nil {
			return err
		}
		request.Header = s.header.Clone()
		response, err := client.Do(request)
		if slices.Contains(s.expected, "nothing") {
			if err == nil {
				response.Body.Close()
				return fmt.Errorf("the answer is %s, want none", response.Status)
			}
			continue
		}
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		a := answer{Response: response, body: string(body)}
		if json.Unmarshal(body, &a.echo) == nil && a.echo.Endpoint != "" {
			endpoints[a.echo.Endpoint]++
		}
		for _, want := range s.expected {
			if err := a.check(want); err != nil {
				return fmt.Errorf("%w; the answer was %s %v\n%s", err, response.Status, response.Header, body)
			}
		}
	}
	return s.checkSpread(endpoints)
}

// checkSpread holds "endpoint A B C" against who answered.
func (s *step) checkSpread(got map[string]int) error {
	for _, want := range s.expected {
		names, ok := strings.CutPrefix(want, "endpoint ")
		if !ok {
			continue
		}
		expected := strings.Fields(names)
		each := s.times / len(expected)
		for _, name := range expected {
			if got[name] != each || len(got) != len(expected) {
				return fmt.Errorf("want %d answers of each of %v; the endpoints that answered, with counts: %v (%v)", each, expected, got, slices.Sorted(maps.Keys(got)))
			}
		}
	}
	return nil
}

var statusLine = regexp.MustCompile(`^\d{3}$`)

// check holds one line behind "<" against an answer.
func (a *answer) check(want string) error {
	verb, rest, _ := strings.Cut(want, " ")
	switch {
	case statusLine.MatchString(want):
		if strconv.Itoa(a.StatusCode) != want {
			return fmt.Errorf("status %d, want %s", a.StatusCode, want)
		}
	case verb == "endpoint": // checkSpread
	case verb == "target":
		return equal("target at the endpoint", a.echo.Target, rest)
	case verb == "host":
		return equal("Host at the endpoint", a.echo.Host, rest)
	case verb == "upstream":
		return checkField("at the endpoint", a.echo.Header, rest)
	case verb == "certificate":
		return checkCertificate(a.TLS, rest)
	case verb == "body":
		pattern, err := regexp.Compile(strings.TrimPrefix(rest, "~ "))
		if err != nil {
			return err
		}
		if !pattern.MatchString(a.body) {
			return fmt.Errorf("the body does not match %s", pattern)
		}
	default:
		return checkField("of the answer", a.Header, want)
	}
	return nil
}

func checkField(where string, header http.Header, want string) error {
	if name, absent := strings.CutPrefix(want, "!"); absent {
		if values := header.Values(name); len(values) > 0 {
			return fmt.Errorf("field %s %s is %q, want none", name, where, values)
		}
		return nil
	}
	name, value, ok := strings.Cut(want, ":")
	if !ok {
		return fmt.Errorf("%q is no expectation", want)
	}
	return equal("field "+name+" "+where, strings.Join(header.Values(name), ", "), strings.TrimSpace(value))
}

func checkCertificate(state *tls.ConnectionState, name string) error {
	if state == nil {
		return fmt.Errorf("no TLS, want a certificate for %s", name)
	}
	return state.PeerCertificates[0].VerifyHostname(name)
}

func equal(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %q, want %q", what, got, want)
	}
	return nil
}
