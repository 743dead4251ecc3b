package config

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
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
	if near := nearest(flags, name); near != "" {
		return fmt.Errorf("--%s: there is no such flag, did you mean --%s?", name, near)
	}
	return fmt.Errorf("--%s: there is no such flag", name)
}

// nearest is the flag whose name takes the fewest edits to reach, or nothing when that would be a guess: more than a
// third of the letters.
func nearest(flags *pflag.FlagSet, name string) string {
	best, least := "", len(name)/3+1
	flags.VisitAll(func(flag *pflag.Flag) {
		if d := distance(name, flag.Name); d < least && !flag.Hidden {
			best, least = flag.Name, d
		}
	})
	return best
}

// distance is how many letters must be put in, left out or exchanged to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			exchange := diagonal
			if a[i] != b[j] {
				exchange++
			}
			diagonal = row[j+1]
			row[j+1] = min(exchange, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
