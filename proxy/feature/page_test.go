package feature

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/annotations.md anew")

const pagePath = "../../docs/annotations.md"

// TestReferencePageIsWhatTheFeaturesSay makes the reference page of the declarations and of the scripts, and compares.
func TestReferencePageIsWhatTheFeaturesSay(t *testing.T) {
	page := referencePage(t)
	if *update {
		if err := os.WriteFile(pagePath, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pagePath)
	if err != nil || string(have) != page {
		t.Errorf("docs/annotations.md is stale (%v): go test ./proxy/feature -run TestReferencePage -update", err)
	}
}

// TestEveryAnnotationHasAScript holds the scripts against the declarations: a name that no conversation writes was never
// seen in the product.
func TestEveryAnnotationHasAScript(t *testing.T) {
	all := scripts(t)
	for _, d := range Declarations() {
		if d.Annotation && len(all.naming(d.Name)) == 0 {
			t.Errorf("no script in e2e/testdata writes %s", d.Name)
		}
	}
}

// A scriptSet is the conversations by name.
type scriptSet map[string]string

func scripts(t *testing.T) scriptSet {
	files, err := filepath.Glob("../../e2e/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	all := make(scriptSet)
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "migration-") {
			continue // of mistakes, no examples
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// naming are the scripts that write an annotation.
func (s scriptSet) naming(name string) []string {
	writes := regexp.MustCompile(`ingress\.kubernetes\.io/` + regexp.QuoteMeta(name) + `["']?:`)
	var found []string
	for _, script := range slices.Sorted(maps.Keys(s)) {
		if writes.MatchString(s[script]) {
			found = append(found, script)
		}
	}
	return found
}

// example is a line of a script that writes an annotation.
func (s scriptSet) example(name string) string {
	writes := regexp.MustCompile(`(?m)^ *((?:nginx\.)?ingress\.kubernetes\.io/` + regexp.QuoteMeta(name) + `: .*)$`)
	for _, script := range slices.Sorted(maps.Keys(s)) {
		if found := writes.FindStringSubmatch(s[script]); found != nil && !strings.Contains(found[1], "|") {
			return found[1]
		}
	}
	return ""
}

func referencePage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`# Annotations and the ConfigMap

This page is made of what the features declare and of the scripts that hold them (` + "`e2e/testdata`" + `); a test fails when it
is stale.

Annotations are read under ` + "`nginx.ingress.kubernetes.io/`" + ` and under ` + "`ingress.kubernetes.io/`" + `; the latter wins where both
are present. Values are strings: quote ` + "`\"true\"`" + ` and numbers in YAML.

A value that cannot be read is told (an Event, a line of ` + "`sallyport check`" + `, a metric) and the default is used; where it
guards routes, those answer 503 rather than stand open. So does a guard that is misspelt.

"and key" means that the ConfigMap of the controller (` + "`--configmap namespace/name`" + `) has a key of the same name, which gives
the default. It is read live.

`)
	all := scripts(t)
	for _, s := range sections() {
		writeSection(&b, s, all)
	}
	b.WriteString("## Not supported yet\n\nThese annotations of ingress-nginx are told when they are met. Those that guard routes close them.\n\n")
	declared := make(map[string]bool)
	for _, d := range Declarations() {
		if d.Annotation {
			declared[d.Name] = true
		}
	}
	for _, name := range nginxNames {
		if !declared[name] {
			fmt.Fprintf(&b, "- `%s`%s\n", name, map[bool]string{true: ": never read, see below", false: ""}[strings.HasSuffix(name, "-snippet")])
		}
	}
	b.WriteString("\n## Snippets\n\nNo annotation or key with `-snippet` in its name is read: " + snippetsRefused + ". What is told of one names the " +
		"annotation that does the same, where its text sets or removes a header, returns a redirect or is another of the harmless idioms. Where it keeps clients out, " +
		"as with `deny` or `auth_basic`, the routes answer 503.\n\n## Keys of the ConfigMap that are not supported yet\n\nThey are told when they are met.\n\n")
	for _, key := range slices.Sorted(slices.Values(laterKeys)) {
		fmt.Fprintf(&b, "- `%s`\n", key)
	}
	b.WriteString("\n## Keys that mean nothing here\n\nThey tune nginx itself and are taken in silence.\n\n")
	for _, key := range slices.Sorted(slices.Values(idleKeys)) {
		fmt.Fprintf(&b, "- `%s`\n", key)
	}
	b.WriteString("\n## Names that do not exist\n\nPeople write them all the same. What to do instead:\n\n| Name begins with | Instead |\n|---|---|\n")
	for _, r := range replacements {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.prefix, r.instead)
	}
	return b.String()
}

type section struct {
	Section
	declarations []Declaration
}

func sections() []section {
	var all []section
	for _, d := range Declarations() {
		at := slices.IndexFunc(all, func(s section) bool { return s.Section == d.Section })
		if at < 0 {
			all, at = append(all, section{Section: d.Section}), len(all)
		}
		all[at].declarations = append(all[at].declarations, d)
	}
	return all
}

func writeSection(b *strings.Builder, s section, all scriptSet) {
	fmt.Fprintf(b, "## %s\n\n", s.Title)
	if s.About != "" {
		fmt.Fprintf(b, "%s\n\n", s.About)
	}
	fmt.Fprintf(b, "Holds for %s.\n\n| Name | Values | Default | Meaning |\n|---|---|---|---|\n", s.Reach)
	var examples, shown []string
	for _, d := range s.declarations {
		name := "`" + d.Name + "`"
		switch {
		case !d.Annotation:
			name = "key " + name
		case d.Key:
			name += " and key"
		}
		value := d.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, cell(d.Values), cell(value), cell(d.Usage))
		if !d.Annotation {
			continue
		}
		if line := all.example(d.Name); line != "" {
			examples = append(examples, line)
		}
		for _, script := range all.naming(d.Name) {
			if !slices.Contains(shown, script) {
				shown = append(shown, script)
			}
		}
	}
	if len(examples) > 0 {
		fmt.Fprintf(b, "\n```yaml\n%s\n```\n", strings.Join(examples, "\n"))
	}
	if len(shown) > 0 {
		slices.Sort(shown)
		fmt.Fprintf(b, "\nShown by `%s`.\n", strings.Join(shown, "`, `"))
	}
	b.WriteString("\n")
}

// cell is text fit for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
