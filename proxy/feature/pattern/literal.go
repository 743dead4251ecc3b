package pattern

import (
	"regexp/syntax"
	"unicode"
)

// Literal is what everything that a pattern matches begins with, whatever the case; "" where that is nothing, or where the
// pattern is none.
//
//	/api/(.*)     /api/
//	/(foo|fob)    /fo
//	/foo[0-9]     /foo
//	/a?b          /
func Literal(expr string) string {
	if len(expr) > maxLength {
		return ""
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	text, _ := literal(tree)
	return string(text)
}

// literal is what everything that an expression matches begins with. whole: it matches that and nothing else, so that
// what stands behind the expression belongs to the literal too.
func literal(re *syntax.Regexp) (text []rune, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return re.Rune, true
	case syntax.OpCapture:
		return literal(re.Sub[0])
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, true
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			more, whole := literal(sub)
			text = append(text[:len(text):len(text)], more...)
			if !whole {
				return text, false
			}
		}
		return text, true
	case syntax.OpPlus:
		text, _ = literal(re.Sub[0])
		return text, false
	case syntax.OpRepeat:
		if re.Min == 0 {
			return nil, false
		}
		text, whole = literal(re.Sub[0]) // once is enough for an order among paths
		return text, whole && re.Min == 1 && re.Max == 1
	case syntax.OpAlternate:
		text, _ = literal(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			other, _ := literal(sub)
			text = common(text, other)
		}
		return text, false
	}
	return nil, false
}

// common is the beginning of a that b shares.
func common(a, b []rune) []rune {
	n := 0
	for n < len(a) && n < len(b) && sameLetter(a[n], b[n]) {
		n++
	}
	return a[:n]
}

// sameLetter reports whether two runes differ in case alone, as (?i) has it.
func sameLetter(a, b rune) bool {
	for r := unicode.SimpleFold(a); ; r = unicode.SimpleFold(r) {
		if r == b {
			return true
		}
		if r == a {
			return false
		}
	}
}
