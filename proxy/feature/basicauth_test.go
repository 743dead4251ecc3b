package feature

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/proxy/feature/htpasswd"
	"sallyport/router"
)

// A vault has Secrets, by namespace/name.
type vault map[string]map[string][]byte

func (v vault) Secret(namespace, name string) (map[string][]byte, bool) {
	data, ok := v[namespace+"/"+name]
	return data, ok
}

func (vault) ConfigMap(string, string) (map[string]string, bool) { return nil, false }
func (vault) Backend(string, string) *Backend                    { return nil }

// plainUsers is a file whose hash is quick to check: ada's password is "secret".
const plainUsers = "# staff\nada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"

// lets answers with the Authorization that the endpoint would see.
var lets = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Header.Get("Authorization"))) })

// secured is a route that annotations guard.
func secured(t testing.TB, annotations map[string]string, secrets vault) (http.Handler, []Problem) {
	t.Helper()
	a := newAnnotations(Input{Namespace: "shop", Annotations: prefixed(annotations), Objects: secrets})
	d := new(Draft)
	a.run(d, authFeatures)
	return d.Handler(Place{Match: router.Match{Path: "/"}}, lets), a.problems
}

// knock sends one request with an Authorization, "" for none.
func knock(h http.Handler, method, target, authorization string) (*http.Response, string) {
	r := httptest.NewRequest(method, target, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	e := &proxy.Exchange{Method: method, Target: target, Host: "h.test", Route: &router.Route{Match: router.Match{Path: "/"}}}
	h.ServeHTTP(w, proxy.With(r, e))
	return w.Result(), w.Body.String()
}

func basicOf(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

func TestBasicAuthentication(t *testing.T) {
	for form, data := range map[string]map[string][]byte{
		"auth-file": {"auth": []byte(plainUsers)},
		"auth-map":  {"ada": []byte("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=")},
	} {
		annotations := map[string]string{"auth-type": "basic", "auth-secret": "users", "auth-secret-type": form, "auth-realm": `off "at" \all`}
		h, problems := secured(t, annotations, vault{"shop/users": data})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, c := range []struct {
			authorization string
			want          int
		}{
			{basicOf("ada", "secret"), 200}, {strings.Replace(basicOf("ada", "secret"), "Basic", "bASIC", 1), 200},
			{"", 401}, {basicOf("ada", "wrong"), 401}, {basicOf("ada", ""), 401}, {basicOf("", ""), 401}, {basicOf("eve", "secret"), 401},
			{"Bearer x", 401}, {"Basic", 401}, {"Basic !", 401}, {basicOf("ada", "secret") + "x", 401}, {basicOf("# staff\nada", "secret"), 401},
		} {
			answer, body := knock(h, "GET", "/", c.authorization)
			if answer.StatusCode != c.want {
				t.Errorf("%s, %q: %s, want %d", form, c.authorization, answer.Status, c.want)
			}
			if got, want := answer.Header.Get("WWW-Authenticate"), `Basic realm="off \"at\" \\all"`; c.want == 401 && got != want {
				t.Errorf("%s, %q: WWW-Authenticate %q, want %q", form, c.authorization, got, want)
			}
			if c.want == 200 && body != "" {
				t.Errorf("the endpoint got Authorization %q", body)
			}
		}
	}
}

func TestDigestAuthentication(t *testing.T) {
	sum := func(text string) string { s := md5.Sum([]byte(text)); return hex.EncodeToString(s[:]) }
	ha1 := sum("ada:staff:secret")
	annotations := map[string]string{"auth-type": "digest", "auth-secret": "users", "auth-realm": "staff"}
	h, problems := secured(t, annotations, vault{"shop/users": {"auth": []byte("ada:staff:" + ha1 + "\n")}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	nonce := func(answer *http.Response) string {
		field := answer.Header.Get("WWW-Authenticate")
		found := regexp.MustCompile(`^Digest realm="staff", .*nonce="([^"]+)"`).FindStringSubmatch(field)
		if answer.StatusCode != 401 || found == nil {
			t.Fatalf("%s with WWW-Authenticate %q, want a challenge", answer.Status, field)
		}
		return found[1]
	}
	prove := func(nonce, ha1, method, target string, count int) string {
		response := sum(fmt.Sprintf("%s:%s:%08x:c:auth:%s", ha1, nonce, count, sum(method+":"+target)))
		return fmt.Sprintf(`Digest username="ada", realm="staff", nonce="%s", uri="%s", response="%s", qop=auth, nc=%08x, cnonce="c", algorithm=MD5`, nonce, target, response, count)
	}
	first, _ := knock(h, "GET", "/a?b", "")
	n := nonce(first)
	if answer, body := knock(h, "GET", "/a?b", prove(n, ha1, "GET", "/a?b", 1)); answer.StatusCode != 200 || body != "" {
		t.Errorf("%s, Authorization %q at the endpoint; want 200 and none", answer.Status, body)
	}
	again, _ := knock(h, "GET", "/a?b", prove(n, ha1, "GET", "/a?b", 1))
	if nonce(again); !strings.Contains(again.Header.Get("WWW-Authenticate"), "stale=true") {
		t.Errorf("a proof that is sent again: %q, want it stale", again.Header.Get("WWW-Authenticate"))
	}
	for claim, proof := range map[string]string{
		"of another target": prove(n, ha1, "GET", "/b", 2), "of another method": prove(n, ha1, "POST", "/a?b", 3),
		"of another password": prove(n, sum("ada:staff:guess"), "GET", "/a?b", 4), "with a nonce of somebody's": prove("x", ha1, "GET", "/a?b", 5),
		"of basic authentication": basicOf("ada", "secret"),
	} {
		if answer, _ := knock(h, "GET", "/a?b", proof); answer.StatusCode != 401 {
			t.Errorf("a proof %s: %s, want 401", claim, answer.Status)
		}
	}
}

func TestMistakesInPasswordsNeverOpenARoute(t *testing.T) {
	good := map[string]string{"auth-type": "basic", "auth-secret": "users", "auth-realm": "staff"}
	secrets := vault{
		"shop/users": {"auth": []byte(plainUsers)}, "shop/empty": {}, "shop/blank": {"auth": nil}, "shop/other": {"passwords": []byte(plainUsers)},
		"shop/plain": {"auth": []byte("ada:secret\n")}, "else/users": {"auth": []byte(plainUsers)},
	}
	for claim, change := range map[string]map[string]string{
		"type empty": {"auth-type": ""}, "type unknown": {"auth-type": "ntlm"}, "type not anchored": {"auth-type": "xbasicx"}, "type of two": {"auth-type": "basic digest"},
		"type absent": {"auth-type": "-"}, "secret absent": {"auth-secret": "-"}, "secret empty": {"auth-secret": ""}, "secret missing": {"auth-secret": "missing"},
		"secret of another namespace": {"auth-secret": "else/users"}, "secret malformed": {"auth-secret": "../users"}, "secret of nothing": {"auth-secret": "empty"},
		"file empty": {"auth-secret": "blank"}, "key missing": {"auth-secret": "other"}, "no usable line": {"auth-secret": "plain"},
		"form empty": {"auth-secret-type": ""}, "form unknown": {"auth-secret-type": "auth-files"}, "map of a file": {"auth-secret-type": "auth-map"},
		"realm empty": {"auth-realm": ""}, "realm of two lines": {"auth-realm": "a\r\nX: y"}, "digest of a basic file": {"auth-type": "digest"},
	} {
		annotations := maps.Clone(good)
		maps.Copy(annotations, change)
		maps.DeleteFunc(annotations, func(_, text string) bool { return text == "-" })
		h, problems := secured(t, annotations, secrets)
		for _, authorization := range []string{"", basicOf("ada", "secret")} {
			if answer, _ := knock(h, "GET", "/", authorization); answer.StatusCode != 503 || len(problems) == 0 {
				t.Errorf("%s, with %q: %s, problems %v; want 503 and a problem", claim, authorization, answer.Status, problems)
			}
		}
	}
	// Under both prefixes the own one counts, good or bad.
	for own, want := range map[string]int{"users": 200, "missing": 503} {
		all := prefixed(good)
		all[OwnPrefix+"auth-secret"] = own
		all[NginxPrefix+"auth-secret"] = map[string]string{"users": "missing", "missing": "users"}[own]
		a := newAnnotations(Input{Namespace: "shop", Annotations: all, Objects: secrets})
		d := new(Draft)
		a.run(d, authFeatures)
		if answer, _ := knock(d.Handler(Place{}, lets), "GET", "/", basicOf("ada", "secret")); answer.StatusCode != want {
			t.Errorf("own value %q: %s, want %d", own, answer.Status, want)
		}
	}
}

func TestABadLineKeepsOutItsUserAlone(t *testing.T) {
	h, problems := secured(t, map[string]string{"auth-type": "basic", "auth-secret": "users"}, vault{"shop/users": {"auth": []byte("eve:plain\n" + plainUsers)}})
	if len(problems) != 1 || problems[0].Denies || !strings.Contains(problems[0].Message, `line 1, user "eve"`) || strings.Contains(problems[0].Message, "plain\n") {
		t.Errorf("problems %+v, want one about line 1 that denies nothing", problems)
	}
	for user, want := range map[string]int{"ada": 200, "eve": 401} {
		if answer, _ := knock(h, "GET", "/", basicOf(user, map[string]string{"ada": "secret", "eve": "plain"}[user])); answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", user, answer.Status, want)
		}
	}
}

func TestAChangedSecretStartsAfresh(t *testing.T) {
	in := Input{Namespace: "shop", Annotations: prefixed(map[string]string{"auth-type": "basic", "auth-secret": "users"})}
	draft := func(text string, before *Draft) (*Draft, http.Handler) {
		in.Objects = vault{"shop/users": {"auth": []byte(text)}}
		d := &Draft{memory: before.Memory().next()}
		newAnnotations(in).run(d, authFeatures)
		return d, d.Handler(Place{}, lets)
	}
	first, h := draft(plainUsers, new(Draft))
	if answer, _ := knock(h, "GET", "/", basicOf("ada", "secret")); answer.StatusCode != 200 {
		t.Fatal(answer.Status)
	}
	same, _ := draft(plainUsers, first)
	for key, known := range first.memory.now {
		if same.memory.now[key] != known {
			t.Errorf("%q was read anew though the Secret is the same", key)
		}
	}
	if len(first.memory.now) != 1 {
		t.Errorf("%d things are remembered, want the file", len(first.memory.now))
	}
	_, h = draft("bob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", same)
	for user, want := range map[string]int{"ada": 401, "bob": 200} {
		if answer, _ := knock(h, "GET", "/", basicOf(user, "secret")); answer.StatusCode != want {
			t.Errorf("after the change %s: %s, want %d", user, answer.Status, want)
		}
	}
}

func TestNoTimeForAPasswordIsNoRefusal(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	answer, _ := ask(t, refusalOf(r, htpasswd.Busy, challenge("x"), challenge("x")), new(proxy.Exchange))
	if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || answer.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%s %v, want 503 and when to come again", answer.Status, answer.Header)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	e := new(proxy.Exchange)
	ask(t, refusalOf(r.WithContext(ctx), htpasswd.Busy, challenge("x"), challenge("x")), e)
	if e.Status != proxy.StatusClientClosed || e.Reason != proxy.ClientClosed {
		t.Errorf("told as %d, %q; want the client gone", e.Status, e.Reason)
	}
}
