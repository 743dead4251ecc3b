package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/config"
	"sallyport/controller"
)

// report is the result of check for machines.
type report struct {
	Problems []finding `json:"problems"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
}

// finding is one problem for machines.
type finding struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Severity  string `json:"severity"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Field     string `json:"field,omitempty"`
	Message   string `json:"message"`
	Reason    string `json:"reason"`
}

func newCheck(w world) *cobra.Command {
	c, form := config.Default(), newForm(formText)
	command := &cobra.Command{
		Use:   "check DIR...",
		Short: "Say what is wrong with manifests",
		Long: "Check reads folders of manifests, or single files, the way run would and prints every problem, a line each, with\n" +
			"file and line. With the same --map as run it says what is left then.\n" +
			"It exits with 1 when one of them is an error and with 0 when there are only warnings.",
		Example: "  sallyport check ./manifests\n  sallyport check --map web=localhost:3000 ./manifests\n  sallyport check -o json ./manifests | jq -r '.problems[].message'",
		Args:    someFolders,
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := readManifests(c, args)
			if err != nil {
				return err
			}
			warn(w, b.idle)
			return check(w, form, b)
		},
	}
	c.AddMap(command.Flags())
	c.AddClasses(command.Flags())
	c.AddServices(command.Flags())
	form.addFlag(command.Flags())
	return command
}

func check(w world, form *form, b *built) error {
	r := report{Problems: []finding{}}
	for _, p := range b.problems {
		r.Problems = append(r.Problems, finding{p.File, p.Line, p.Severity.String(), p.Object.Kind, p.Object.Namespace, p.Object.Name, p.Field, p.Message, p.Reason})
		if p.Severity == controller.Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
	err := form.print(w.out, r, func(out io.Writer, _ bool) {
		for _, p := range b.problems {
			fmt.Fprintln(out, p)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w.err, r.summary(b))
	if r.Errors > 0 {
		return errFindings
	}
	return nil
}

func (r report) summary(b *built) string {
	found := "no problems"
	if len(r.Problems) > 0 {
		found = count(r.Errors, "error") + " and " + count(r.Warnings, "warning")
	}
	return fmt.Sprintf("%s: %s, %s", strings.Join(b.folders, ", "), count(b.result.Table.Len(), "route"), found)
}
