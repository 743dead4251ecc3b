package pattern

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Why a pattern cannot be served, in the words of whoever wrote it for nginx.
//
// Package regexp says "invalid or unsupported Perl syntax: `(?!`". That is right, and helps nobody who wants /api left
// out. So a pattern that it refuses is read once more, for the constructs that PCRE has and RE2 has not:
//
//	^(?!/api).*    negative lookahead "(?!/api)" at character 2 is not supported, ...; write a longer path for what is left out
//	/(a+)\1        back-reference "\1" at character 6 is not supported, ...
//
// The reader knows escapes, \Q...\E and brackets, so that "[(?!]" is not taken for a lookahead. It finds the first
// construct only, and is not asked about patterns that compile: a mistake of its costs a worse message, nothing else.

// An Error is something in a pattern that RE2 has not, or that is a mistake in any language.
type Error struct {
	Construct string // "negative lookahead"
	Text      string // as it stands in the pattern, shortened where it is long
	At        int    // where it begins, in bytes; negative: not known
	Advice    string // what to write instead; empty: nothing is known

	expr    string
	text    string // the advice where the pattern is of no path; empty: Advice
	mistake bool   // in any language
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", e.Construct, e.Text)
	if e.At >= 0 {
		fmt.Fprintf(&b, " at character %d", utf8.RuneCountInString(e.expr[:e.At])+1)
	}
	if !e.mistake {
		b.WriteString(" is not supported, expressions are RE2")
	}
	if e.Advice != "" {
		b.WriteString("; " + e.Advice)
	}
	return b.String()
}

const backReference = "back-reference"

// A construct is one of PCRE that RE2 has not. In text is the advice where the pattern is of a text, as of a field, which
// has no backend, rewrite or start; empty: it is the same.
type construct struct{ begins, name, advice, text string }

const (
	longerPath = "write a longer path for what is left out, with a backend of its own: the longer path wins"
	// In a text nothing can be taken away from what another pattern takes.
	whatMatches = "write what is to match instead, in as many patterns as it needs: nothing can be left out of what one matches"
)

// groups are those that begin with a parenthesis. The first that fits counts.
var groups = []construct{
	{"(?=", "lookahead", "write what has to follow into the pattern itself, in a group of its own where the rest is captured", ""},
	{"(?!", "negative lookahead", longerPath, whatMatches},
	{"(?<=", "lookbehind", "write what has to stand before into the pattern itself, in a group of its own where the rest is captured", ""},
	{"(?<!", "negative lookbehind", longerPath, whatMatches},
	{"(?>", "atomic group", "write (?:...): nothing is tried twice here, so there is no need to forbid it", ""},
	{"(?|", "branch reset", "give each branch a path and a rewrite-target of its own", "write (?:...)"},
	{"(?(", "condition", "write one path for each case", "write one pattern for each case"},
	{"(?#", "comment", "leave it out", ""},
	{"(?'", "named group", "write (?<name>...)", ""},
	{"(?P=", backReference, "write out what may be repeated, as in (?:aa|bb)", ""},
	{"(?P>", "recursion", "write out as many levels as there are", ""},
	{"(?R", "recursion", "write out as many levels as there are", ""},
	{"(?&", "recursion", "write out as many levels as there are", ""},
	{"(?C", "callout", "leave it out", ""},
	{"(*", "verb", "leave it out: nothing is tried twice here", ""},
}

// escapes are those that begin with a backslash.
var escapes = []construct{
	{`\K`, "reset of the match", "put what is kept into a group, and write $1 where it is wanted", "leave it out: nothing is made of what matched"},
	{`\G`, "anchor", "leave it out: a pattern begins at the start of the path", "write ^"},
	{`\Z`, "anchor", `write $`, ""},
	{`\h`, "class", `write [ \t]`, ""},
	{`\H`, "class", `write [^ \t]`, ""},
	{`\R`, "class", `write [\r\n]`, ""},
	{`\N`, "class", "write a dot", ""},
	{`\X`, "class", "write a dot", ""},
	{`\C`, "class", "write a dot", ""},
	{`\V`, "class", `write [^\r\n]`, ""},
	{`\g`, backReference, "write out what may be repeated, as in (?:aa|bb)", ""},
	{`\k`, backReference, "write out what may be repeated, as in (?:aa|bb)", ""},
	{`\e`, "escape", `write \x1b`, ""},
	{`\c`, "escape", `write it as \x and two hexadecimal digits`, ""},
	{`\o`, "escape", `write it as \x and two hexadecimal digits`, ""},
	{`\u`, "escape", `write it as \x{...}`, ""},
	{`\E`, "end of a quotation", `there is no \Q before it`, ""},
}

// explain says why package syntax refused a pattern.
func explain(expr string, err error) error {
	if e := scan(expr, 0); e != nil {
		return e
	}
	var refused *syntax.Error
	if !errors.As(err, &refused) {
		return err
	}
	e := &Error{Construct: refused.Code.String(), Text: shortened(refused.Expr), At: -1, Advice: advice(refused), expr: expr, mistake: true}
	if strings.Count(expr, refused.Expr) == 1 {
		e.At = strings.Index(expr, refused.Expr)
	}
	return e
}

// advice is what to do about a mistake that is one in any language.
func advice(refused *syntax.Error) string {
	switch refused.Code {
	case syntax.ErrMissingRepeatArgument:
		return fmt.Sprintf(`there is nothing before it to repeat: write .%s for any text, \%[1]s for the character itself`, refused.Expr[:1])
	case syntax.ErrInvalidRepeatSize:
		return "repetitions are counted up to 1000, those inside one another multiplied"
	case syntax.ErrInvalidEscape:
		return "a character that means nothing special needs no backslash"
	case syntax.ErrTrailingBackslash:
		return `write \\ for a backslash`
	case syntax.ErrMissingBracket:
		return `write \[ for the character itself`
	case syntax.ErrInvalidNamedCapture:
		return "a name holds letters, digits and underscores, and names one group"
	}
	return ""
}

// scan finds the first construct in a pattern that RE2 has not, nil where there is none. A number behind a backslash is a
// back-reference where there are so many groups.
func scan(expr string, groupCount int) *Error {
	s := scanner{expr: expr, groupCount: groupCount}
	for s.at < len(expr) {
		if e := s.next(); e != nil {
			e.expr = expr
			return e
		}
	}
	if n := len(s.open); n > 0 {
		at := s.open[n-1]
		return &Error{Construct: "unclosed group", Text: shortened(expr[at:]), At: at, Advice: `close it, or write \( for the character itself`, expr: expr, mistake: true}
	}
	return nil
}

type scanner struct {
	expr       string
	at         int
	groupCount int
	open       []int // where the groups begin that are open
	repeatedAt int   // where the repetition begins that ends at repeatedTo
	repeatedTo int   // 0: there was none
}

// next reads one thing.
func (s *scanner) next() *Error {
	rest := s.expr[s.at:]
	switch rest[0] {
	case '\\':
		return s.escape(rest)
	case '[':
		return s.bracket(rest)
	case '(':
		return s.group(rest)
	case ')':
		if len(s.open) == 0 {
			return &Error{Construct: "unmatched parenthesis", Text: ")", At: s.at, Advice: `it closes nothing: write \) for the character itself`, mistake: true}
		}
		s.open = s.open[:len(s.open)-1]
	case '*', '+', '?', '{':
		return s.repetition(rest)
	}
	s.at++
	return nil
}

func (s *scanner) escape(rest string) *Error {
	if strings.HasPrefix(rest, `\Q`) {
		end := strings.Index(rest, `\E`)
		if end < 0 {
			return &Error{Construct: "unclosed quotation", Text: shortened(rest), At: s.at, Advice: `close it with \E`, mistake: true}
		}
		s.at += end + len(`\E`)
		return nil
	}
	if e := s.find(escapes, rest); e != nil {
		e.Text = shortened(rest[:2])
		return e
	}
	if digits := leadingDigits(rest[1:]); digits != "" && digits[0] != '0' {
		n, err := strconv.Atoi(digits)
		octal := len(digits) > 1 && digits[0] <= '7' && digits[1] <= '7'
		if !octal || err == nil && n <= s.groupCount {
			return &Error{Construct: backReference, Text: shortened(`\` + digits), At: s.at, Advice: "write out what may be repeated, as in (?:aa|bb)"}
		}
	}
	s.at = min(s.at+2, len(s.expr))
	return nil
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return s[:n]
}

func (s *scanner) find(among []construct, rest string) *Error {
	for _, c := range among {
		if strings.HasPrefix(rest, c.begins) {
			return &Error{Construct: c.name, At: s.at, Advice: c.advice, text: c.text}
		}
	}
	return nil
}

// bracket goes over a class.
func (s *scanner) bracket(rest string) *Error {
	n := classLength(rest)
	if strings.Contains(rest[:n], `[\b`) {
		return &Error{Construct: "class", Text: shortened(rest[:n]), At: s.at, Advice: `write \x08 for a backspace`}
	}
	s.at += n
	return nil
}

// classLength is the length of the class that s begins with: a bracket right behind the first, or behind ^, is a member.
func classLength(s string) int {
	i := 1
	if strings.HasPrefix(s[i:], "^") {
		i++
	}
	if strings.HasPrefix(s[i:], "]") {
		i++
	}
	for ; i < len(s); i++ {
		switch {
		case s[i] == ']':
			return i + 1
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], "[:"):
			if end := strings.Index(s[i:], ":]"); end > 0 {
				i += end + 1
			}
		}
	}
	return len(s)
}

func (s *scanner) group(rest string) *Error {
	if e := s.find(groups, rest); e != nil {
		e.Text = shortened(rest[:groupLength(rest)])
		return e
	}
	inside, special := strings.CutPrefix(rest, "(?")
	if special {
		end := strings.IndexAny(inside, ":)")
		if end < 0 {
			end = len(inside)
		}
		flags := inside[:end]
		switch {
		case leadingDigits(strings.TrimLeft(flags, "+-")) != "":
			return &Error{Construct: "recursion", Text: shortened(rest[:groupLength(rest)]), At: s.at, Advice: "write out as many levels as there are"}
		case strings.Trim(flags, "imsUxXJn-^") == "" && strings.ContainsAny(flags, "xXJn^"):
			return &Error{Construct: "flag", Text: shortened("(?" + flags), At: s.at, Advice: "the flags are i, m, s and U"}
		}
	}
	s.open = append(s.open, s.at)
	s.at++
	if special {
		s.at++ // the question mark repeats nothing
	}
	return nil
}

// groupLength is the length of the group that s begins with, to the end of s where it is not closed.
func groupLength(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			i += classLength(s[i:]) - 1
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// repetition reads *, +, ? or {n,m}, with the ? of one that takes as little as it can. Two in a row are possessive, where
// the second is a plus, or a mistake.
func (s *scanner) repetition(rest string) *Error {
	n := repetitionLength(rest)
	if n == 0 {
		s.at++ // a brace that counts nothing is a character
		return nil
	}
	if s.repeatedTo == s.at && s.at > 0 {
		text := s.expr[s.repeatedAt : s.at+n]
		if rest[0] == '+' {
			return &Error{Construct: "possessive repetition", Text: text, At: s.repeatedAt,
				Advice: "write " + s.expr[s.repeatedAt:s.at] + ": nothing is tried twice here, so there is no need to forbid it"}
		}
		return &Error{Construct: "double repetition", Text: text, At: s.repeatedAt,
			Advice: "put the first into a group, as in (?:a" + s.expr[s.repeatedAt:s.at] + ")" + rest[:n]}
	}
	s.repeatedAt = s.at
	s.at += n
	if s.at < len(s.expr) && s.expr[s.at] == '?' {
		s.at++
	}
	s.repeatedTo = s.at
	return nil
}

func repetitionLength(s string) int {
	if s[0] != '{' {
		return 1
	}
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return 0
	}
	least, most, _ := strings.Cut(s[1:end], ",")
	if least == "" || leadingDigits(least) != least || leadingDigits(most) != most {
		return 0
	}
	return end + 1
}

// shortened is a text that fits into a message.
func shortened(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
