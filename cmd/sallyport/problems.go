package main

import (
	"cmp"
	"slices"
	"strings"

	"sallyport/controller"
)

// A problemSet is the problems of one build by what makes them the same problem. A line number does not: it moves
// whenever somebody writes above it. Nor does the file of an object, which may get another name.
type problemSet map[controller.Problem]controller.Problem

func newProblemSet(all []controller.Problem) problemSet {
	set := make(problemSet, len(all))
	for _, p := range all {
		key := p
		key.Line = 0
		if key.Object != (controller.Ref{}) {
			key.File = ""
		}
		set[key] = p
	}
	return set
}

// without returns the problems of s that are not in other, by place.
func (s problemSet) without(other problemSet) []controller.Problem {
	var rest []controller.Problem
	for key, p := range s {
		if _, ok := other[key]; !ok {
			rest = append(rest, p)
		}
	}
	slices.SortFunc(rest, compareProblems)
	return rest
}

// compareProblems orders by place: file, line, object, field, message.
func compareProblems(a, b controller.Problem) int {
	return cmp.Or(
		strings.Compare(a.File, b.File),
		cmp.Compare(a.Line, b.Line),
		a.Object.Compare(b.Object),
		strings.Compare(a.Field, b.Field),
		strings.Compare(a.Message, b.Message),
	)
}
