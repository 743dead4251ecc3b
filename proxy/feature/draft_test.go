package feature

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// say answers with the words that the handlers in front of it have left, and its own.
func say(word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(strings.Join(append(r.Header["Said"], word), " ")))
	})
}

func saying(word string) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Add("Said", word)
			next.ServeHTTP(w, r)
		})
	}
}

// ask serves one request as the front would, with the exchange that goes with it.
func ask(t *testing.T, h http.Handler, e *proxy.Exchange) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, proxy.With(httptest.NewRequest("GET", "/", nil), e))
	return w.Result(), w.Body.String()
}

func TestMiddlewareRunsInTheOrderItWasAdded(t *testing.T) {
	var d Draft
	d.Use(saying("first"))
	d.UseAt(func(at Place) Middleware { return saying(at.Match.Path) })
	d.UseAt(func(Place) Middleware { return nil })
	d.Use(saying("third"))
	if _, got := ask(t, d.Handler(Place{Match: router.Match{Path: "/here"}}, say("last")), new(proxy.Exchange)); got != "first /here third last" {
		t.Errorf("got %q", got)
	}
}

func TestAHostDraftReachesNoPath(t *testing.T) {
	var d Draft
	d.Host.Use(saying("host"))
	d.Use(saying("path"))
	if _, got := ask(t, d.Handler(Place{}, say("last")), new(proxy.Exchange)); got != "path last" {
		t.Errorf("a route answers %q", got)
	}
	if _, got := ask(t, d.Host.Handler(Place{}, say("last")), new(proxy.Exchange)); got != "host last" {
		t.Errorf("the host answers %q", got)
	}
}

func TestADeniedDraftAnswers503WhateverElseItHas(t *testing.T) {
	var d Draft
	d.Use(saying("open"))
	d.Deny()
	e := new(proxy.Exchange)
	answer, body := ask(t, d.Handler(Place{}, say("last")), e)
	if answer.StatusCode != http.StatusServiceUnavailable || e.Reason != proxy.Denied {
		t.Errorf("%d %q, reason %q; want 503 and %q", answer.StatusCode, body, e.Reason, proxy.Denied)
	}
}

func TestABadValueOfAGuardDeniesAndOfATuningDoesNot(t *testing.T) {
	for name, denies := range map[string]bool{"limit-rps": true, "proxy-read-timeout": false} {
		a, d := reads(map[string]string{NginxPrefix + name: "ten"}), new(Draft)
		a.run(d, []func(*Annotations, *Draft){func(a *Annotations, _ *Draft) { a.Int(name, 0, "how many") }})
		if d.Denied() != denies || len(a.problems) != 1 {
			t.Errorf("%s: denied %v with %v, want %v with one problem", name, d.Denied(), a.problems, denies)
		}
	}
}

func TestAFailureIsOfTheFeatureThatMetIt(t *testing.T) {
	a := reads(map[string]string{NginxPrefix + "permanent-redirect-code": "999"})
	var failed []bool
	a.run(new(Draft), []func(*Annotations, *Draft){
		func(a *Annotations, _ *Draft) {
			if code := a.Int("permanent-redirect-code", 301, "status"); code > 308 {
				a.Refuse("permanent-redirect-code", "expected a number from 300 to 308")
			}
			a.Refuse("app-root", "expected what is not even there")
			failed = append(failed, a.Failed())
		},
		func(a *Annotations, _ *Draft) { failed = append(failed, a.Failed()) },
	})
	if len(failed) != 2 || !failed[0] || failed[1] {
		t.Errorf("failed %v, want the first only", failed)
	}
	if len(a.problems) != 1 || a.problems[0].Message != `"999": expected a number from 300 to 308` {
		t.Errorf("problems %v", a.problems)
	}
}

func TestGuards(t *testing.T) {
	refuse := func(status int) Check {
		return func(*http.Request) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		}
	}
	pass := func(*http.Request) http.Handler { return nil }
	for _, c := range []struct {
		claim  string
		any    bool
		checks []Check
		want   int
	}{
		{"all pass", false, []Check{pass, pass}, 200},
		{"the first that refuses answers", false, []Check{pass, refuse(403), refuse(401)}, 403},
		{"the last counts as well", false, []Check{pass, refuse(401)}, 401},
		{"any passed check is enough", true, []Check{refuse(403), pass, refuse(401)}, 200},
		{"the last is enough", true, []Check{refuse(403), pass}, 200},
		{"the last refusal answers when none passes", true, []Check{refuse(403), refuse(401)}, 401},
		{"any of one is that one", true, []Check{refuse(403)}, 403},
		{"any of none guards nothing", true, nil, 200},
	} {
		var d Draft
		for _, check := range c.checks {
			d.Guard(check)
		}
		if c.any {
			d.SatisfyAny()
		}
		if answer, _ := ask(t, d.Handler(Place{}, say("in")), new(proxy.Exchange)); answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.claim, answer.StatusCode, c.want)
		}
	}
}

func TestGuardsStandWhereTheFirstWasAdded(t *testing.T) {
	var d Draft
	d.Use(saying("before"))
	seen := ""
	check := func(r *http.Request) http.Handler {
		seen += "[" + strings.Join(r.Header["Said"], " ") + "]"
		return nil
	}
	d.Guard(check)
	d.Use(saying("after"))
	d.Guard(check)
	ask(t, d.Handler(Place{}, say("last")), new(proxy.Exchange))
	if seen != "[before][before]" {
		t.Errorf("the checks saw %s", seen)
	}
}
