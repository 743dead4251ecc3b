package feature

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"sallyport/proxy"
)

// An authGuard asks a service whether requests may pass.
type authGuard struct {
	authSetting
	draft    *Draft
	exempt   []string // beginnings of paths that it does not hold for
	client   *authClient
	trail    string     // marks what is asked: see newTrail
	cache    *authCache // nil: nothing is remembered
	mixes    credentials
	chosen   chosen
	reported atomic.Int64 // when the log was told last that the service failed, in Unix nanoseconds; 0: never
}

// An authReply is what the service answered, as far as it counts. It never changes; many requests may share it.
type authReply struct {
	status    int
	challenge []string   // WWW-Authenticate
	cookies   []string   // Set-Cookie
	passed    [][]string // beside authSetting.passed
	vary      []string   // the fields of the question that the answer depends on
	// authorizes says that Authorization is among passed.
	authorizes bool
}

func (p *authReply) passes() bool { return p.status >= 200 && p.status < 300 }

var errLoop = errors.New("the service is asked by way of the route that it guards")

func (g *authGuard) check(r *http.Request) (refusal http.Handler) {
	e := proxy.From(r)
	reply, err := g.reply(r, e)
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		return failure{proxy.StatusClientClosed, proxy.ClientClosed}
	default:
		g.report(err)
		return failure{http.StatusInternalServerError, proxy.AuthFailed}
	}
	if len(reply.cookies) > 0 {
		e.OnHeader(&authCookies{reply.cookies, g.cookies})
	}
	switch {
	case reply.passes():
		if len(g.passed) > 0 {
			// What the answer says of the client is written into the request behind all checks: the next one is to see the
			// client's own words.
			*r = *r.WithContext(context.WithValue(r.Context(), replyKey{}, reply))
		}
		return nil
	case reply.status == http.StatusUnauthorized:
		return &unauthenticated{g, reply}
	case reply.status == http.StatusForbidden:
		return failure{http.StatusForbidden, proxy.AuthForbidden}
	}
	g.report(fmt.Errorf("it answered %d", reply.status))
	return failure{http.StatusInternalServerError, proxy.AuthFailed}
}

// reply is the service's, or one that is remembered.
func (g *authGuard) reply(r *http.Request, e *proxy.Exchange) (*authReply, error) {
	if follows(r, g.trail) {
		return nil, errLoop
	}
	address, err := g.url.Expand(r, nil)
	if err != nil {
		return nil, err
	}
	if err := g.checkHost(r, e); err != nil {
		return nil, err
	}
	var key cacheKey
	if g.cache != nil {
		if key, err = g.key(r, e, address); err != nil {
			return nil, err
		}
		if reply := g.cache.get(key, r.Header, time.Now()); reply != nil {
			return reply, nil
		}
	}
	ask, err := g.question(r, e, address)
	if err != nil {
		return nil, err
	}
	answer, err := g.client.ask(ask)
	if err != nil {
		return nil, err
	}
	reply := &authReply{status: answer.StatusCode, challenge: answer.Header["Www-Authenticate"], cookies: answer.Header["Set-Cookie"], vary: varies(answer.Header)}
	if reply.passes() {
		if reply.passed, err = pick(answer.Header, g.passed); err != nil {
			return nil, err
		}
		reply.authorizes = len(answer.Header["Authorization"]) > 0 && slices.Contains(g.passed, "Authorization")
	}
	if g.cache != nil {
		now := time.Now()
		g.cache.put(key, r.Header, reply, now, now.Add(lifetime(answer.Header, g.durations[reply.status], now)))
	}
	return reply, nil
}

// pick takes fields from an answer. A value that could end the field it stands in is no answer that counts.
func pick(header http.Header, names []string) ([][]string, error) {
	picked := make([][]string, len(names))
	for i, name := range names {
		for _, text := range header[name] {
			if !httpguts.ValidHeaderFieldValue(text) {
				return nil, fmt.Errorf("its answer has a malformed %s", name)
			}
		}
		picked[i] = header[name][:len(header[name]):len(header[name])]
	}
	return picked, nil
}

// question is what the service is asked.
func (g *authGuard) question(r *http.Request, e *proxy.Exchange, address string) (*http.Request, error) {
	ask, err := http.NewRequestWithContext(r.Context(), g.method, address, nil)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(r.Header)+8)
	for name, values := range r.Header {
		if describes(name) {
			header[name] = slices.Clone(values) // net/http may be at it when the client's connection has its next request
		}
	}
	ask.Header = header
	header.Set("X-Original-Url", e.Scheme+"://"+r.Host+e.Target)
	header.Set("X-Original-Method", r.Method)
	header.Set("X-Sent-From", "nginx-ingress-controller")
	if g.told {
		header.Set("X-Original-Uri", e.Target)
	}
	redirect := e.Target
	if g.redirect != nil {
		if redirect, err = g.redirect.ExpandField(r, nil); err != nil {
			return nil, err
		}
	}
	header.Set("X-Auth-Request-Redirect", redirect)
	for i := range g.fields {
		if err := g.fields[i].give(ask, r); err != nil {
			return nil, err
		}
	}
	if len(header["User-Agent"]) == 0 {
		header["User-Agent"] = nil // else net/http would name itself
	}
	header[trailField] = append(header[trailField][:len(header[trailField]):len(header[trailField])], g.trail)
	return ask, nil
}

// describes reports whether a field of the client's, by its canonical name, is for the service too: none of the connection
// or of the body, which the service does not get, none that makes a condition of another answer than the service's, and
// not X-Forwarded-Proto (reference B6).
func describes(name string) bool {
	switch name {
	case "Host", "X-Forwarded-Proto", "Proxy-Authorization", "Proxy-Authenticate",
		"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range":
		return false
	}
	return !framing(name)
}

// give gives ask the field, with its value for r.
func (f *requestField) give(ask, r *http.Request) error {
	text, err := f.text.ExpandField(r, nil)
	switch {
	case err != nil:
		return err
	case f.name == "Host":
		if isAuthority(text) {
			ask.Host = text
		}
	case text == "":
		delete(ask.Header, f.name)
	default:
		ask.Header[f.name] = []string{text}
	}
	return nil
}

// report tells the log why the service let nobody pass, once a minute: what fails one request fails all.
func (g *authGuard) report(err error) {
	now, last := time.Now().UnixNano(), g.reported.Load()
	if last != 0 && now-last < int64(reportEvery) || !g.reported.CompareAndSwap(last, now) {
		return
	}
	slog.Warn("the service of an auth-url gave no answer that counts, so requests are answered 500", "auth-url", g.url.String(), "error", err)
}

// A failure answers in the proxy's own name.
type failure struct {
	status int
	reason proxy.Reason
}

func (f failure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proxy.Fail(w, r, f.status, f.reason)
}

// unauthenticated tells a client to say who it is: with 401 as the service has it, or by sending it to a page.
type unauthenticated struct {
	guard *authGuard
	reply *authReply
}

func (u *unauthenticated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.guard.signIn == nil {
		if len(u.reply.challenge) > 0 {
			w.Header()["Www-Authenticate"] = u.reply.challenge
		}
		proxy.Fail(w, r, http.StatusUnauthorized, proxy.Unauthenticated)
		return
	}
	location, err := u.guard.signIn.Expand(r, nil)
	if err != nil {
		proxy.Fail(w, r, http.StatusUnauthorized, proxy.Unauthenticated) // there is no address to send the client to
		return
	}
	proxy.From(r).Reason = proxy.Unauthenticated
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusFound)
}

// authCookies adds the cookies of the service to the answer, beside those of the endpoint.
type authCookies struct {
	lines  []string
	always bool
}

func (c *authCookies) SetHeader(e *proxy.Exchange, header http.Header) {
	if c.always || takesCookies(e.Status) {
		present := header["Set-Cookie"]
		header["Set-Cookie"] = append(present[:len(present):len(present)], c.lines...)
	}
}

// takesCookies is nginx's add_header without "always".
func takesCookies(status int) bool {
	switch status {
	case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308:
		return true
	}
	return false
}

type replyKey struct{}

// replyOf is the answer by which an authGuard let the request pass; nil: none did.
func replyOf(r *http.Request) *authReply {
	reply, _ := r.Context().Value(replyKey{}).(*authReply)
	return reply
}

// passFields gives requests that have passed the fields of the service's answer. It stands behind all checks. What the
// client says under those names is removed where no service was asked too, as where satisfy is any and another check let
// the request pass; on a route that nobody is asked for who they are, the client's own credentials stay.
func (g *authGuard) passFields(path string) Middleware {
	free := exempts(g.exempt, path)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reply := replyOf(r)
			for i, name := range g.passed {
				switch {
				case reply != nil && len(reply.passed[i]) > 0:
					r.Header[name] = reply.passed[i]
				case free && (name == "Authorization" || name == "Cookie"):
				default:
					delete(r.Header, name)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// parseStatus reads a status of three digits.
func parseStatus(text string) (status int, ok bool) {
	status, err := strconv.Atoi(text)
	return status, err == nil && len(text) == 3 && status >= 100 && status <= 599
}
