package config

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"sallyport/spelling"
)

// Strangers says of each variable of an environment that begins with SALLYPORT_ and stands in for no flag what was
// probably meant: a misspelt one is silent otherwise. The environment is in the form of os.Environ; known yields the
// flags of all commands, because a variable may be there for another one than this.
func Strangers(environ []string, known iter.Seq[string]) []string {
	flags := make(map[string]bool)
	var variables []string
	for name := range known {
		flags[name] = true
		variables = append(variables, Variable(name))
	}
	var told []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, "SALLYPORT_")
		if !ours || slices.Contains(variables, name) || isServiceLink(name, value) {
			continue
		}
		told = append(told, name+": "+explainVariable(name, strings.ToLower(strings.ReplaceAll(rest, "_", "-")), flags, variables))
	}
	slices.Sort(told)
	return told
}

func explainVariable(name, flag string, flags map[string]bool, variables []string) string {
	for _, first := range aliases[flag] {
		if flags[first] {
			return "a second name of a flag has no variable, use " + Variable(first)
		}
	}
	if advice, ok := Foreign(flag); ok {
		return fmt.Sprintf("there is no flag --%s here: %s", flag, advice)
	}
	if near := spelling.Nearest(name, slices.Values(variables)); near != "" {
		return "no flag has this variable, did you mean " + near + "?"
	}
	return "no flag has this variable"
}

// serviceLink are the names of variables that a cluster puts into Pods for a Service called sallyport, or sallyport-x.
// (kubernetes.io/docs/tutorials/services/connect-applications-service, "Environment Variables")
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}
