package feature

import (
	"fmt"
	"strconv"
	"strings"
)

// The prefixes under which annotations are read, the one that wins first.
const (
	OwnPrefix   = "ingress.kubernetes.io/"
	NginxPrefix = "nginx.ingress.kubernetes.io/"
)

var prefixes = [...]string{OwnPrefix, NginxPrefix}

// Annotations is to the routes of an Ingress what flag.FlagSet is to a program: one call declares an annotation, reads
// it and checks its value. A bad value is a collected Problem and the default is returned; where the annotation guards
// the routes, they are denied.
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
	d := Declaration{name, "true or false", strconv.FormatBool(usual), usage}
	return read(a, d, usual, func(value string) (bool, string) {
		v, err := strconv.ParseBool(value)
		return v, unless(err == nil, `expected "true" or "false"`)
	})
}

// Int reads a whole number, without spaces around. Its bounds are for the feature to check, with [Annotations.Refuse].
func (a *Annotations) Int(name string, usual int, usage string) int {
	d := Declaration{name, "a whole number", strconv.Itoa(usual), usage}
	return read(a, d, usual, func(value string) (int, string) {
		v, err := strconv.Atoi(value)
		return v, unless(err == nil, "expected a whole number")
	})
}

// String reads one line of text, which may not be empty. Spaces around it are dropped.
func (a *Annotations) String(name, usual, usage string) string {
	d := Declaration{name, "text", usual, usage}
	return read(a, d, usual, func(value string) (string, string) {
		value = strings.TrimSpace(value)
		return value, unless(value != "" && !strings.ContainsAny(value, "\r\n"), "expected one line of text")
	})
}

// Refuse is for a value that was read well but is not one the feature takes. Expected says what is, as in "expected a
// number from 300 to 308".
func (a *Annotations) Refuse(name, expected string) {
	if key, value, ok := a.find(name); ok {
		a.refuse(key, value, expected)
	}
}

// read declares an annotation and returns its value, or the usual one where there is none or parse says what it expected.
func read[T any](a *Annotations, d Declaration, usual T, parse func(string) (T, string)) T {
	a.declared = append(a.declared, d)
	key, value, ok := a.find(d.Name)
	if !ok {
		return usual
	}
	v, expected := parse(value)
	if expected != "" {
		if d.Default != "" && !guards(d.Name) {
			expected += fmt.Sprintf("; the default, %s, is used", d.Default)
		}
		a.refuse(key, value, expected)
		return usual
	}
	return v
}

func unless(ok bool, expected string) string {
	if ok {
		return ""
	}
	return expected
}

// find returns the value of a name under the prefix that wins, with the name in full.
func (a *Annotations) find(name string) (key, value string, ok bool) {
	for _, prefix := range prefixes {
		if value, ok = a.values[prefix+name]; ok {
			return prefix + name, value, true
		}
	}
	return "", "", false
}

func (a *Annotations) refuse(key, value, expected string) {
	a.failed = true
	p := Problem{Annotation: key, Value: value, Reason: BadValue, Message: fmt.Sprintf("%q: %s", value, expected)}
	if name, _ := nameOf(key); guards(name) {
		p.Denies, p.Message = true, p.Message+closed
	}
	a.problems = append(a.problems, p)
}
