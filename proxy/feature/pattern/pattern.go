// Package pattern is the regular expressions that paths hold where use-regex or rewrite-target ask for them.
//
//	re, err := pattern.Compile("/app(/|$)(.*)")
//
// A pattern matches at the start of a path, whatever the case. Expressions are RE2 (https://github.com/google/re2/wiki/Syntax):
// matching takes time in proportion to the path, whoever wrote the pattern and whatever the path. Manifests written for
// nginx may hold more than that, since its expressions are PCRE. Such a pattern is an error that names what it needs and
// where, and says what to write instead where there is a way ([Diagnose]). It is never taken for plain text.
//
// # What it does not do
//
// It keeps no order among paths, and puts no text together from captures.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Bounds on what a pattern may cost. A match takes up to 50 ns for each instruction and byte of the path, twice that with
// hundreds of groups: for a path of 8 KiB the worst patterns take up to a second, those that people write a few
// microseconds (BenchmarkTheWorstPattern: 170 ms). A pattern of maxLength bytes that counts no repetitions is as good as
// always within maxSize.
const (
	maxLength = 1 << 10 // bytes
	maxSize   = 1500    // instructions
)

// Compile makes a pattern ready for matching. It refuses what [Diagnose] refuses, with its error.
func Compile(expr string) (*regexp.Regexp, error) {
	if err := Diagnose(expr); err != nil {
		return nil, err
	}
	return regexp.Compile(anchored(expr))
}

// anchored is the expression that a pattern stands for.
func anchored(expr string) string { return "(?i)^(?:" + expr + ")" }

// Diagnose returns nil where a pattern can be served, else what is wrong with it, as an [*Error] where something in the
// pattern is.
func Diagnose(expr string) error {
	if len(expr) > maxLength {
		return fmt.Errorf("the pattern is %d bytes long, at most %d are allowed", len(expr), maxLength)
	}
	// By itself first: "a)|(b" would leave the group it is put into, and its second half match anywhere.
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return explain(expr, err)
	}
	if _, err := syntax.Parse(anchored(expr), syntax.Perl); err != nil { // "\Qa" swallows what closes the group
		return explain(expr, err)
	}
	if n := size(tree) + overhead; n > maxSize {
		return fmt.Errorf("the pattern compiles to about %d instructions, at most %d are allowed; count fewer repetitions: the application can check lengths", n, maxSize)
	}
	if groups := tree.MaxCap(); groups > 9 {
		// "\10" is the tenth group to nginx where there are ten, and the byte 010 to RE2.
		if e := scan(expr, groups); e != nil && e.Construct == backReference {
			return e
		}
	}
	return nil
}

// DiagnoseText is Diagnose for an expression of a text that is no path, such as a host name or the value of a field: what it
// says to write instead makes sense there.
func DiagnoseText(expr string) error {
	err := Diagnose(expr)
	var e *Error
	if errors.As(err, &e) && e.text != "" {
		e.Advice = e.text
	}
	return err
}

// overhead is the instructions that the anchor and the end take, of every pattern.
const overhead = 4

// size is at least the number of instructions that an expression compiles to. It is taken from the tree, before
// repetitions are written out: that alone would take 40 MB for a{1000} with a long a.
func size(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += size(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpConcat:
		return max(1, n)
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpRepeat:
		return max(1, re.Min, re.Max)*n + max(0, re.Max-re.Min) + 2
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return n + 2
	}
	return 1
}
