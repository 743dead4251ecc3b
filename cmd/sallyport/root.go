package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport/config"
)

// The exit codes.
const (
	exitGood     = 0
	exitFindings = 1 // a check found something
	exitCannot   = 2 // wrong usage, or the program cannot run
)

// errFindings ends a command that did its work and found something. Everything about it has been printed.
var errFindings = errors.New("findings")

// execute runs one command line and returns the exit code.
func execute(w world, args []string) int {
	root := newRoot(w)
	root.SetArgs(args)
	command, err := root.ExecuteC()
	switch {
	case err == nil:
		return exitGood
	case errors.Is(err, errFindings):
		return exitFindings
	}
	fmt.Fprintf(w.err, "sallyport: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(w.err, "Try `%s --help`.\n", command.CommandPath())
	}
	return exitCannot
}

// A usageError is a mistake in the command line: help is what helps.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func newRoot(w world) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:               "sallyport",
		Short:             "A Kubernetes Ingress controller that is its own reverse proxy",
		Long:              "Sallyport serves Ingresses: it watches a cluster or a folder of manifests, keeps a table of routes,\nand answers HTTP and HTTPS by it.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintln(w.out, readBuild())
				return err
			}
			return command.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "the same as the command version")
	root.SetOut(w.out)
	root.SetErr(w.err)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return usageError{config.Explain(command.Flags(), err)}
	})
	// cobra's own -h is left; its "help" command is the same thing twice.
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help", Args: cobra.NoArgs})
	root.AddCommand(newRun(w), newCheck(w), newRoutes(w), newDemo(w), newVersion(w))
	for _, command := range root.Commands() {
		fillFromEnvironment(w, command)
		keepOrder(command.Flags())
	}
	return root
}

// fillFromEnvironment makes a command read SALLYPORT_ variables for the flags that the command line leaves. A command
// with a log says there which variables mean nothing; the others say it at once.
func fillFromEnvironment(w world, command *cobra.Command) {
	command.PreRunE = func(command *cobra.Command, _ []string) error {
		if err := config.Environment(command.Flags(), w.lookup); err != nil {
			return usageError{err}
		}
		if command.Flags().Lookup("log-format") == nil {
			warn(w, strangers(w, command))
		}
		return nil
	}
}

// strangers are the SALLYPORT_ variables that are no command's.
func strangers(w world, command *cobra.Command) []string {
	if w.environ == nil {
		return nil
	}
	return config.Strangers(w.environ(), func(yield func(string) bool) {
		more := true
		for _, command := range command.Root().Commands() {
			command.Flags().VisitAll(func(flag *pflag.Flag) {
				more = more && (flag.Hidden || flag.Name == "help" || yield(flag.Name))
			})
		}
	})
}

// keepOrder keeps help in the order in which flags were added, which is by what they are about.
func keepOrder(flags *pflag.FlagSet) { flags.SortFlags = false }

// noArguments refuses arguments and, for a command that does not exist, says which there are.
func noArguments(command *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case command.HasParent():
		return usageError{fmt.Errorf("%s takes no arguments, got %q", command.CommandPath(), args[0])}
	}
	var names []string
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return usageError{fmt.Errorf("there is no command %q, expected one of %s", args[0], strings.Join(names, ", "))}
}

// someFolders wants at least one argument.
func someFolders(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s: the folder is missing, expected %s", command.CommandPath(), command.Use)}
	}
	return nil
}
