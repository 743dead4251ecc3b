package feature

import (
	"fmt"
	"strconv"
)

// The prefixes under which annotations are read, the one that wins first.
const (
	OwnPrefix   = "ingress.kubernetes.io/"
	NginxPrefix = "nginx.ingress.kubernetes.io/"
)

var prefixes = [...]string{OwnPrefix, NginxPrefix}

// Annotations is to the routes of an Ingress what flag.FlagSet is to a program: one call declares an annotation, reads
// it and checks its value. A bad value is a collected Problem and the default is returned.
type Annotations struct {
	values   map[string]string // by full name
	declared []Declaration
	problems []Problem
	failed   bool // the feature that runs has read a bad value
}

// A Declaration is what a feature says of an annotation: the reference page is made of them.
type Declaration struct {
	Name    string // without prefix
	Values  string // what may be written, in words: "true or false"
	Default string
	Usage   string
}

// A Problem is something wrong with an annotation.
type Problem struct {
	Annotation string // in full, as written
	Value      string
	Message    string // what was expected, with the value
	// Reason tells the kinds apart.
	Reason Reason
	// Denies says that the routes of the Ingress answer 503 because of it.
	Denies bool
}

// A Reason is the kind of a Problem.
type Reason uint8

const (
	BadValue    Reason = iota // the value is not one that the annotation takes
	UnknownName               // nothing of this name exists
	Unsupported               // the reference has it, we do not
)

// Failed reports whether the feature that runs has read a bad value, or one that is missing where it must not be.
func (a *Annotations) Failed() bool { return a.failed }

// Bool reads a switch. It takes what ingress-nginx takes: the words of strconv.ParseBool, without spaces around.
func (a *Annotations) Bool(name string, usual bool, usage string) bool {
	key, value, ok := a.read(Declaration{name, "true or false", strconv.FormatBool(usual), usage})
	if !ok {
		return usual
	}
	v, err := strconv.ParseBool(value)
	if err != nil {
		a.bad(key, value, `expected "true" or "false"`)
		return usual
	}
	return v
}

// read declares an annotation and returns the value it has under the prefix that wins, with the name in full.
func (a *Annotations) read(d Declaration) (key, value string, ok bool) {
	a.declared = append(a.declared, d)
	for _, prefix := range prefixes {
		if value, ok = a.values[prefix+d.Name]; ok {
			return prefix + d.Name, value, true
		}
	}
	return "", "", false
}

func (a *Annotations) bad(key, value, expected string) {
	a.failed = true
	a.problems = append(a.problems, Problem{
		Annotation: key, Value: value, Reason: BadValue,
		Message: fmt.Sprintf("%q: %s", value, expected),
	})
}
