package htpasswd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxKinds bounds what a refusal costs, which is a hash of each kind.
const maxKinds = 8

// maxErrors is how many bad lines are told one by one.
const maxErrors = 20

// Parse reads the text of an htpasswd file. The File is never nil; each error is of a line that it does without.
func Parse(text []byte) (*File, []error) {
	f, p := newFile(), new(problems)
	for where, line := range lines(text) {
		user, rest, found := strings.Cut(line, ":")
		if !found {
			p.add("%s has no colon; expected user:hash", where)
			continue
		}
		if prefix, _ := cutPrefix(user); prefix != "" {
			p.add("%s has a hash where the user should be; expected user:hash", where)
			continue
		}
		hash, _, _ := strings.Cut(rest, ":")
		f.add(fmt.Sprintf("%s, user %s", where, quote(user)), user, hash, p)
	}
	return f, p.all()
}

// FromMap reads a map whose keys are users and whose values are their hashes. The File is never nil; each error is of a
// key that it does without.
func FromMap(users map[string][]byte) (*File, []error) {
	f, p := newFile(), new(problems)
	for _, user := range slices.Sorted(maps.Keys(users)) {
		hash, _, _ := strings.Cut(strings.TrimSpace(string(users[user])), ":")
		f.add("key "+quote(user), user, hash, p)
	}
	return f, p.all()
}

func (f *File) add(where, user, text string, p *problems) {
	if user == "" || len(user) > maxUser {
		p.add("%s: a user has a name, of at most %d bytes", where, maxUser)
		return
	}
	if p.repeated(where, user) {
		return
	}
	h, err := parseHash(text)
	if err != nil {
		p.add("%s: %w", where, err)
		return
	}
	if _, known := f.kinds[h.kind]; !known {
		if len(f.kinds) == maxKinds {
			p.add("%s: the hash is of a kind, cost or length of salt unlike the %d before it; make the hashes alike, because each wrong password costs one of each", where, maxKinds)
			return
		}
		f.kinds[h.kind] = h.matches
		f.costly = f.costly || !h.fast
	}
	f.users[user] = &entry{hash: h}
}

// lines yields the lines that say something, with their numbers.
func lines(text []byte) func(func(where, line string) bool) {
	return func(yield func(where, line string) bool) {
		number := 0
		for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
			number++
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			if !yield(fmt.Sprint("line ", number), line) {
				return
			}
		}
	}
}

// quote is a name as it may be shown.
func quote(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("%q…", name[:64])
	}
	return fmt.Sprintf("%q", name)
}

// problems are the errors of one file.
type problems struct {
	errs  []error
	more  int
	first map[string]string // where a name was first seen
}

func (p *problems) add(format string, args ...any) {
	if len(p.errs) == maxErrors {
		p.more++
		return
	}
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// repeated reports whether a name was seen before, and says so.
func (p *problems) repeated(where, name string) bool {
	if earlier, seen := p.first[name]; seen {
		p.add("%s is not the first; %s counts", where, earlier)
		return true
	}
	if p.first == nil {
		p.first = map[string]string{}
	}
	p.first[name] = where
	return false
}

func (p *problems) all() []error {
	if p.more > 0 {
		return append(p.errs, errors.New(fmt.Sprint("and ", p.more, " lines more")))
	}
	return p.errs
}
