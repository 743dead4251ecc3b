package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// passedOn are the hosts whose connections are passed on: "pass.test default/web:80 [10.0.0.1:8080 10.0.0.2:8080]".
func passedOn(r Result) string {
	var all []string
	for _, host := range slices.Sorted(maps.Keys(r.Passthrough)) {
		s := r.Passthrough[host]
		switch {
		case s == nil:
			all = append(all, host+" here")
			continue
		case s.Pool == nil:
			all = append(all, host+" "+s.Name+" nowhere")
			continue
		}
		line := fmt.Sprint(host, " ", s.Name, " ", s.Pool.Endpoints())
		if s.Send {
			line += " send"
		}
		if s.Options.Balance.Policy != "" {
			line += fmt.Sprint(" ", s.Options.Balance.Policy)
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func passOptions() Options {
	o := everyIngress()
	o.Settings.Passthrough, o.Settings.HTTPSPort = true, 443
	o.Settings.Upstream.ConnectTimeout = 7 * time.Second
	return o
}

// passing is an Ingress with annotations, under the prefix of ingress-nginx where they have none.
func passing(name, namespace, annotations, body string) string {
	return "kind: Ingress\nmetadata: {name: " + name + ", namespace: " + namespace + ", annotations: {" + annotations + "}}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n  ")
}

const (
	passIt   = `nginx.ingress.kubernetes.io/ssl-passthrough: "true"`
	rootPath = `{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}`
	toWeb    = `[10.0.0.1:8080 10.0.0.2:8080]`
)

func ruleFor(host, paths string) string {
	return `rules: [{host: "` + host + `", http: {paths: [` + paths + `]}}]`
}

func TestWhereTheConnectionsOfAHostGo(t *testing.T) {
	other := strings.ReplaceAll(webService, "name: web", "namespace: other, name: web")
	for _, test := range []struct {
		what     string
		objects  []string
		want     string
		problems []string
	}{
		{"the path / of the host", []string{passing("a", "default", passIt, ruleFor("pass.test", rootPath))}, "pass.test default/web:80 " + toWeb, nil},
		{"no annotation", []string{passing("a", "default", "", ruleFor("pass.test", rootPath))}, "", nil},
		{"the word of another Ingress of the namespace", []string{
			passing("a", "default", "", ruleFor("pass.test", rootPath)),
			passing("b", "default", passIt, ruleFor("pass.test", strings.Replace(rootPath, "path: /", "path: /api", 1))),
		}, "pass.test default/web:80 " + toWeb, []string{`Ingress default/b: spec.rules[0].host: the TLS connections of host "pass.test" go to Service "default/web:80" as they are (ssl-passthrough), so this does nothing for them: the path "/api" (PassedThrough)`}},
		{"the word of another namespace", []string{
			passing("a", "default", "", ruleFor("pass.test", rootPath)),
			passing("b", "other", passIt, ruleFor("pass.test", strings.Replace(rootPath, "path: /", "path: /api", 1))), other,
		}, "", []string{`SharedHost`, `its path "/" is that of Ingress default/a, of another namespace`, `NoEndpoints`}},
		{"a wildcard, and hosts below it", []string{
			passing("a", "default", passIt, ruleFor("*.apps.test", rootPath)),
			passing("b", "default", "", ruleFor("own.apps.test", rootPath)),
			passing("c", "default", passIt, ruleFor("too.apps.test", rootPath)),
			passing("d", "default", "nginx.ingress.kubernetes.io/server-alias: alias.apps.test", ruleFor("d.test", rootPath)),
			passing("e", "default", "", ruleFor("a.b.apps.test", rootPath)),
		}, "*.apps.test default/web:80 " + toWeb + "\nalias.apps.test here\nown.apps.test here\ntoo.apps.test default/web:80 " + toWeb, nil},
		{"a PROXY header", []string{passing("a", "default", passIt+`, ingress.kubernetes.io/ssl-passthrough-proxy-protocol: "true"`, ruleFor("pass.test", rootPath))}, "pass.test default/web:80 " + toWeb + " send", nil},
		{"a Service that is not there", []string{passing("a", "default", passIt, ruleFor("pass.test", strings.Replace(rootPath, "web", "gone", 1)))}, "pass.test default/gone:80 nowhere",
			[]string{`ServiceNotFound`, `its path "/" leads to no Service that exists (PassedThrough)`}},
		{"no path /", []string{passing("a", "default", passIt, ruleFor("pass.test", strings.Replace(rootPath, "path: /", "path: /api", 1)))}, "pass.test none nowhere",
			[]string{`they go to the Service of its path "/", and none has that path (PassedThrough)`}},
		{"the default backend of the Ingress", []string{passing("a", "default", passIt, "defaultBackend: {service: {name: web, port: {number: 80}}}\n"+ruleFor("pass.test", strings.Replace(rootPath, "path: /", "path: /api", 1)))},
			"pass.test default/web:80 " + toWeb, []string{`the path "/api" (PassedThrough)`}},
		{"any host", []string{passing("a", "default", passIt, ruleFor("", rootPath))}, "", []string{`a rule for any host has none; ssl-passthrough does nothing for it (PassedThrough)`}},
		{"what else is asked for", []string{passing("a", "default", passIt+`, nginx.ingress.kubernetes.io/proxy-body-size: 1m, nginx.ingress.kubernetes.io/force-ssl-redirect: "true"`, "tls: [{hosts: [pass.test], secretName: s}]\n"+ruleFor("pass.test", rootPath))},
			"pass.test default/web:80 " + toWeb, []string{`warning: Ingress default/a: spec.rules[0].host: the TLS connections of host "pass.test" go to Service "default/web:80" as they are (ssl-passthrough), so this does nothing for them: nginx.ingress.kubernetes.io/proxy-body-size, the certificate of Secret "s" (PassedThrough)`}},
		{"a guard", []string{passing("a", "default", passIt+`, nginx.ingress.kubernetes.io/whitelist-source-range: 10.0.0.0/8`, ruleFor("pass.test", rootPath))},
			"pass.test default/web:80 " + toWeb, []string{`error: Ingress default/a: spec.rules[0].host: the TLS connections of host "pass.test" go to Service "default/web:80" as they are (ssl-passthrough), so this does nothing for them: nginx.ingress.kubernetes.io/whitelist-source-range (PassedThrough)`}},
		{"a guard that is wrong", []string{passing("a", "default", passIt+`, nginx.ingress.kubernetes.io/whitelist-source-range: nobody`, ruleFor("pass.test", rootPath))},
			"pass.test default/web:80 nowhere", []string{`BadAnnotation`, `what is to guard this Ingress is wrong (PassedThrough)`}},
		{"a value that is none", []string{passing("a", "default", strings.Replace(passIt, "true", "yes", 1), ruleFor("pass.test", rootPath))}, "", []string{`BadAnnotation`}},
		{"a PROXY header for nothing", []string{passing("a", "default", `ingress.kubernetes.io/ssl-passthrough-proxy-protocol: "true"`, ruleFor("pass.test", rootPath))}, "", []string{`it does nothing without ssl-passthrough (IgnoredAnnotation)`}},
	} {
		t.Run(test.what, func(t *testing.T) {
			snapshot := snapshotOf(t, append(test.objects, strings.TrimSpace(webService))...)
			snapshot.Set(secretFor(t, "s", time.Now(), "pass.test"))
			r := NewBuilder(passOptions()).Build(snapshot)
			if got := passedOn(r); got != test.want {
				t.Errorf("passed on:\n%s\nwant:\n%s", got, test.want)
			}
			wantLines(t, r.Problems, test.problems...)
		})
	}
}

func TestWithoutTheFlagNothingIsPassedOn(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, passing("a", "default", passIt, ruleFor("pass.test", rootPath)), strings.TrimSpace(webService)))
	if r.Passthrough != nil {
		t.Errorf("passed on: %s, want nothing", passedOn(r))
	}
	wantLines(t, r.Problems, `metadata.annotations[nginx.ingress.kubernetes.io/ssl-passthrough]: "true": it needs the flag --enable-ssl-passthrough`)
}

func TestWhatIsPassedOnFollowsTheObjects(t *testing.T) {
	s := snapshotOf(t, passing("a", "default", passIt, ruleFor("pass.test", rootPath)), strings.TrimSpace(webService))
	b := NewBuilder(passOptions())
	first := b.Build(s)
	if o := first.Passthrough["pass.test"].Options; o.ConnectTimeout != 7*time.Second || o.Idle != 0 {
		t.Errorf("the options are %+v", o)
	}
	step := func(what, want string, same bool, texts ...string) {
		t.Helper()
		before := b.passthrough
		for _, text := range texts {
			for _, o := range objects(t, text) {
				s.Set(o)
			}
		}
		r := b.Build(s)
		if got := passedOn(r); got != want {
			t.Errorf("%s: passed on:\n%s\nwant:\n%s", what, got, want)
		}
		if fmt.Sprintf("%p", before) == fmt.Sprintf("%p", r.Passthrough) != same {
			t.Errorf("%s: the map is the same as before: %v, want %v", what, !same, same)
		}
	}
	step("another Ingress", "pass.test default/web:80 "+toWeb, true, passing("b", "default", "", ruleFor("b.test", rootPath)))
	step("an affinity of the Service", "pass.test default/web:80 "+toWeb+" client-ip", false, strings.Replace(strings.Split(webService, "---")[0], "spec: {", "spec: {sessionAffinity: ClientIP, ", 1))
	step("a wildcard", "*.test default/web:80 "+toWeb+" client-ip\nb.test here\npass.test default/web:80 "+toWeb+" client-ip", false, passing("c", "default", passIt, ruleFor("*.test", rootPath)))
	step("a host below it", "*.test default/web:80 "+toWeb+" client-ip\nb.test here\nd.test here\npass.test default/web:80 "+toWeb+" client-ip", false, passing("d", "default", "", ruleFor("d.test", rootPath)))
	for _, name := range []string{"a", "c"} {
		s.Delete(Ref{"Ingress", "default", name})
	}
	step("all gone", "", false)
	if b.Build(s).Passthrough != nil {
		t.Error("a map is left")
	}
}
