package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestDiagnoseNamesWhatNginxHasAndWeHaveNot(t *testing.T) {
	for _, c := range []struct{ expr, construct, text, advice string }{
		{`^(?!/api).*`, "negative lookahead", "(?!/api)", "longer path"},
		{`/((?!admin).)*`, "negative lookahead", "(?!admin)", "longer path"},
		{`/(?=a(b)[)]\))c`, "lookahead", `(?=a(b)[)]\))`, "into the pattern itself"},
		{`/(?<=a)b>`, "lookbehind", "(?<=a)", "into the pattern itself"},
		{`/.*(?<!\.php)$`, "negative lookbehind", `(?<!\.php)`, "longer path"},
		{`/(a+)\1`, "back-reference", `\1`, "write out"},
		{`/(a+)\9`, "back-reference", `\9`, "write out"},
		{`/(a+)\18`, "back-reference", `\18`, "write out"},
		{`/(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)\10`, "back-reference", `\10`, "write out"},
		{`/(?P<x>a)(?P=x)`, "back-reference", "(?P=x)", "write out"},
		{`/(?<x>a)\k<x>`, "back-reference", `\k`, "write out"},
		{`/(a)\g{1}`, "back-reference", `\g`, "write out"},
		{`/a++b`, "possessive repetition", "++", "write +"},
		{`/a*+`, "possessive repetition", "*+", "write *"},
		{`/a?+`, "possessive repetition", "?+", "write ?"},
		{`/a{2,3}+`, "possessive repetition", "{2,3}+", "write {2,3}"},
		{`/a**`, "double repetition", "**", "(?:a*)*"},
		{`/a{2}{3}`, "double repetition", "{2}{3}", "(?:a{2}){3}"},
		{`/a+??`, "double repetition", "+??", "(?:a+?)?"},
		{`/(?>a+)b`, "atomic group", "(?>a+)", "write (?:...)"},
		{`/(?|(a)|(b))`, "branch reset", "(?|(a)|(b))", "rewrite-target"},
		{`/(\((?R)*\))`, "recursion", "(?R)", "levels"},
		{`/(a(?1)?b)`, "recursion", "(?1)", "levels"},
		{`/(a(?-1)?b)`, "recursion", "(?-1)", "levels"},
		{`/(?<x>a(?&x)?b)`, "recursion", "(?&x)", "levels"},
		{`/(?P<x>a(?P>x)?b)`, "recursion", "(?P>x)", "levels"},
		{`/(a)?(?(1)b|c)`, "condition", "(?(1)b|c)", "each case"},
		{`/a(?#why)b`, "comment", "(?#why)", "leave it out"},
		{`/(?'x'a)`, "named group", "(?'x'a)", "(?<name>...)"},
		{`/a(*SKIP)b`, "verb", "(*SKIP)", "leave it out"},
		{`(?x)/a b`, "flag", "(?x", "i, m, s and U"},
		{`/(?-x:a)`, "flag", "(?-x", "i, m, s and U"},
		{`/a\Kb`, "reset of the match", `\K`, "$1"},
		{`\G/a`, "anchor", `\G`, "start of the path"},
		{`/a\Z`, "anchor", `\Z`, "write $"},
		{`/a\hb`, "class", `\h`, `[ \t]`},
		{`/[\b]`, "class", `[\b]`, `\x08`},
		{`/\cA`, "escape", `\c`, `\x and two`},
		{`/a\E`, "end of a quotation", `\E`, `\Q`},
		{`/\Qa.b`, "unclosed quotation", `\Qa.b`, `\E`},
		{`/a)`, "unmatched parenthesis", ")", `\)`},
		{`/a)|(b`, "unmatched parenthesis", ")", `\)`},
		{`/(a`, "unclosed group", "(a", `\(`},
		{`/(a(b)`, "unclosed group", "(a(b)", `\(`},
		{`/é/(?!x)`, "negative lookahead", "(?!x)", ""},
		{`/(?!` + strings.Repeat("x", 100) + `)`, "negative lookahead", "(?!" + strings.Repeat("x", 37) + "...", ""},

		{`*.html`, "missing argument to repetition operator", "*", "write .*"},
		{`/(+a)`, "missing argument to repetition operator", "+", `\+`},
		{`/a{1001}`, "invalid repeat count", "{1001}", "up to 1000"},
		{`/(a{100}){100}`, "invalid repeat count", "{100}", "multiplied"},
		{`/[a-z`, "missing closing ]", "[a-z", `\[`},
		{`/[z-a]`, "invalid character class range", "z-a", ""},
		{`/\p{Nothing}`, "invalid character class range", `\p{Nothing}`, ""},
		{`/\y`, "invalid escape sequence", `\y`, "no backslash"},
		{`/a\`, "trailing backslash at end of expression", "", `\\`},
		{`/(?<a-b>x)`, "invalid named capture", "(?<a-b>", "letters"},
		{"/\xff", "invalid UTF-8", "\xff", ""},
	} {
		err := Diagnose(c.expr)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("Diagnose(%q) = %v, want an *Error", c.expr, err)
			continue
		}
		if e.Construct != c.construct || e.Text != c.text || !strings.Contains(e.Advice, c.advice) {
			t.Errorf("Diagnose(%q) = %v, want the %s %q with the advice %q", c.expr, err, c.construct, c.text, c.advice)
		}
		if e.At >= 0 && !strings.HasPrefix(c.expr[e.At:], strings.TrimSuffix(e.Text, "...")) {
			t.Errorf("Diagnose(%q) = %v, and that is not there", c.expr, err)
		}
	}
}

func TestDiagnoseSaysWhere(t *testing.T) {
	for expr, want := range map[string]string{
		`^/é(?!/api).*`: `negative lookahead "(?!/api)" at character 4 is not supported, expressions are RE2; write a longer path for what is left out, with a backend of its own: the longer path wins`,
		`/[(?!]\(?![[:alpha:](*]\Q(?=\E[]\]*+](?=x)`: `lookahead "(?=x)" at character 38 is not supported, expressions are RE2; write what has to follow into the pattern itself, in a group of its own where the rest is captured`,
		`/a[b`: `missing closing ] "[b" at character 3; write \[ for the character itself`,
	} {
		if err := Diagnose(expr); err == nil || err.Error() != want {
			t.Errorf("Diagnose(%q):\n got %v\nwant %s", expr, err, want)
		}
	}
}

func TestDiagnoseTextKnowsNoPaths(t *testing.T) {
	for expr, want := range map[string]string{
		`(?!bot)`:       "write what is to match instead",
		`.*(?<!bot)$`:   "write what is to match instead",
		`(?|(a)|(b))`:   "write (?:...)",
		`(a)?(?(1)b|c)`: "one pattern for each case",
		`a\Kb`:          "leave it out",
		`\Ga`:           "write ^",
		`(?=a)`:         "into the pattern itself",
		`(a)\1`:         "write out",
	} {
		err := DiagnoseText(expr)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Advice, want) {
			t.Errorf("DiagnoseText(%q) = %v, want the advice %q", expr, err, want)
			continue
		}
		for _, word := range []string{"path", "backend", "$1"} {
			if strings.Contains(e.Advice, word) {
				t.Errorf("DiagnoseText(%q) = %v, which speaks of a %s", expr, err, word)
			}
		}
	}
	if err := DiagnoseText(`^bot[0-9]+$`); err != nil {
		t.Error(err)
	}
}

func TestDiagnoseTakesWhatPeopleWrite(t *testing.T) {
	for _, expr := range []string{
		``, `/`, `/*`, `/.*`, `/api(/|$)(.*)`, `/(.*)`, `^/api/v[0-9]+/`, `/foo\/bar`, `/a\.b\-c`, `/[^/]+/x`, `(?i)/x`, `(?-i)/x`,
		`/(?:a|b)`, `/(?<name>a)(?P<other>b)`, `/\d+/\w+`, `/\p{Greek}`, `/[[:alpha:]]`, `/[]a]`, `/a{,3}`, `/a{x}`, `/a{`, `/[a-f0-9]{64}`,
		`/.{0,255}`, `/a+?b*?c??d{2}?`, `/\Q(?!\E`, `/(a)\12`, `/(a)(a)(a)(a)(a)(a)(a)(a)(a)\10`, `/[\10](a)(a)(a)(a)(a)(a)(a)(a)(a)(a)`, `/é`,
		`/(?U)a+`, `/$|^`, `/\bx\B\A\z`, `/|`, `/` + strings.Repeat("a", 1023), `/(` + strings.Repeat("en|", 330) + `de)`,
	} {
		if err := Diagnose(expr); err != nil {
			t.Errorf("Diagnose(%q): %v", expr, err)
		}
		if re, err := Compile(expr); err != nil || re == nil {
			t.Errorf("Compile(%q): %v", expr, err)
		}
	}
}

func TestDiagnoseBoundsWhatAPatternCosts(t *testing.T) {
	for expr, want := range map[string]string{
		"/" + strings.Repeat("a", 1024):                     "the pattern is 1025 bytes long, at most 1024 are allowed",
		"/(" + strings.Repeat("a", 900) + "){1000}":         "the pattern compiles to about 902007 instructions, at most 1500 are allowed",
		"/.{1000}.{1000}":                                   "the pattern compiles to about",
		"/(.*[ab]){990}b":                                   "the pattern compiles to about",
		"/(((a{10}){10}){10}":                               "unclosed group",
		strings.Repeat("(", 500) + strings.Repeat(")", 500): "",
	} {
		err := Diagnose(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("Diagnose of a pattern of %d bytes: %v, want %s", len(expr), err, want)
		}
		if re, err := Compile(expr); (err == nil) != (want == "") || (re == nil) != (err != nil) {
			t.Errorf("Compile of a pattern of %d bytes: %v", len(expr), err)
		}
	}
}

func TestPatternsMatchAtTheStartWhateverTheCase(t *testing.T) {
	re, err := Compile("/foo|/bar")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/foo": true, "/FOOx": true, "/bar/": true, "/x/bar": false, "/x/foo": false} {
		if got := re.MatchString(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

func FuzzDiagnoseRefusesWhatCannotCompile(f *testing.F) {
	for _, seed := range []string{`/a)|(b`, `\Qa`, `(?<=a)`, `[[:x:]`, `a{2}{3}`, `(?x)`, `\`, `a{2,1}`, `((a*)*)*`, `(?:|){9}`, `[^\x00-\x{10FFFF}]`, `\pL{20}`, `(?i)[k-s]`, `a|b|c`, `x{0}`, `(()){3}`, `(?-1)`, `(?é`, `[`, `[^`, `(?'`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		err := Diagnose(expr)
		if err != nil {
			var e *Error
			if errors.As(err, &e) && e.At >= 0 && !strings.HasPrefix(expr[e.At:], strings.TrimSuffix(e.Text, "...")) {
				t.Errorf("Diagnose(%q) = %v, and that is not there", expr, err)
			}
			if len(err.Error()) > 400 {
				t.Errorf("Diagnose(%q) = %v, which is long", expr, err)
			}
			return
		}
		if _, err := regexp.Compile("(?i)^(?:" + expr + ")"); err != nil {
			t.Fatalf("Diagnose(%q) is nil, and: %v", expr, err)
		}
		tree, err := syntax.Parse("(?i)^(?:"+expr+")", syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		alone, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if estimate := size(alone) + overhead; len(program.Inst) > estimate {
			t.Errorf("%q compiles to %d instructions, and is taken for %d", expr, len(program.Inst), estimate)
		}
	})
}

// The worst pattern that is served, and the longest path.
func BenchmarkTheWorstPattern(b *testing.B) {
	re, err := Compile("/(.*a){240}b")
	if err != nil {
		b.Fatal(err)
	}
	path := "/" + strings.Repeat("a", 8191)
	for b.Loop() {
		re.FindStringSubmatchIndex(path)
	}
}
