package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Variable is the name of the environment variable that stands in for a flag: SALLYPORT_HTTP_PORT for http-port.
func Variable(flag string) string {
	return "SALLYPORT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Environment sets the flags that the command line did not set from the environment. An empty variable counts as set:
// it empties a list or a name, and is a mistake for a number. Call it once, after the command line has been parsed.
// The error names the variable, its value and what was expected.
//
// Flags that are another's second name have no variable: two variables could contradict each other with nobody to say
// which came last.
func Environment(flags *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	flags.VisitAll(func(flag *pflag.Flag) {
		value, ok := lookup(Variable(flag.Name))
		if !ok || err != nil || flag.Changed || flag.Hidden || flag.Name == "help" || aliasChanged(flags, flag.Name) {
			return
		}
		for _, one := range several(flag, value) {
			if err = flag.Value.Set(one); err != nil {
				err = fmt.Errorf("%s: %w", Variable(flag.Name), err)
				return
			}
		}
	})
	return err
}

// several splits the value of a variable where the flag would be repeated instead.
func several(flag *pflag.Flag, value string) []string {
	if l, ok := flag.Value.(*list[string]); ok && l.whole {
		return strings.Split(value, ",")
	}
	return []string{value}
}

// aliasChanged reports whether the command line set the flag under another name.
func aliasChanged(flags *pflag.FlagSet, name string) bool {
	for alias, names := range aliases {
		flag := flags.Lookup(alias)
		if flag == nil || !flag.Changed {
			continue
		}
		for _, same := range names {
			if same == name {
				return true
			}
		}
	}
	return false
}

// aliases are the second names of flags, as other controllers have taught them to people, and the flags they set.
var aliases = map[string][]string{
	"healthz-port":              {"admin-port"},
	"healthz-host":              {"admin-address"},
	"metrics-bind-address":      {"admin-address", "admin-port"},
	"health-probe-bind-address": {"admin-address", "admin-port"},
	"leader-elect":              {"disable-leader-election"},
	"v":                         {"log-level"},
}
