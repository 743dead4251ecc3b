package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

const (
	formText = "text" // for people
	formWide = "wide" // for people with a wide screen
	formJSON = "json"
	formYAML = "yaml"
)

// form is how a command prints its result: the flag -o.
type form struct {
	chosen  string
	choices []string
}

// newForm offers the given forms for people, the first by default, and JSON and YAML.
func newForm(forPeople ...string) *form {
	return &form{forPeople[0], append(forPeople, formJSON, formYAML)}
}

func (f *form) addFlag(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "form of the output: "+strings.Join(f.choices, ", "))
}

// Type, String and Set make it a flag's value.
func (f *form) Type() string   { return strings.Join(f.choices, "|") }
func (f *form) String() string { return f.chosen }

func (f *form) Set(s string) error {
	for _, choice := range f.choices {
		if s == choice {
			f.chosen = s
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", s, strings.Join(f.choices, ", "))
}

// print writes value for machines, or calls text for people.
func (f *form) print(out io.Writer, value any, text func(out io.Writer, wide bool)) error {
	switch f.chosen {
	case formJSON:
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case formYAML:
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	}
	text(out, f.chosen == formWide)
	return nil
}

// printTable writes rows in columns three blanks apart, without blanks at the ends of lines.
func printTable(out io.Writer, rows [][]string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
}

// count is "1 error", "2 errors".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
