package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"sallyport/e2e"
)

// A result is what came of one run of the binary.
type result struct {
	code     int
	out, err string
}

// sallyport runs the built binary in an empty environment, but for env, and waits for its end.
func sallyport(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return sallyportIn(t, t.TempDir(), env, args...)
}

func sallyportIn(t *testing.T, folder string, env []string, args ...string) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), e2e.Tool("sallyport"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, append([]string{"HOME=" + folder}, env...), &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

func TestWrongUsageExitsWithTwoAndSaysWhatIsRight(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		args []string
		want string // in what is said
	}{
		{"an unknown command", nil, []string{"serve"}, `there is no command "serve", expected one of check, demo, routes, run, version`},
		{"an unknown flag", nil, []string{"run", "--htp-port=1"}, "--htp-port: there is no such flag, did you mean --http-port?"},
		{"another controller's flag", nil, []string{"run", "--status-update-interval=60"}, "--status-update-interval: there is no such flag here"},
		{"a bad value", nil, []string{"run", "--http-port=x"}, `--http-port: "x" is not a port, a whole number from 0 to 65535`},
		{"a bad variable", []string{"SALLYPORT_HTTP_PORT=x"}, []string{"run"}, `SALLYPORT_HTTP_PORT: "x" is not a port`},
		{"a bad form", nil, []string{"version", "-o", "xml"}, `--output: "xml" is not one of text, json, yaml`},
		{"a version in the wrong place", nil, []string{"run", "--version"}, "--version: there is no such flag here: use the command `sallyport version`"},
		{"an argument too many", nil, []string{"run", "now"}, `sallyport run takes no arguments, got "now"`},
		{"check without a folder", nil, []string{"check"}, "sallyport check: the folder is missing, expected check DIR..."},
		{"routes without a folder", nil, []string{"routes"}, "sallyport routes: the folder is missing, expected routes DIR..."},
		{"check of nothing", nil, []string{"check", "nowhere"}, "open nowhere: no such file or directory"},
		{"run of nothing", nil, []string{"run", "--manifests=nowhere"}, "open nowhere: no such file or directory"},
		{"run without a source", nil, []string{"run"}, "nothing to serve: this is not a pod of a cluster, and neither --manifests DIR nor --kubeconfig FILE is given"},
		{"a kubeconfig of the environment is not named", []string{"KUBECONFIG=/dev/null"}, []string{"run"}, "nothing to serve"},
		{"two sources", nil, []string{"run", "--manifests=.", "--kubeconfig=x"}, "--manifests and --kubeconfig exclude each other"},
		{"a cluster's flag for a folder", nil, []string{"run", "--manifests=.", "--watch-namespace=a"}, "--watch-namespace chooses among a cluster's namespaces"},
		{"a status for a folder", nil, []string{"run", "--manifests=.", "--publish-status-address=192.0.2.7"}, "--publish-service and --publish-status-address write to a cluster"},
		{"a folder's flag for a cluster", nil, []string{"run", "--kubeconfig=x", "--map=web=localhost:1"}, "--map default/web=localhost:1: only Services of a folder can be mapped"},
		{"a kubeconfig that is not there", nil, []string{"run", "--kubeconfig=nowhere", "--http-port=0", "--https-port=0", "--admin-port=0"}, "nowhere: no such file or directory"},
		{"a selector that is none", nil, []string{"run", "--kubeconfig=nowhere", "--watch-namespace-selector=a=b=c", "--http-port=0", "--https-port=0", "--admin-port=0"}, "--watch-namespace-selector"},
		{"a demo in a folder that is in use", nil, []string{"demo", "--dir=/", "--http-port=0", "--https-port=0", "--admin-port=0"}, `--dir: "/" is not an empty folder`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := sallyport(t, test.env, test.args...)
			if got.code != 2 || got.out != "" || !strings.Contains(got.err, test.want) {
				t.Errorf("sallyport %q exits with %d, prints %q, says\n%s\nwant 2, nothing, and %q", test.args, got.code, got.out, got.err, test.want)
			}
		})
	}
}

func TestATakenPortNamesTheFlagThatMovesIt(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for _, command := range [][]string{{"run", "--manifests=."}, {"demo"}} {
		for _, flag := range []string{"--http-port", "--https-port", "--admin-port"} {
			args := append(command, "--bind-address=127.0.0.1", "--admin-address=127.0.0.1", "--http-port=0", "--https-port=0", "--admin-port=0", flag+"="+port)
			got := sallyport(t, nil, args...)
			want := "port " + port + " is taken by another process: stop it, or choose another port with " + flag + "\n"
			if got.code != 2 || !strings.Contains(got.err, want) || got.out != "" {
				t.Errorf("%s %s=%s exits with %d and says\n%s\nwant 2 and %s", command[0], flag, port, got.code, got.err, want)
			}
		}
	}
}

func TestVersionSaysWhatTheBinaryIs(t *testing.T) {
	text := sallyport(t, nil, "version")
	if text.code != 0 || !strings.HasPrefix(text.out, "sallyport ") || strings.Count(text.out, "\n") != 1 {
		t.Errorf("version exits with %d and prints %q", text.code, text.out)
	}
	var b build
	if err := json.Unmarshal([]byte(sallyport(t, nil, "version", "-o", "json").out), &b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.Go, "go1.") || !strings.Contains(b.Platform, "/") || b.Version == "" || !strings.Contains(text.out, b.Version) {
		t.Errorf("version -o json is %+v beside %q", b, text.out)
	}
	if flag := sallyport(t, nil, "--version"); flag != text {
		t.Errorf("--version is %+v, want %+v", flag, text)
	}
	if yaml := sallyport(t, []string{"SALLYPORT_OUTPUT=yaml"}, "version").out; !strings.Contains(yaml, "version: "+b.Version+"\n") {
		t.Errorf("version in YAML is %q", yaml)
	}
}

func TestAMisspeltVariableIsTold(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/a.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`})
	const want = "SALLYPORT_INGRES_CLASS: no flag has this variable, did you mean SALLYPORT_INGRESS_CLASS?"
	env := []string{"SALLYPORT_INGRES_CLASS=x", "SALLYPORT_HTTP_PORT=80", "SALLYPORT_OUTPUT=text"}
	for _, args := range [][]string{{"version"}, {"check", "m"}, {"routes", "m"}} {
		if got := sallyportIn(t, folder, env, args...); got.code != 0 || strings.Count(got.err, "SALLYPORT_") != 2 || !strings.HasPrefix(got.err, "warning: "+want+"\n") {
			t.Errorf("%s exits with %d and says %q, want %s", args[0], got.code, got.err, want)
		}
	}
	p := e2e.LaunchIn(t, env[:1], "--manifests="+folder+"/m", "--map=web=127.0.0.1:3000")
	p.WaitReady(t)
	for _, want := range []string{`"level":"WARN","msg":"` + want + `"`, `"level":"WARN","msg":"--map default/web=127.0.0.1:3000: no manifest has a Service default/web, and no Ingress asks for one"`} {
		if strings.Count(p.Log(), want) != 1 {
			t.Errorf("run does not say once %s", want)
		}
	}
}

func TestHelpGoesToStandardOutputAndIsNoMistake(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"run", "-h"}, {"check", "--help"}, {"demo", "--help"}} {
		if got := sallyport(t, nil, args...); got.code != 0 || got.err != "" || !strings.Contains(got.out, "Usage:") {
			t.Errorf("sallyport %q exits with %d, prints %d bytes and says %q", args, got.code, len(got.out), got.err)
		}
	}
}

const fanOut = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{name: http, port: 80, targetPort: 8000}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec:
  ports: [{port: 8081}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{name: http, port: 8000}]
endpoints: [{addresses: [192.0.2.1]}, {addresses: [192.0.2.2]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: a.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
      - {path: /exact, pathType: Exact, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api, namespace: shop}
spec:
  rules:
  - http:
      paths:
      - {path: /api, pathType: Prefix, backend: {service: {name: api, port: {number: 8081}}}}
`

func TestRoutesPrintsTheTableInTheOrderItIsTried(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": fanOut})
	got := sallyportIn(t, folder, nil, "routes", "m")
	want := `HOST     TYPE     PATH     SERVICE         INGRESS
a.test   Exact    /exact   web:80          default/web
a.test   Prefix   /        web:http        default/web
*        Prefix   /api     shop/api:8081   shop/api
`
	if got.code != 0 || got.out != want {
		t.Errorf("routes exits with %d and prints\n%s\nwant\n%s", got.code, got.out, want)
	}
	if !strings.Contains(got.err, "1 problem; see: sallyport check m\n") {
		t.Errorf("routes says %q, want the number of problems", got.err)
	}
	wide := sallyportIn(t, folder, nil, "routes", "-o", "wide", "--no-headers", "--map=shop/api=127.0.0.1:3000", "m")
	want = `a.test   Exact    /exact   web:80          default/web   2   m/all.yaml:32
a.test   Prefix   /        web:http        default/web   2   m/all.yaml:31
*        Prefix   /api     shop/api:8081   shop/api      1   m/all.yaml:41
`
	if wide.out != want || wide.err != "" {
		t.Errorf("routes -o wide prints\n%s\nwant\n%s\nand says %q, want nothing", wide.out, want, wide.err)
	}
}

func TestRoutesForMachinesHaveEveryField(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": fanOut})
	var rows []routeRow
	if err := json.Unmarshal([]byte(sallyportIn(t, folder, nil, "routes", "-o", "json", "m").out), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	got := rows[1]
	if got.Host != "a.test" || got.Path != "/" || got.Type != "Prefix" || got.Namespace != "default" || got.Service != "web" || got.Port != "http" ||
		strings.Join(got.Endpoints, " ") != "192.0.2.1:8000 192.0.2.2:8000" || got.Ingress != "default/web" || got.File != "m/all.yaml" || got.Line != 31 {
		t.Errorf("row is %+v", got)
	}
}

// TestMappingsThatLeadNowhereAreTold maps what no manifest has and what no Ingress leads to.
func TestMappingsThatLeadNowhereAreTold(t *testing.T) {
	manifests := fanOut + `---
apiVersion: v1
kind: Service
metadata: {name: idle}
spec:
  ports: [{name: http, port: 80}, {name: admin, port: 81}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: absent}
spec:
  rules:
  - host: b.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: absent, port: {name: http}}}}
      - {path: /x, pathType: Prefix, backend: {service: {name: web, port: {name: nope}}}}
`
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": manifests})
	for mapping, want := range map[string]string{
		"web":          "",
		"web:80":       "",
		"web:http":     "",
		"absent":       "",
		"absent:http":  "",
		"shop/api":     "",
		"wbe":          "no manifest has a Service default/wbe, and no Ingress asks for one, did you mean default/web?",
		"api":          "no manifest has a Service default/api, and no Ingress asks for one, did you mean shop/api?",
		"store":        "no manifest has a Service default/store, and no Ingress asks for one",
		"web:81":       `Service default/web has no port 81; it has 80 "http"`,
		"web:htpp":     `Service default/web has no port htpp, did you mean http?; it has 80 "http"`,
		"web:nope":     `Service default/web has no port nope; it has 80 "http"`,
		"idle":         "no Ingress leads to Service default/idle",
		"idle:81":      "no Ingress leads to Service default/idle",
		"absent:https": "no Ingress leads to port https of Service default/absent; asked for is http",
	} {
		line := ""
		if want != "" {
			name := mapping
			if !strings.Contains(name, "/") {
				name = "default/" + name
			}
			line = "warning: --map " + name + "=127.0.0.1:3000: " + want + "\n"
		}
		for _, command := range []string{"routes", "check"} {
			got := sallyportIn(t, folder, nil, command, "--map="+mapping+"=127.0.0.1:3000", "m").err
			told := ""
			for l := range strings.Lines(got) {
				if strings.HasPrefix(l, "warning: ") {
					told += l
				}
			}
			if told != line {
				t.Errorf("%s --map=%s says\n%s\nwant %q", command, mapping, got, line)
			}
		}
	}
}

// TestMapCuresNoEndpoints checks a folder whose pods are elsewhere, as it will be served.
func TestMapCuresNoEndpoints(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": fanOut})
	for mapping, cured := range map[string]bool{"shop/api": true, "shop/api:8081": true, "shop/api:80": false, "shop/apy": false, "web": false} {
		got := sallyportIn(t, folder, nil, "check", "--map="+mapping+"=127.0.0.1:3000", "m")
		if got.code != 0 || strings.Contains(got.out, "(NoEndpoints)") == cured {
			t.Errorf("check --map=%s exits with %d and prints\n%s\nwant no NoEndpoints: %t", mapping, got.code, got.out, cured)
		}
	}
}

const broken = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: true
spec:
  rules:
  - host: a.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
`

func TestCheckNamesEveryProblemByFileAndLine(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": fanOut, "m/bad.yaml": broken})
	got := sallyportIn(t, folder, nil, "check", "m")
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if got.code != 1 || len(lines) < 2 {
		t.Fatalf("check exits with %d and prints\n%s", got.code, got.out)
	}
	for _, want := range []string{"m/bad.yaml:7: error: ", "(NoEndpoints)"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check prints\n%s\nwant a line with %q", got.out, want)
		}
	}
	if !strings.HasPrefix(got.err, "m: ") || !strings.Contains(got.err, "error") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("check says %q, want a summary in one line", got.err)
	}
	var r report
	if err := json.Unmarshal([]byte(sallyportIn(t, folder, nil, "check", "-o", "json", "m").out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != len(lines) || r.Errors+r.Warnings != len(lines) || r.Errors == 0 {
		t.Errorf("JSON has %d problems, %d errors and %d warnings; the text has %d lines", len(r.Problems), r.Errors, r.Warnings, len(lines))
	}
}

func TestCheckExitsWithZeroWhenThereAreOnlyWarnings(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/all.yaml": fanOut})
	got := sallyportIn(t, folder, nil, "check", "m")
	if got.code != 0 || !strings.Contains(got.out, "warning: ") || strings.Contains(got.out, "error: ") {
		t.Errorf("check exits with %d and prints\n%s", got.code, got.out)
	}
}

func TestCheckOfGoodManifestsPrintsNothing(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"m/a.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`})
	got := sallyportIn(t, folder, nil, "check", "m")
	if got.code != 0 || got.out != "" || got.err != "m: 0 routes, no problems\n" {
		t.Errorf("check exits with %d, prints %q and says %q", got.code, got.out, got.err)
	}
}

func TestColumnsEndWithoutBlanks(t *testing.T) {
	var out bytes.Buffer
	printTable(&out, [][]string{{"A", "B"}, {"long", ""}, {"", "x"}})
	if want := "A      B\nlong\n       x\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
