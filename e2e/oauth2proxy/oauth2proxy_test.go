package oauth2proxy

import (
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var ada = person{Subject: "ada-1815", Email: "ada@people.test", Name: "ada"}

// forged are headers with which a client claims to be somebody. X-Auth-Request-Groups is one that oauth2-proxy says
// nothing about when the provider knows no groups.
var forged = http.Header{
	"X-Auth-Request-User":         {"mallory"},
	"X-Auth-Request-Email":        {"mallory@people.test"},
	"X-Auth-Request-Groups":       {"administrators"},
	"X-Auth-Request-Access-Token": {"forged"},
	"Authorization":               {"Bearer forged"},
}

// eachAuthURL runs a test with both documented ways to name oauth2-proxy.
func eachAuthURL(t *testing.T, test func(t *testing.T, authURL string)) {
	t.Run("service", func(t *testing.T) { test(t, serviceURL) })
	t.Run("host", func(t *testing.T) { test(t, hostURL) })
}

func TestBrowserSignsInAndReturnsToWhereItWas(t *testing.T) {
	eachAuthURL(t, func(t *testing.T, authURL string) {
		s := newSite(t, authURL, ada)
		b := newBrowser(t)
		const target = "/reports/2026?page=2&title=a%20%26%20b&next=/x"

		b.get(t, target, nil).wantSignIn(t, target)
		b.get(t, target, forged).wantSignIn(t, target)
		if n := s.served.Load(); n != 0 {
			t.Fatalf("the application got %d requests before anybody signed in, want none", n)
		}

		a := b.visit(t, target)
		if got := a.seen(t).Target; got != target || a.Request.URL.String() != "https://localhost"+target {
			t.Errorf("after signing in the browser is at %s and the application saw %q, want %q", a.Request.URL, got, target)
		}
		if got := names(b.cookies()); !slices.Equal(got, []string{cookieName}) {
			t.Errorf("the browser keeps %v, want one cookie for a small session", got)
		}

		// A browser without the session is still a stranger, whatever somebody else's requests were answered.
		newBrowser(t).get(t, target, nil).wantSignIn(t, target)
	})
}

func TestApplicationSeesWhoSignedInAndNotWhatTheClientClaims(t *testing.T) {
	eachAuthURL(t, func(t *testing.T, authURL string) {
		s := newSite(t, authURL, ada)
		b := newBrowser(t)
		b.visit(t, "/").seen(t)
		for _, header := range []http.Header{nil, forged} {
			saw := b.do(t, http.MethodPost, "https://localhost/orders", header, "two of them").seen(t)
			if saw.Body != "two of them" {
				t.Errorf("the application got the body %q, want the one that was posted", saw.Body)
			}
			for name, want := range map[string]string{
				"X-Auth-Request-User":  ada.Subject,
				"X-Auth-Request-Email": ada.Email,
			} {
				if got := saw.Header.Values(name); !slices.Equal(got, []string{want}) {
					t.Errorf("sent %q: the application saw %s %q, want %q only", header.Get(name), name, got, want)
				}
			}
			// nginx leaves an empty value where the reply had none.
			if got := strings.Join(saw.Header.Values("X-Auth-Request-Groups"), ""); got != "" {
				t.Errorf("sent %q: the application saw X-Auth-Request-Groups %q, want none", header.Get("X-Auth-Request-Groups"), got)
			}
			s.wantTokens(t, saw)
		}
	})
}

// wantTokens checks that the application got the tokens of who is signed in: an access token that the provider knows, and
// an identity token.
func (s *site) wantTokens(t *testing.T, saw seen) {
	t.Helper()
	access := saw.Header.Values("X-Auth-Request-Access-Token")
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	if len(access) != 1 || s.provider.access[access[0]].Email != s.provider.person.Email {
		t.Errorf("the application saw X-Auth-Request-Access-Token %q, want the provider's for %s", access, s.provider.person.Email)
	}
	identity := saw.Header.Values("Authorization")
	if len(identity) != 1 || !strings.HasPrefix(identity[0], "Bearer ey") || strings.Count(identity[0], ".") != 2 {
		t.Errorf("the application saw Authorization %q, want an identity token", identity)
	}
}

func TestSessionThatIsNoneSendsToSignIn(t *testing.T) {
	s := newSite(t, serviceURL, ada)
	for name, spoil := range map[string]func(t *testing.T, b *browser){
		"nonsense": func(t *testing.T, b *browser) { b.keep(map[string]string{cookieName: "nonsense"}) },
		"altered": func(t *testing.T, b *browser) {
			value := []byte(b.cookies()[cookieName])
			if value[0]++; value[0] > 'Z' { // of what is signed; both letters of base64
				value[0] = 'A'
			}
			b.keep(map[string]string{cookieName: string(value)})
		},
		"another's signature": func(t *testing.T, b *browser) { b.age(t, 0, "another 32 bytes, not the right.") },
		"expired":             func(t *testing.T, b *browser) { b.age(t, cookieExpire+time.Minute, cookieSecret) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t)
			b.visit(t, "/").seen(t)
			b.age(t, time.Minute, cookieSecret)
			b.get(t, "/", nil).seen(t) // rewriting alone spoils nothing
			spoil(t, b)
			served := s.served.Load()

			a := b.get(t, "/private", nil)
			a.wantSignIn(t, "/private")
			if now := s.served.Load(); now != served {
				t.Errorf("the application got the request")
			}
			// oauth2-proxy answers 401 and takes the bad cookie away.
			if c := a.cookies()[cookieName]; c == nil || c.Value != "" {
				t.Errorf("the answer sets %v, want %s removed", a.Header.Values("Set-Cookie"), cookieName)
			}
			if got := b.visit(t, "/private").seen(t).Target; got != "/private" {
				t.Errorf("after signing in again the application saw %q, want /private", got)
			}
		})
	}
}

// Groups whose names do not compress, for a session that takes two cookies: each name is in the session twice, in the
// identity token and beside it.
func manyGroups() []string {
	groups := make([]string, 40)
	for i := range groups {
		groups[i] = rand.Text()
	}
	return groups
}

var twoCookies = []string{cookieName + "_0", cookieName + "_1"}

func TestSessionOfTwoCookiesPassesBothWays(t *testing.T) {
	eachAuthURL(t, func(t *testing.T, authURL string) {
		who := ada
		who.Groups = manyGroups()
		newSite(t, authURL, who)
		b := newBrowser(t)
		b.visit(t, "/").seen(t)

		cookies := b.cookies()
		size := 0
		for _, value := range cookies {
			size += len(value)
		}
		if got := names(cookies); !slices.Equal(got, twoCookies) || size <= 4096 {
			t.Fatalf("the session is %d bytes in %v, want more than 4096 in %v", size, got, twoCookies)
		}
		saw := b.get(t, "/reports", forged).seen(t)
		if got := saw.Header.Get("X-Auth-Request-Groups"); got != strings.Join(who.Groups, ",") {
			t.Errorf("the application saw X-Auth-Request-Groups %q, want all of\n%q", got, who.Groups)
		}

		// Half a session is none.
		b.keep(map[string]string{cookieName + "_1": ""})
		b.get(t, "/reports", nil).wantSignIn(t, "/reports")
	})
}

// A session older than --cookie-refresh is renewed while oauth2-proxy is asked about a request: its reply carries both
// cookies anew, and they must reach the browser with the application's answer. The provider takes each refresh token
// once, so that a browser that still had a half or the whole of the old session could not go on.
func TestRenewedSessionReachesTheBrowserInBothCookies(t *testing.T) {
	eachAuthURL(t, func(t *testing.T, authURL string) {
		who := ada
		who.Groups = manyGroups()
		s := newSite(t, authURL, who)
		b := newBrowser(t)
		b.visit(t, "/").seen(t)

		for round := 1; round <= 2; round++ {
			b.age(t, 2*cookieRefresh, cookieSecret)
			old := b.cookies()
			who.Email = rand.Text() + "@people.test"
			s.provider.rename(who)

			a := b.get(t, "/reports", nil)
			saw := a.seen(t)
			if got := s.provider.renewals(); got != round {
				t.Fatalf("the provider renewed %d sessions, want %d", got, round)
			}
			set := a.cookies()
			if got, want := names(set), append(slices.Clone(twoCookies), "application"); !slices.Equal(got, want) {
				t.Errorf("the answer sets %v, want the session's and the application's: %v", got, want)
			}
			for _, name := range twoCookies {
				const attributes = "; Path=/; Max-Age=604800; HttpOnly; Secure"
				if c := set[name]; c != nil && !strings.HasSuffix(c.Raw, attributes) {
					t.Errorf("the answer sets %s without its attributes %q: %s", name, attributes, c.Raw)
				}
				if b.cookies()[name] == old[name] {
					t.Errorf("%s is the old one", name)
				}
			}
			if got := saw.Header.Get("X-Auth-Request-Email"); got != who.Email {
				t.Errorf("the application saw X-Auth-Request-Email %q, want the renewed %q", got, who.Email)
			}

			// The next request needs no renewal: both halves are new and fit together.
			fresh := b.cookies()
			next := b.get(t, "/reports", nil)
			if got := next.seen(t).Header.Get("X-Auth-Request-Email"); got != who.Email {
				t.Errorf("then the application saw X-Auth-Request-Email %q, want %q", got, who.Email)
			}
			if got := names(next.cookies()); !slices.Equal(got, []string{"application"}) || !maps.Equal(fresh, b.cookies()) {
				t.Errorf("then the answer sets %v, want the application's alone", got)
			}
			s.wantTokens(t, next.seen(t))
		}
	})
}

func TestNobodyPassesWhileOAuth2ProxyIsStopped(t *testing.T) {
	eachAuthURL(t, func(t *testing.T, authURL string) {
		s := newSite(t, authURL, ada)
		member, stranger := newBrowser(t), newBrowser(t)
		member.visit(t, "/").seen(t)
		s.oauth2Proxy.stop()
		served := s.served.Load()
		for range 3 {
			for _, b := range []*browser{member, stranger} {
				if a := b.get(t, "/", forged); a.StatusCode != http.StatusInternalServerError {
					t.Errorf("cookies %v: got %s, want 500\n%s", names(b.cookies()), a.Status, a.text)
				}
			}
		}
		if now := s.served.Load(); now != served {
			t.Errorf("the application got %d requests, want none", now-served)
		}

		s.startOAuth2Proxy(t)
		member.get(t, "/", nil).seen(t)
		stranger.get(t, "/", nil).wantSignIn(t, "/")
	})
}
