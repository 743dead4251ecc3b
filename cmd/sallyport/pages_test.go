package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"sallyport/config"
	"sallyport/e2e"
)

var update = flag.Bool("update", false, "write docs/flags.md anew")

// flagGroups are the flags of run as the page shows them.
func flagGroups() []struct {
	title string
	flags *pflag.FlagSet
} {
	c := config.Default()
	group := func(title string, add ...func(*pflag.FlagSet)) (g struct {
		title string
		flags *pflag.FlagSet
	}) {
		g.title, g.flags = title, pflag.NewFlagSet("", pflag.ContinueOnError)
		g.flags.SortFlags = false
		for _, one := range add {
			one(g.flags)
		}
		return g
	}
	return []struct {
		title string
		flags *pflag.FlagSet
	}{
		group("Where objects come from", c.AddSources, c.AddMap),
		group("Where to listen", c.AddListeners),
		group("Which Ingresses are served", c.AddClasses),
		group("Which Services, and which of their endpoints", c.AddServices, c.AddNearness),
		group("Certificates from an authority", c.AddACME),
		group("What is written to a cluster", c.AddReports),
		group("How the process behaves", c.AddProcess),
	}
}

const flagsHead = `# Flags

The flags of ` + "`sallyport run`" + `. ` + "`demo`, `check` and `routes`" + ` take those that mean something to them; ` + "`--help`" + ` of each has the list.

Every flag can be given as an environment variable: a flag on the command line decides, else the variable, else the default.
Flags marked repeatable take several values with commas between them too (` + "`--manifests`" + ` only in its variable); given at all,
they replace the default. A variable that begins with SALLYPORT_ and is no flag's is told, with the nearest that is. Lengths of time are written like ` + "`10s`" + ` or ` + "`1m30s`" + `; a number alone counts seconds.

Where ingress-nginx has the same flag, the name is the same. Its ` + "`--healthz-port`, `--healthz-host` and `--v`" + `, and
` + "`--metrics-bind-address`, `--health-probe-bind-address` and `--leader-elect`" + ` of kubebuilder programs, are understood too. A flag that only
they have is refused with the name of the one that does its work here.
`

func flagsPage() string {
	var b strings.Builder
	b.WriteString(flagsHead)
	for _, group := range flagGroups() {
		fmt.Fprintf(&b, "\n## %s\n\n| Flag | Default | Variable | Meaning |\n|---|---|---|---|\n", group.title)
		group.flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			label, usage := pflag.UnquoteUsage(f)
			name := "--" + f.Name
			if label != "" && label != "bool" {
				name += " " + label
			}
			fallback := f.DefValue
			if fallback != "" {
				fallback = "`" + fallback + "`"
			}
			escape := strings.NewReplacer("|", `\|`)
			fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", escape.Replace(name), fallback, config.Variable(f.Name), usage)
		})
	}
	return b.String()
}

// TestFlagsPageIsTrue compares docs/flags.md with the flags; -update writes it.
func TestFlagsPageIsTrue(t *testing.T) {
	const path = "../../docs/flags.md"
	want := flagsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the flags say; write it anew: go test ./cmd/sallyport -run TestFlagsPageIsTrue -update", path)
	}
}

// reasons are the values of the constants Reason... in a package's source.
func reasons(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, value)
			}
			return true
		})
	}
	slices.Sort(all)
	return all
}

func TestEveryReasonOfAProblemIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]{20,} \\| [^|]{10,} \\|$").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, match[1])
	}
	slices.Sort(documented)
	want := reasons(t, "../../controller")
	if len(want) < 20 {
		t.Fatalf("found the reasons %q in controller; are they still constants called Reason...?", want)
	}
	if !slices.Equal(documented, want) {
		t.Errorf("docs/problems.md has rows for\n%q\nthe constants of controller are\n%q", documented, want)
	}
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, match[1])
			}
		}
	}
	if links < 10 {
		t.Errorf("found %d links, want more; are they still found?", links)
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (counter|gauge|histogram) \\|").FindAllStringSubmatch(string(text), -1) {
		documented[match[1]+" "+match[2]] = true
	}
	// A demo with a problem in it has a value for every metric.
	d := startDemo(t, "--access-log=text")
	e2e.WriteFile(t, filepath.Join(d.folder(t), "5-broken.yaml"), broken)
	e2e.WriteFile(t, filepath.Join(d.folder(t), "6-secret.yaml"), ownCertificate(t, "own.localhost"))
	shell(t, "curl -sk https://secure.localhost:30443/")
	served := make(map[string]bool)
	e2e.Eventually(t, "the problem is counted", func() error {
		clear(served)
		page := shell(t, "curl -s http://localhost:10254/metrics")
		for _, match := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(match[1], "go_") && !strings.HasPrefix(match[1], "process_") {
				served[match[1]+" "+match[2]] = true
			}
		}
		if !served["sallyport_problems gauge"] {
			return fmt.Errorf("the page is\n%s", page)
		}
		return nil
	})
	for metric := range served {
		if !documented[metric] {
			t.Errorf("docs/metrics.md has no row for %s", metric)
		}
	}
	for metric := range documented {
		if ordering := strings.HasPrefix(metric, "sallyport_acme_"); !served[metric] && !ordering { // e2e/acme orders
			t.Errorf("docs/metrics.md has a row for %s, which is not served", metric)
		}
	}
}
