package feature

import (
	"net/http"
	"strings"
	"testing"

	"sallyport/proxy"
)

func TestForbiddenWordsCloseTheirIngress(t *testing.T) {
	config, problems := NewConfig(map[string]string{"annotation-value-word-blocklist": "lua, secret ,{"}, Input{Namespace: "ops", Name: "config"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for value, want := range map[string]string{"/x": "", "/lua": "lua", "/my-secrets": "secret", "/{": "{", "/LUA": ""} {
		d, problems := Parse(Input{Namespace: "shop", Name: "web", Annotations: map[string]string{NginxPrefix + "app-root": value, "other/annotation": "lua"}, Config: config})
		told := len(problems) > 0 && strings.Contains(problems[0].Message, "forbids \""+want+"\" in annotations")
		if d.Denied() != (want != "") || told != (want != "") {
			t.Errorf("%s: denied %v, problems %v", value, d.Denied(), problems)
		}
	}
}

func TestSkippedPathsAreNotLogged(t *testing.T) {
	var d Draft
	newAnnotations(Input{Config: &Config{values: map[string]string{"skip-access-log-urls": "/health,~^/probe/"}}}).run(&d, []func(*Annotations, *Draft){accessLog})
	for path, want := range map[string]bool{"/health": true, "/health/x": false, "/probe/a": true, "/": false} {
		e := &proxy.Exchange{Path: path}
		ask(t, d.Around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})), e)
		if e.NoLog != want {
			t.Errorf("%s: kept out of the log: %v, want %v", path, e.NoLog, want)
		}
	}
}
