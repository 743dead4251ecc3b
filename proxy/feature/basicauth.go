package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/htpasswd"
)

// basicAuth lets requests pass whose user and password a Secret knows, by Basic or Digest authentication (reference B5).
func basicAuth(a *Annotations, d *Draft) {
	a.Section("Basic and digest authentication", ReachPaths, "Hashes of basic authentication are bcrypt, MD5 crypt (apr1), SHA crypt, {SHA} and {SSHA}; plain text and DES crypt are refused. "+
		"Lines of digest authentication are user:realm:hash as htdigest writes them, with MD5, or SHA-256 in 64 digits, and the realm must be that of auth-realm. "+
		"A line that cannot be used is told and keeps its user out; the others work. The routes answer 503 while the Secret is missing or has no user, and follow its changes at once. "+
		"They also answer 503, with Retry-After, when more passwords are to be checked than there is time for: see limit-rps. "+
		"The Authorization of the client does not reach the endpoint. "+
		"Unlike in ingress-nginx the realm off is a realm like any other, auth-type must be one of its two words and nothing beside it, and auth-secret without auth-type makes the routes answer 503.")
	kind := a.Word("auth-type", "", []string{"basic", "digest"}, "how users prove that they know their password")
	secret := a.Secret("auth-secret", "the Secret with the users and the hashes of their passwords")
	form := a.Word("auth-secret-type", authFile, []string{authFile, authMap}, "whether the Secret has a file, under the key auth, or each key is a user and its value a hash")
	realm := a.String("auth-realm", "", "what the password is for, in words that the client shows")
	exempt := a.noAuthLocations()
	switch {
	case kind == "":
		if a.Has("auth-secret") {
			a.Refuse("auth-secret", "expected auth-type beside it: without that nobody is asked for a password")
		}
		return
	case !a.Has("auth-secret"):
		a.Refuse("auth-type", "expected auth-secret beside it")
		return
	case secret == nil:
		d.Deny()
		return
	}
	var check Check
	if kind == "basic" {
		check = a.basicCheck(d, secret, form, realm)
	} else {
		check = a.digestCheck(d, secret, form, realm)
	}
	if check == nil {
		d.Deny()
		return
	}
	d.GuardAt(func(at Place) Check {
		if exempts(exempt, at.Match.Path) {
			return nil
		}
		return check
	})
	d.UseAt(func(at Place) Middleware {
		if exempts(exempt, at.Match.Path) {
			return nil
		}
		return dropAuthorization
	})
}

// Forms of a Secret with users.
const (
	authFile = "auth-file"
	authMap  = "auth-map"
)

// dropAuthorization keeps passwords from endpoints. It stands behind all checks. What an external authentication has put
// in the place of the client's stays.
func dropAuthorization(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reply := replyOf(r); reply == nil || !reply.authorizes {
			delete(r.Header, "Authorization")
		}
		next.ServeHTTP(w, r)
	})
}

// A passwordFile is read once, and remembers who has logged in: it lives as long as the Secret stays as it is.
type passwordFile[F any] struct {
	file   F
	errors []error // of the lines that it does without
}

// passwords reads the users of a Secret. Where there is no file, or none of its lines is good, it says so, and ok is false.
func passwords[F any](a *Annotations, d *Draft, secret map[string][]byte, form string, kind string, parse func([]byte) (F, []error), fromMap func(map[string][]byte) (F, []error)) (file F, ok bool) {
	text, there := secret["auth"]
	if form == authFile && !there {
		a.Refuse("auth-secret", "expected a Secret with the key auth, which has the users; where each key is a user, auth-secret-type is "+authMap)
		return file, false
	}
	p := Recall(d, "auth-secret\x00"+kind+form+digestOf(secret), func() *passwordFile[F] {
		p := new(passwordFile[F])
		if form == authFile {
			p.file, p.errors = parse(text)
		} else {
			p.file, p.errors = fromMap(secret)
		}
		return p
	})
	for _, err := range p.errors {
		a.remark("auth-secret", "in the Secret "+err.Error()+"; that user is not let in")
	}
	return p.file, true
}

// digestOf stands for the data of a Secret.
func digestOf(data map[string][]byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		mix(h, key, string(data[key]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// remark tells of something wrong with what an annotation names that opens nothing and so denies nothing.
func (a *Annotations) remark(name, message string) {
	if key, value, ok := a.find(name); ok {
		a.problems = append(a.problems, Problem{Annotation: key, Value: value, Reason: BadValue, Message: shown(value) + ": " + message})
	}
}

// basicCheck asks for Basic authentication (RFC 7617). Nil: there is nobody to let in.
func (a *Annotations) basicCheck(d *Draft, secret map[string][]byte, form, realm string) Check {
	file, ok := passwords(a, d, secret, form, "basic", htpasswd.Parse, htpasswd.FromMap)
	if !ok {
		return nil
	}
	if file.Len() == 0 {
		a.Refuse("auth-secret", "expected a Secret with at least one user")
		return nil
	}
	refused := challenge("Basic realm=" + quoted(realm))
	return func(r *http.Request) http.Handler {
		user, password, ok := r.BasicAuth()
		if !ok {
			return refused
		}
		return refusalOf(r, file.Check(r.Context(), user, password), refused, refused)
	}
}

// digestCheck asks for Digest authentication (RFC 7616). Nil: there is nobody to let in.
func (a *Annotations) digestCheck(d *Draft, secret map[string][]byte, form, realm string) Check {
	file, ok := passwords(a, d, secret, form, "digest", htpasswd.ParseDigest, htpasswd.DigestFromMap)
	if !ok {
		return nil
	}
	if realms := file.Realms(); !slices.Contains(realms, realm) {
		a.Refuse("auth-secret", fmt.Sprintf("expected a Secret with a user of the realm %q, which auth-realm says; its realms are %q", realm, realms))
		return nil
	}
	return func(r *http.Request) http.Handler {
		refused, stale := digestChallenge{file, realm, false}, digestChallenge{file, realm, true}
		authorization := r.Header.Get("Authorization")
		if authorization == "" {
			return refused
		}
		_, verdict := file.Check(r.Method, r.RequestURI, authorization, realm)
		return refusalOf(r, verdict, refused, stale)
	}
}

// refusalOf is what a verdict comes to; nil: the request passes. That nobody had the time to check a password is no
// refusal of it, yet its status stays whatever pages there are for 503: it lets nobody in.
func refusalOf(r *http.Request, v htpasswd.Verdict, refused, stale http.Handler) http.Handler {
	switch v {
	case htpasswd.Passed:
		return nil
	case htpasswd.Stale:
		return stale
	case htpasswd.Busy:
		if r.Context().Err() != nil {
			return failure{proxy.StatusClientClosed, proxy.ClientClosed}
		}
		return busy{}
	}
	return refused
}

// A busy refusal asks the client to come again.
type busy struct{}

func (busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	proxy.Fail(w, r, http.StatusServiceUnavailable, proxy.AuthFailed)
}

// A challenge is the value of WWW-Authenticate with which a client is told to log in.
type challenge string

func (c challenge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", string(c))
	proxy.Fail(w, r, http.StatusUnauthorized, proxy.Unauthenticated)
}

// A digestChallenge is made when it is sent: each has a nonce of its own.
type digestChallenge struct {
	file  *htpasswd.DigestFile
	realm string
	stale bool
}

func (c digestChallenge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	challenge(c.file.Challenge(c.realm, c.stale)).ServeHTTP(w, r)
}

// quoted is text as a quoted string (RFC 9110 section 5.6.4).
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
