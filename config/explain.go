package config

import (
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/pflag"

	"sallyport/spelling"
)

// Explain turns what pflag says of a command line into an error that names the flag, the value and what was expected,
// or the flag that was meant. Other errors are returned as they are.
func Explain(flags *pflag.FlagSet, err error) error {
	var (
		invalid *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: the value is missing, expected %s", missing.GetFlag().Name, missing.GetFlag().Value.Type())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return explainUnknown(flags, unknown.GetSpecifiedName())
	}
	return err
}

func explainUnknown(flags *pflag.FlagSet, name string) error {
	if advice, ok := Foreign(name); ok {
		return fmt.Errorf("--%s: there is no such flag here: %s", name, advice)
	}
	if near := spelling.Nearest(name, visible(flags)); near != "" {
		return fmt.Errorf("--%s: there is no such flag, did you mean --%s?", name, near)
	}
	return fmt.Errorf("--%s: there is no such flag", name)
}

// visible yields the names of the flags that help shows.
func visible(flags *pflag.FlagSet) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		flags.VisitAll(func(flag *pflag.Flag) {
			more = more && (flag.Hidden || yield(flag.Name))
		})
	}
}
