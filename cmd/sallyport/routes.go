package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/config"
)

func newRoutes(w world) *cobra.Command {
	c, form, headless := config.Default(), newForm(formText, formWide), false
	command := &cobra.Command{
		Use:   "routes DIR...",
		Short: "Print the table that manifests would make",
		Long: "Routes reads folders of manifests the way run would and prints the table they make, in the order in which\n" +
			"routes are tried. What is wrong with the manifests is left to check; its number is said on standard error.",
		Example: "  sallyport routes ./manifests\n  sallyport routes -o wide ./manifests",
		Args:    someFolders,
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := readManifests(c, args)
			if err != nil {
				return err
			}
			if n := len(b.problems); n > 0 {
				fmt.Fprintf(w.err, "%s; see: sallyport check %s\n", count(n, "problem"), strings.Join(args, " "))
			}
			rows := routeRows(b.result.Table, b.pools, b.folder.Locate)
			return form.print(w.out, rows, func(out io.Writer, wide bool) { printRoutes(out, rows, wide, !headless) })
		},
	}
	c.AddMap(command.Flags())
	c.AddClasses(command.Flags())
	form.addFlag(command.Flags())
	command.Flags().BoolVar(&headless, "no-headers", false, "leave the line of column names out")
	return command
}

// printRoutes prints rows as a table.
func printRoutes(out io.Writer, rows []routeRow, wide, headers bool) {
	var table [][]string
	if headers {
		head := []string{"HOST", "TYPE", "PATH", "SERVICE", "INGRESS"}
		if wide {
			head = append(head, "ENDPOINTS", "PLACE")
		}
		table = append(table, head)
	}
	for _, r := range rows {
		line := []string{or(r.Host, "*"), r.Type, r.Path, or(r.target(), "-"), or(r.Ingress, "-")}
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
