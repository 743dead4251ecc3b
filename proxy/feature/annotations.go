package feature

import (
	"fmt"
	"slices"
	"strings"
)

// The prefixes under which annotations are read, the one that wins first.
const (
	OwnPrefix   = "ingress.kubernetes.io/"
	NginxPrefix = "nginx.ingress.kubernetes.io/"
)

var prefixes = [...]string{OwnPrefix, NginxPrefix}

// Annotations is to the routes of an Ingress what flag.FlagSet is to a program: one call declares an annotation, reads
// it and checks its value (values.go, objects.go). A bad value is a collected Problem and the default is returned; where
// the annotation guards the routes, they are denied.
//
// [Annotations.Shared], [Annotations.Config] and [Annotations.Strict] are views of the same Annotations, whose readers
// look elsewhere too or take mistakes more seriously.
type Annotations struct {
	*reading
	scope scope
}

// reading is what all views of one Annotations share.
type reading struct {
	in       Input
	written  map[string]written // the annotations under our prefixes, by name
	section  Section
	collect  bool // declarations are wanted, not only values
	declared []Declaration
	problems []Problem
	failed   bool // the feature that runs has read a bad value
}

// A written is an annotation as somebody wrote it.
type written struct{ key, value string }

// newAnnotations returns what features read of an Ingress.
func newAnnotations(in Input) *Annotations {
	a := &Annotations{reading: &reading{in: in}}
	for key, value := range in.Annotations {
		name, ok := nameOf(key)
		if _, twice := in.Annotations[OwnPrefix+name]; !ok || twice && key != OwnPrefix+name {
			continue
		}
		if a.written == nil {
			a.written = make(map[string]written, len(in.Annotations))
		}
		a.written[name] = written{key, value}
	}
	return a
}

// scope says where a reader looks, and what a mistake costs.
type scope struct {
	config     bool // the key of the ConfigMap counts where the annotation is absent
	onlyConfig bool // there is no such annotation
	strict     bool // a bad value denies the routes
}

// A Section is a feature as the reference page shows it.
type Section struct {
	Title string
	Reach Reach
	// About is a paragraph: what the feature does, and where it differs from ingress-nginx.
	About string
}

// Reach says what an annotation holds for.
type Reach uint8

const (
	ReachPaths   Reach = iota // the paths of its Ingress
	ReachHosts                // the hosts of its Ingress, whichever Ingress a path is from
	ReachService              // the Service ports that its Ingress names
	ReachProcess              // everything: keys of the ConfigMap that no annotation stands beside
)

func (r Reach) String() string {
	return [...]string{"the paths of the Ingress", "the hosts of the Ingress", "the Services of the Ingress", "everything"}[r]
}

// A Declaration is what a feature says of an annotation or a key of the ConfigMap: the reference page is made of them.
type Declaration struct {
	Name    string // of the annotation without prefix, and of the key
	Values  string // what may be written, in words: "true or false"
	Default string
	Usage   string

	Annotation bool // there is an annotation of this name
	Key        bool // there is a key of this name
	Section    Section
}

// A Problem is something wrong with an annotation, or with a key of the ConfigMap.
type Problem struct {
	Annotation string // in full, as written; the key where Config is set
	Value      string
	Message    string // what was expected, with the value
	// Reason tells the kinds apart.
	Reason Reason
	// Denies says that the routes answer 503 because of it: those of the Ingress, or all.
	Denies bool
	// Config says that the ConfigMap is at fault.
	Config bool
}

// A Reason is the kind of a Problem.
type Reason uint8

const (
	BadValue         Reason = iota // the value is not one that the annotation takes
	UnknownName                    // nothing of this name exists
	Unsupported                    // the reference has it, we do not
	MissingSecret                  // the Secret it names does not exist
	MissingConfigMap               // the ConfigMap it names does not exist
	MissingService                 // the Service it names does not exist
	Inert                          // the annotation does nothing without another
	Doubtful                       // the value is taken, and will hardly do what somebody wants
)

// Section begins the declarations of a feature. Without it they stand at the end of the page.
func (a *Annotations) Section(title string, reach Reach, about string) {
	a.section = Section{title, reach, about}
}

// Shared is a view whose readers take the default from the key of the same name in the ConfigMap, where that has one.
func (a *Annotations) Shared() *Annotations {
	s := a.scope
	s.config = true
	return &Annotations{a.reading, s}
}

// Config is a view whose readers read the ConfigMap and no annotation.
func (a *Annotations) Config() *Annotations {
	s := a.scope
	s.config, s.onlyConfig = true, true
	return &Annotations{a.reading, s}
}

// Strict is a view in which a bad value denies the routes although its name is not one of those that guard by themselves.
func (a *Annotations) Strict() *Annotations {
	s := a.scope
	s.strict = true
	return &Annotations{a.reading, s}
}

// Failed reports whether the feature that runs has read a bad value, or one that is missing where it must not be.
func (a *Annotations) Failed() bool { return a.failed }

// Has reports whether somebody wrote the annotation, or the key where the view reads that, whatever its value.
func (a *Annotations) Has(name string) bool {
	_, _, ok := a.find(name)
	return ok && !a.scope.onlyConfig || a.scope.config && a.in.Config.value(name) != ""
}

// Refuse is for a value that was read well but is not one the feature takes. Expected says what is, as in "expected a
// number from 300 to 308".
func (a *Annotations) Refuse(name, expected string) { a.RefuseFor(BadValue, name, expected) }

// RefuseFor is Refuse for another reason than a bad value.
func (a *Annotations) RefuseFor(why Reason, name, expected string) {
	if key, value, ok := a.find(name); ok && !a.scope.onlyConfig {
		a.refuse(why, key, value, expected)
	} else if value := a.in.Config.value(name); a.scope.config && value != "" {
		a.refuseConfig(why, name, value, expected)
	}
}

// warn is for a value that is taken as it is, and about which somebody should know something. It closes nothing.
func (a *Annotations) warn(name, message string) {
	p := Problem{Reason: Doubtful}
	var ok bool
	if p.Annotation, p.Value, ok = a.find(name); !ok || a.scope.onlyConfig {
		if p.Annotation, p.Value, p.Config = name, a.in.Config.value(name), true; p.Value == "" {
			return
		}
	}
	p.Message = shown(p.Value) + ": " + message
	if !slices.Contains(a.problems, p) {
		a.problems = append(a.problems, p)
	}
}

// read declares an annotation and returns its value, or the usual one where there is none or parse says what it expected.
// Spaces and line ends around a value are dropped before: YAML's block scalars end in one.
func read[T any](a *Annotations, d Declaration, usual T, parse func(string) (T, string)) T {
	return readExactly(a, d, usual, func(value string) (T, string) { return parse(strings.TrimSpace(value)) })
}

// readExactly is read with the value as it was written.
func readExactly[T any](a *Annotations, d Declaration, usual T, parse func(string) (T, string)) T {
	a.declare(d)
	if !a.scope.onlyConfig {
		if key, value, ok := a.find(d.Name); ok {
			v, expected := parse(value)
			if expected == "" {
				return v
			}
			usual = readConfig(a, d, usual, parse)
			a.refuse(BadValue, key, value, a.withDefault(d, expected))
			return usual
		}
	}
	return readConfig(a, d, usual, parse)
}

// readConfig returns the value of the ConfigMap's key, where there is a good one.
func readConfig[T any](a *Annotations, d Declaration, usual T, parse func(string) (T, string)) T {
	if !a.scope.config {
		return usual
	}
	value := a.in.Config.value(d.Name)
	if value == "" { // which is how the reference writes the default of many keys
		return usual
	}
	v, expected := parse(value)
	if expected != "" {
		a.refuseConfig(BadValue, d.Name, value, a.withDefault(d, expected))
		return usual
	}
	return v
}

func (a *Annotations) declare(d Declaration) {
	if !a.collect {
		return
	}
	d.Annotation, d.Key, d.Section = !a.scope.onlyConfig, a.scope.config, a.section
	if known := func(o Declaration) bool { return o.Name == d.Name && o.Usage == d.Usage }; slices.ContainsFunc(a.declared, known) {
		return // a key that two features need
	}
	a.declared = append(a.declared, d)
}

func (a *Annotations) withDefault(d Declaration, expected string) string {
	if d.Default == "" || a.guards(d.Name) {
		return expected
	}
	if a.scope.config && !a.scope.onlyConfig && a.in.Config.value(d.Name) != "" {
		return expected + "; the default of the ConfigMap is used"
	}
	return expected + fmt.Sprintf("; the default, %s, is used", d.Default)
}

func (a *Annotations) guards(name string) bool { return a.scope.strict || guards(name) }

// unless is expected, where ok does not hold.
func unless(ok bool, expected string) string {
	if ok {
		return ""
	}
	return expected
}

// find returns the value of a name under the prefix that wins, with the name in full.
func (a *Annotations) find(name string) (key, value string, ok bool) {
	w, ok := a.written[name]
	return w.key, w.value, ok
}

func (a *Annotations) refuse(why Reason, key, value, expected string) {
	a.failed = true
	p := Problem{Annotation: key, Value: value, Reason: why, Message: shown(value) + ": " + expected}
	if name, _ := nameOf(key); a.guards(name) {
		p.Denies, p.Message = true, p.Message+closedBy(name)
	}
	a.problems = append(a.problems, p)
}

func (a *Annotations) refuseConfig(why Reason, key, value, expected string) {
	p := Problem{Annotation: key, Value: value, Reason: why, Config: true, Message: shown(value) + ": " + expected}
	if a.scope.strict || configGuards(key) {
		a.failed, p.Denies, p.Message = true, true, p.Message+closedByConfig
	}
	if !slices.Contains(a.problems, p) {
		a.problems = append(a.problems, p)
	}
}

// maxShown bounds the bytes of a value that a message repeats.
const maxShown = 120

// shown is a value as messages have it.
func shown(value string) string {
	if len(value) > maxShown {
		return fmt.Sprintf("%q... (%d bytes)", value[:maxShown], len(value))
	}
	return fmt.Sprintf("%q", value)
}
