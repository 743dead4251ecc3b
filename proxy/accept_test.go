package proxy

import (
	"net/http"
	"testing"
)

func TestWantsJSONWhoNamesItAndPutsNothingBeforeIt(t *testing.T) {
	for _, c := range []struct {
		accept []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"*/*"}, false},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, false}, // a browser
		{[]string{"application/json"}, true},
		{[]string{"Application/JSON; charset=utf-8"}, true},
		{[]string{"application/problem+json"}, true},
		{[]string{"application/json, text/plain, */*"}, true},
		{[]string{"text/html", "application/json"}, true},
		{[]string{"text/html, application/json;q=0.9"}, false},
		{[]string{"text/html;q=0.5, application/json;q=0.9"}, true},
		{[]string{"application/json;q=0"}, false},
		{[]string{"application/json; Q = 0.0"}, false},
		{[]string{"application/json;q=x"}, false},
		{[]string{"application/json;q=NaN"}, false},
		{[]string{"application/jsonp"}, false},
		{[]string{"application/*"}, false},
	} {
		if got := WantsJSON(&http.Request{Header: http.Header{"Accept": c.accept}}); got != c.want {
			t.Errorf("Accept %q: %v, want %v", c.accept, got, c.want)
		}
	}
}
