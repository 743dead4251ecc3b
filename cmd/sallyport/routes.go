package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport/config"
)

func newRoutes(w world) *cobra.Command {
	c, form, headless := config.Default(), newForm(formText, formWide), false
	command := &cobra.Command{
		Use:   "routes DIR...",
		Short: "Print the table that manifests would make",
		Long: "Routes reads folders of manifests, or single files, the way run would and prints the table they make, in the\n" +
			"order in which routes are tried. What is wrong with the manifests is left to check; its number is said on\nstandard error.",
		Example: "  sallyport routes ./manifests\n  sallyport routes -o wide ./manifests",
		Args:    someFolders,
		RunE: func(command *cobra.Command, args []string) error {
			b, err := readManifests(c, args)
			if err != nil {
				return err
			}
			warn(w, b.idle)
			if n := len(b.problems); n > 0 {
				fmt.Fprintf(w.err, "%s; see: sallyport check %s\n", count(n, "problem"), strings.Join(append(given(command.Flags()), args...), " "))
			}
			rows := routeRows(b.result.Table, b.pools, b.folder.Locate)
			return form.print(w.out, rows, func(out io.Writer, wide bool) { printRoutes(out, rows, wide, !headless) })
		},
	}
	c.AddMap(command.Flags())
	c.AddClasses(command.Flags())
	c.AddServices(command.Flags())
	form.addFlag(command.Flags())
	command.Flags().BoolVar(&headless, "no-headers", false, "leave the line of column names out")
	return command
}

// given are the flags of the command line that decide what is read and built, as they can be given to check.
func given(flags *pflag.FlagSet) []string {
	var all []string
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Name != "output" && flag.Name != "no-headers" {
			all = append(all, quote("--"+flag.Name+"="+flag.Value.String()))
		}
	})
	return all
}

// printRoutes prints rows as a table.
func printRoutes(out io.Writer, rows []routeRow, wide, headers bool) {
	var table [][]string
	spread := slices.ContainsFunc(rows, func(r routeRow) bool { return r.RegexBy != "" })
	split := slices.ContainsFunc(rows, func(r routeRow) bool { return len(r.Canaries) > 0 })
	if headers {
		head := []string{"HOST", "TYPE", "PATH", "SERVICE", "INGRESS"}
		if spread {
			head = append(head, "REGEX BY")
		}
		if split {
			head = append(head, "CANARIES")
		}
		if wide {
			head = append(head, "ENDPOINTS", "PLACE")
		}
		table = append(table, head)
	}
	for _, r := range rows {
		line := []string{or(r.Host, "*"), r.Type, r.Path, or(r.target(), "-"), or(r.Ingress, "-")}
		if spread {
			line = append(line, or(r.RegexBy, "-"))
		}
		if split {
			line = append(line, or(r.canaries(), "-"))
		}
		if wide {
			line = append(line, strconv.Itoa(len(r.Endpoints)), or(r.place(), "-"))
		}
		table = append(table, line)
	}
	printTable(out, table)
}

func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}
