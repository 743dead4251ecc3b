// Package value is text with variables, as annotations hold it: $host, ${request_uri}, $arg_page, $1.
//
//	t, err := value.Parse("$http_x_session$remote_addr")
//	...
//	key, err := t.Append(buffer[:0], r)
//
// A template is parsed while a route is built, and a name that no variable has is an error then. Serving only puts
// pieces together: a template without variables costs nothing, and Append allocates for few of the others.
//
// # Where a value goes
//
// What a client wrote may come out of almost every variable, so whoever writes a value says where to:
//
//   - a key that is compared and never sent: [Template.Append] and [Template.Expand], byte for byte;
//   - a header field: [Template.ExpandField], in which bytes that could end the field are percent-encoded;
//   - a URL to call or to redirect to: [ParseURL], which sees to it that no client chooses the host.
//
// # The rule of order
//
// The longest name counts: $hostname is one variable. ${host}name ends a name before text that would belong to it. Names
// are the same in upper and lower case. $1 is one digit: $10 is $1 and a zero. A dollar before anything else is a dollar.
//
// # What it does not do
//
// It knows no annotation and no expression: captures are handed in. What a variable gives follows nginx and ingress-nginx
// (reference A19), save that there is one reading of a path: $request_uri has no dot segments.
package value

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sallyport/proxy"
	"sallyport/spelling"
)

// Longest is the length in bytes of the longest value. It leaves room for the longest target with each of its bytes
// percent-encoded, and is well below what one request may bring in its head.
const Longest = 32 << 10

// maxText is the length in bytes of the longest text that is parsed.
const maxText = 4 << 10

// ErrTooLong is that a value would be longer than [Longest]. It is never cut instead: two clients whose long values begin
// alike would share a key.
var ErrTooLong = errors.New("value is too long")

// An Option allows in a text what is not allowed by itself.
type Option uint8

const (
	// Captures are $1 to $9: what the groups of a path's regular expression matched.
	Captures Option = iota + 1
	// Relative are URLs without scheme and host, which begin with a slash. It means something to ParseURL only.
	Relative
)

// A Template is a text with variables. It never changes; any number of goroutines may expand it.
type Template struct {
	text  string
	parts []part
	vars  int // parts that are variables
}

// A part is a piece of text, or a variable.
type part struct {
	text     string
	variable *variable // nil: text stands for itself
	name     string    // NAME of $arg_NAME and its like; the digit of a capture
}

// Parse reads a text. What it refuses it names: a variable that there is not, a capture where none is allowed, a byte that
// is not printable ASCII.
func Parse(text string, allow ...Option) (*Template, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%q... is %d bytes long, at most %d are allowed", text[:40], len(text), maxText)
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return nil, fmt.Errorf("%q holds the byte 0x%02x, only printable ASCII is allowed", text, c)
		}
	}
	t := &Template{text: text}
	for rest := text; rest != ""; {
		dollar := strings.IndexByte(rest, '$')
		if dollar < 0 {
			t.addText(rest)
			break
		}
		t.addText(rest[:dollar])
		name, after, err := cutName(rest[dollar+1:])
		if err != nil {
			return nil, err
		}
		rest = after
		if name == "" {
			t.addText("$")
			continue
		}
		p, err := find(name, slices.Contains(allow, Captures))
		if err != nil {
			return nil, err
		}
		t.parts, t.vars = append(t.parts, p), t.vars+1
	}
	return t, nil
}

func (t *Template) addText(text string) {
	if text == "" {
		return
	}
	if last := len(t.parts) - 1; last >= 0 && t.parts[last].variable == nil {
		t.parts[last].text += text
		return
	}
	t.parts = append(t.parts, part{text: text})
}

// cutName cuts a name, as it stands behind a dollar, off s. It is "" where there is none.
func cutName(s string) (name, after string, err error) {
	if inside, braced := strings.CutPrefix(s, "{"); braced {
		n := nameLength(inside)
		if n == len(inside) || inside[n] != '}' {
			return "", "", fmt.Errorf(`"${%s" has no closing brace behind a name`, inside[:n])
		}
		if n == 0 {
			return "", "", errors.New(`"${}" names no variable`)
		}
		return inside[:n], inside[n+1:], nil
	}
	n := nameLength(s)
	if n > 0 && isDigit(s[0]) {
		n = 1
	}
	return s[:n], s[n:], nil
}

func nameLength(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z' || s[n] == '_') {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// find is the variable of a name, which is not empty.
func find(name string, captures bool) (part, error) {
	if len(name) == 1 && isDigit(name[0]) {
		switch {
		case name == "0":
			return part{}, errors.New(`"$0" is no capture, they are $1 to $9`)
		case !captures:
			return part{}, fmt.Errorf(`"$%s" is a capture, and nothing is captured for this value`, name)
		}
		return part{variable: capture, name: name}, nil
	}
	name = strings.ToLower(name)
	if v := variables[name]; v != nil {
		return part{variable: v}, nil
	}
	for prefix, family := range families {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			if prefix == "http_" {
				rest = http.CanonicalHeaderKey(strings.ReplaceAll(rest, "_", "-"))
			}
			return part{variable: family, name: rest}, nil
		}
	}
	return part{}, unknown(name)
}

// unknown says that no variable has a name, and which was meant.
func unknown(name string) error {
	if strings.HasPrefix(name, "geoip") {
		return fmt.Errorf(`"$%s" is not supported: Sallyport has no database of places`, name)
	}
	known := slices.Sorted(maps.Keys(variables))
	if near := spelling.Nearest(name, slices.Values(known)); near != "" {
		return fmt.Errorf(`"$%s" is no variable (did you mean $%s?)`, name, near)
	}
	for _, k := range slices.Backward(known) { // the longer of two that begin alike comes first
		if rest, ok := strings.CutPrefix(name, k); ok {
			return fmt.Errorf(`"$%s" is no variable (did you mean ${%s}%s?)`, name, k, rest)
		}
	}
	return fmt.Errorf(`"$%s" is no variable`, name)
}

// Variables are the names of all variables, sorted. NAME in one stands for any name.
func Variables() []string {
	names := slices.Collect(maps.Keys(variables))
	for prefix := range families {
		names = append(names, prefix+"NAME")
	}
	slices.Sort(names)
	return names
}

// Literal returns the text where it has no variables.
func (t *Template) Literal() (text string, ok bool) { return t.text, t.vars == 0 }

// String returns the text as it was parsed.
func (t *Template) String() string { return t.text }

// NamesField reports whether the text holds the variable of a whole header field, such as $http_cookie.
func (t *Template) NamesField(field string) bool {
	for _, p := range t.parts {
		if p.variable != nil && p.variable == families["http_"] && strings.EqualFold(strings.ReplaceAll(p.name, "_", "-"), field) {
			return true
		}
	}
	return false
}

// Highest is the number of the highest capture in the text; 0 when there is none.
func (t *Template) Highest() int {
	highest := 0
	for _, p := range t.parts {
		if p.variable == capture {
			highest = max(highest, int(p.name[0]-'0'))
		}
	}
	return highest
}

// Append appends the value for a request to dst, byte for byte: control bytes and all. It is for keys. An error is
// ErrTooLong, and dst is returned as it was.
func (t *Template) Append(dst []byte, r *http.Request) ([]byte, error) {
	return t.append(dst, source{r: r, e: proxy.From(r)}, asIs)
}

// Expand is Append to a new string.
func (t *Template) Expand(r *http.Request) (string, error) { return t.ExpandWith(r, nil) }

// ExpandWith is Expand with captures, $1 first. One that is not there is empty.
func (t *Template) ExpandWith(r *http.Request, captures []string) (string, error) {
	return t.expand(r, captures, asIs)
}

// ExpandField returns the value for a request as one of a header field. In what variables give, control bytes, bytes that
// are not ASCII, and spaces at either end are percent-encoded. Dropping them instead would let "ad\x01min" pass for
// "admin". Captures may be nil. An error is ErrTooLong.
func (t *Template) ExpandField(r *http.Request, captures []string) (string, error) {
	return t.expand(r, captures, inField)
}

func (t *Template) expand(r *http.Request, captures []string, where place) (string, error) {
	if t.vars == 0 {
		return t.text, nil
	}
	room := rooms.Get().(*[]byte)
	b, err := t.append((*room)[:0], source{r: r, e: proxy.From(r), captures: captures}, where)
	text := string(b)
	if cap(b) <= maxRoom {
		*room = b
	}
	rooms.Put(room)
	return text, err
}

// rooms are where strings are put together: what is handed to variables could not stay on the stack.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

const maxRoom = 4 << 10 // bytes, of those that are kept

func (t *Template) append(dst []byte, s source, where place) ([]byte, error) {
	start := len(dst)
	for i := range t.parts {
		p := &t.parts[i]
		if p.variable == nil {
			dst = append(dst, p.text...)
		} else {
			s.name = p.name
			dst = p.variable.appendTo(dst, s, where)
		}
		if len(dst)-start > Longest {
			return dst[:start], ErrTooLong
		}
	}
	return dst, nil
}
