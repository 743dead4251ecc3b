package proxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sallyport/router"
)

// What servers do to a path, as slowly and plainly as it can be written. slowSteps shares no code with the steps of
// readings, and resolves dot segments where those refuse them.
var slowSteps = []struct {
	name    string
	do      func(path string) string
	decodes bool
}{
	{"decodes", slowDecode, true},
	{"decodes all but slashes", func(path string) string { return slowDecode(encodeSlashesAgain(path)) }, true},
	{"merges slashes", replacing(`/+`, "/"), false},
	{"takes \\ for /", replacing(`\\`, "/"), false},
	{"drops parameters", replacing(`;[^/]*`, ""), false},
	{"ends at a semicolon", replacing(`(?s);.*`, ""), false},
	{"ends at ?, # or a control", replacing(`(?s)[?#\x00-\x1f\x7f].*`, ""), false},
	{"takes long UTF-8", longUTF8.Replace, false},
	{"resolves dots", slowDots, false},
}

func replacing(pattern, with string) func(path string) string {
	compiled := regexp.MustCompile(pattern)
	return func(path string) string { return compiled.ReplaceAllString(path, with) }
}

var (
	encodeSlashesAgain = replacing(`%2[fF]|%[uU]002[fF]`, "%252F")
	slowEscape         = regexp.MustCompile(`%([0-9a-fA-F]{2})|%[uU]00([0-7][0-9a-fA-F])`)
)

func slowDecode(path string) string {
	return slowEscape.ReplaceAllStringFunc(path, func(s string) string {
		n, _ := strconv.ParseUint(s[len(s)-2:], 16, 8)
		return string([]byte{byte(n)})
	})
}

// longUTF8 replaces every form of a byte below 128 that is longer than one byte, up to four, the last byte with any upper
// two bits.
var longUTF8 = func() *strings.Replacer {
	var pairs []string
	for c := range 128 {
		for top := range 4 {
			last := string([]byte{byte(c&0x3f | top<<6)})
			before := byte(c >> 6)
			for _, first := range []string{string([]byte{0xc0 | before}), string([]byte{0xe0, 0x80 | before}), string([]byte{0xf0, 0x80, 0x80 | before})} {
				pairs = append(pairs, first+last, string(rune(c)))
			}
		}
	}
	return strings.NewReplacer(pairs...)
}()

func slowDots(path string) string {
	segments := strings.Split(path, "/")
	for i := 1; i < len(segments); {
		switch end := i == len(segments)-1; {
		case segments[i] == "." && end:
			segments[i] = ""
		case segments[i] == ".":
			segments = slices.Delete(segments, i, i+1)
		case segments[i] == ".." && end:
			segments[i] = "."
			if i > 1 {
				segments = slices.Delete(segments, i-1, i)
				i--
			}
		case segments[i] == ".." && i > 1:
			segments = slices.Delete(segments, i-1, i+1)
			i--
		case segments[i] == "..":
			segments = slices.Delete(segments, i, i+1)
		default:
			i++
		}
	}
	return strings.Join(segments, "/")
}

// everyReading calls visit with everything that the steps make of a path, in any order and any number, that has been
// decoded, and with the steps it took. It gives up, and says so, where that is no end.
func everyReading(path string, visit func(path, how string)) (all bool) {
	const enough = 5000 // far above maxReadings
	type state struct {
		path    string
		decoded bool
	}
	seen := map[state]bool{}
	var walk func(s state, how string)
	walk = func(s state, how string) {
		if seen[s] || len(seen) == enough {
			return
		}
		seen[s] = true
		if s.decoded {
			visit(s.path, how)
		}
		for _, step := range slowSteps {
			walk(state{step.do(s.path), s.decoded || step.decodes}, how+", "+step.name)
		}
	}
	walk(state{path, false}, "a server")
	return len(seen) < enough
}

var spellingsTable = router.New([]router.Route{
	{Match: router.Match{Path: "/"}, Source: "root"},
	{Match: router.Match{Path: "/admin"}, Source: "admin"},
	{Match: router.Match{Path: "/admin/open"}, Source: "open"},
	{Match: router.Match{Path: "/a/b"}, Source: "ab"},
	{Match: router.Match{Path: "/a", Type: router.Exact}, Source: "a"},
}, nil)

// checkReadings fails the test if a target passes to one route and some server would serve what another one guards.
func checkReadings(t *testing.T, raw string) (passed bool) {
	t.Helper()
	path, target, ok := readTarget(raw)
	if !ok {
		return false
	}
	route, ok := find(spellingsTable, "a.test", path, target)
	if !ok {
		return false
	}
	escaped, _, _ := strings.Cut(target, "?")
	all := everyReading(escaped, func(path, how string) {
		if other := spellingsTable.Lookup("a.test", path); other != route {
			t.Errorf("%q passes to %s as %q, and %s, sees %q, which is %s's", raw, route.Source, target, how, path, other.Source)
		}
	})
	if !all {
		t.Errorf("%q passes, and has readings without end", raw)
	}
	return true
}

// TestNoServerReadsAnotherRoute puts targets together from what means something to somebody. The seed is fixed: what
// fails once fails again.
func TestNoServerReadsAnotherRoute(t *testing.T) {
	pieces := []string{
		"/", "/", "/", "/", "admin", "admin", "a", "b", "x", "open", "dmin", ".", "..", "%", "%25", "25", "2", "f", "61", "%61", "%2561",
		"%2f", "%2F", "%252f", "%5c", "%5C", "%255c", ";", ";", "%3b", "%253B", ";x=1", "%2e", "%2E", "%252e", "//",
		"%3f", "%23", "%253F", "%0a", "%00", "%2500", "%20", "%c0%af", "%c0%ae", "%c1%a1", "%e0%80%af", "%c0%2f", "%25u002f", "%25u0061", "?",
	}
	random := rand.New(rand.NewPCG(4, 6))
	passed, odd := 0, 0
	for range 20_000 {
		raw := "/"
		for range 1 + random.IntN(7) {
			raw += pieces[random.IntN(len(pieces))]
		}
		if checkReadings(t, raw) {
			passed++
			if path, _, _ := strings.Cut(raw, "?"); strings.ContainsAny(path, "%;") || strings.Contains(path, "//") {
				odd++
			}
		}
		if t.Failed() {
			return
		}
	}
	if odd < 1000 {
		t.Errorf("%d targets passed, %d of them odd: that shows little", passed, odd)
	}
}

// FuzzReadings is TestNoServerReadsAnotherRoute for any target.
func FuzzReadings(f *testing.F) {
	for _, spelling := range spellings(f) {
		f.Add(spelling)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if len(raw) < 80 {
			checkReadings(t, raw)
		}
	})
}

// spellings reads the table that the tests of the built binary send.
func spellings(t testing.TB) (targets []string) {
	file, err := os.ReadFile("../e2e/testdata/spellings.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		target, err := strconv.Unquote(`"` + line + `"`)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		targets = append(targets, target)
	}
	return targets
}

func TestOddTargetsThatAreHarmlessPass(t *testing.T) {
	for _, raw := range []string{
		"/caf%C3%A9", "/%E0%B8%81/%F0%9F%98%80", "/%C3%80", "/na%EFve", "/100%25", "/50%25off", "/%2525", "/a%20b/c%26d", "/@scope%2Fname",
		"/x//y", "/x;jsessionid=1?a;b", "/wiki/What%3F", "/c%23/index.html", "/proxy/https%253A%252F%252Fx.test%252F", "/proxy/https://x.test//y;z%2Fw",
		"/..a/b../...", "/dir%5Cfile", "/line%0Abreak", "/%C0%C1", "/admin/a%2Fb;c//d%3Fe%25f", "/matrix;a=1;b=2/x;c=3/y",
		"/%61dmin//x", "/%61dmin/x%2Fy", "/%61/b/c;x",
	} {
		path, target, ok := readTarget(raw)
		if !ok || target != raw {
			t.Errorf("readTarget(%q) = %q, %v; want it as it came", raw, target, ok)
			continue
		}
		if _, ok := find(spellingsTable, "a.test", path, target); !ok {
			t.Errorf("%q is refused", raw)
		}
	}
}

// TestReadingsAreBounded counts the strings that the longest hostile targets cause. Their time is in BenchmarkFind.
func TestReadingsAreBounded(t *testing.T) {
	for name, raw := range hostile() {
		if n := testing.AllocsPerRun(1, func() { readings(raw) }); n > float64(maxReadings*len(steps)) {
			t.Errorf("%s: %v allocations for a target of %d bytes", name, n, len(raw))
		}
	}
	if _, ok := readings(hostile()["nested"]); ok {
		t.Error("a target of four thousand encodings has readings without bound")
	}
}

// hostile are targets of the greatest length, each of one kind, and one that has a bit of everything.
func hostile() map[string]string {
	fill := func(s string) string { return "/" + strings.Repeat(s, (maxTarget-1)/len(s)) }
	return map[string]string{
		"nested":  "/%" + strings.Repeat("25", maxTarget/2-10) + "61",
		"percent": fill("%25"),
		"slashes": fill("/"),
		"encoded": fill("%2F"),
		"params":  fill(";"),
		"long":    fill("%c1%a1"),
		"all":     fill("//;x%2F%252F%5C%3F%3Bc%c1%a1"),
		"short":   "//;x%2F%25252Fx%255C%253F%253Bc%25c1%25a1;b%25252525252561",
	}
}

func BenchmarkFind(b *testing.B) {
	targets := hostile()
	targets["plain"], targets["escaped"], targets["package"], targets["session"] = "/some/where.html", "/caf%C3%A9/x", "/@scope%2Fname", "/x/y;jsessionid=0123456789"
	for name, raw := range targets {
		b.Run(fmt.Sprintf("%s/bytes=%d", name, len(raw)), func(b *testing.B) {
			path, target, ok := readTarget(raw)
			if !ok {
				b.Fatalf("%.40q is refused", raw)
			}
			b.ReportAllocs()
			for b.Loop() {
				find(spellingsTable, "a.test", path, target)
			}
		})
	}
}
