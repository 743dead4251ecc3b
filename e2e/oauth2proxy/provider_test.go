package oauth2proxy

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// What oauth2-proxy identifies itself with.
const (
	clientID     = "sallyport-e2e"
	clientSecret = "a secret of client and provider"
)

// A provider is an OpenID provider at which one person is always signed in: whoever comes to authorise is sent straight
// back with a code. A code and a refresh token are good for one use.
type provider struct {
	URL string // the issuer
	key *rsa.PrivateKey

	mu      sync.Mutex // guards what follows
	person  person
	codes   map[string]grant  // by code
	refresh map[string]grant  // by refresh token
	access  map[string]person // by access token
	renewed int               // sessions renewed with a refresh token
}

// A person is what the provider says about who signed in. It is read when a token is made.
type person struct {
	Subject string   `json:"sub"`
	Email   string   `json:"email"`
	Name    string   `json:"preferred_username"`
	Groups  []string `json:"groups,omitempty"`
}

// A grant is what was asked for when a code was given.
type grant struct{ redirect, nonce string }

// newProvider starts a provider; it ends with the test.
func newProvider(t *testing.T, who person) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, person: who, codes: map[string]grant{}, refresh: map[string]grant{}, access: map[string]person{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// rename changes what the provider says from now on.
func (p *provider) rename(who person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = who
}

// renewals is how many sessions were renewed with a refresh token.
func (p *provider) renewals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

func (p *provider) discovery(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                p.URL,
		"authorization_endpoint":                p.URL + "/authorize",
		"token_endpoint":                        p.URL + "/token",
		"jwks_uri":                              p.URL + "/keys",
		"userinfo_endpoint":                     p.URL + "/userinfo",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	if err != nil || !redirect.IsAbs() || query.Get("client_id") != clientID || query.Get("response_type") != "code" {
		http.Error(w, "want a client, response_type=code and an absolute redirect_uri", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = grant{redirect: query.Get("redirect_uri"), nonce: query.Get("nonce")}
	p.mu.Unlock()
	redirect.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}}.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth() // both are URL-encoded there (RFC 6749, section 2.3.1)
	if id != url.QueryEscape(clientID) || secret != url.QueryEscape(clientSecret) {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var granted grant
	var known bool
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		code := r.PostFormValue("code")
		granted, known = p.codes[code]
		known = known && granted.redirect == r.PostFormValue("redirect_uri")
		delete(p.codes, code)
	case "refresh_token":
		token := r.PostFormValue("refresh_token")
		granted, known = p.refresh[token]
		delete(p.refresh, token)
		if known {
			p.renewed++
		}
	}
	if !known {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	access, refresh := rand.Text(), rand.Text()
	p.access[access], p.refresh[refresh] = p.person, granted
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600,
		"id_token": p.idToken(p.person, granted.nonce),
	})
}

// idToken is what the provider says about a person, signed with RS256 (RFC 7519, RFC 7515).
func (p *provider) idToken(who person, nonce string) string {
	now := time.Now()
	text := encodeJSON(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "1"}) + "." + encodeJSON(struct {
		person
		Issuer   string `json:"iss"`
		Audience string `json:"aud"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Nonce    string `json:"nonce,omitempty"`
		Verified bool   `json:"email_verified"`
	}{who, p.URL, clientID, now.Unix(), now.Add(time.Hour).Unix(), nonce, true})
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, digest[:])
	if err != nil {
		panic(err) // the key was made for this
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (p *provider) keys(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
		"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func (p *provider) userinfo(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	who, known := p.access[token]
	p.mu.Unlock()
	if !known {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	writeJSON(w, http.StatusOK, who)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

// encodeJSON is JSON in the base64 of tokens.
func encodeJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain data
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
