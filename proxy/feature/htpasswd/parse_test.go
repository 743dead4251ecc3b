package htpasswd

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// ask checks without a hurry.
func (f *File) ask(user, password string) Verdict {
	return f.Check(context.Background(), user, password)
}

func TestHashesOfEveryKindAreChecked(t *testing.T) {
	for _, c := range []struct{ hash, password string }{
		{bcrypt05, "open sesame"},
		{strings.Replace(bcrypt05, "$2y$", "$2a$", 1), "open sesame"},
		{strings.Replace(bcrypt05, "$2y$", "$2b$", 1), "open sesame"},
		{"$2y$05$abcdefghijklmnopqrstuuV2tX7DCaiDgFBATtOnr3CizXCwtybF.", "schön"},
		{apr1, "open sesame"},
		{"$1$abcdefgh$9qMkHazuSy1Q8myEum7yb/", "open sesame"},
		{crypt5, "open sesame"},
		{crypt6, "open sesame"},
		{"$5$rounds=1234$short$3ftNyN9K9DDJ7wL1.if8OMaJ9Oz2CxExoByz8zSQk99", "open sesame"},
		{"$6$rounds=1000$short$KFu3DamygEN1MWT5sGBOvF3QlmimIGiE02d5NexiZ8qaaHL6Ye1ozvWbA9M7MMOmtHo7JXjrRMYjDV1fpM3mD1", "open sesame"},
		{plainSHA, "open sesame"},
		{saltedSHA, "open sesame"},
	} {
		f, errs := Parse([]byte("ann:" + c.hash))
		if len(errs) != 0 {
			t.Errorf("%s: %v", c.hash, errs)
			continue
		}
		if v := f.ask("ann", c.password); v != Passed {
			t.Errorf("%s: the password is not let in: %d", c.hash, v)
		}
		for _, wrong := range []struct{ user, password string }{
			{"ann", c.password + "x"}, {"ann", ""}, {"ann", strings.ToUpper(c.password)}, {"Ann", c.password}, {"", c.password}, {"ann", c.hash},
		} {
			if v := f.ask(wrong.user, wrong.password); v != Refused {
				t.Errorf("%s: %q with %q is let in: %d", c.hash, wrong.user, wrong.password, v)
			}
		}
	}
}

func TestUnusableLinesAreToldAndSetAside(t *testing.T) {
	const secret = "Zq7wXk" // in everything that must not be told
	for _, c := range []struct{ line, want string }{
		{secret, "line 2 has no colon"},
		{"bob:" + secret, `line 2, user "bob": plain text, DES crypt or an unknown`},
		{"bob:ab/G8" + secret + "ak", "DES crypt"},
		{"bob:$" + secret + "$1$", "plain text"},
		{"bob:{PLAIN}" + secret, "{PLAIN} text, which is refused"},
		{"bob:", "there is no hash"},
		{"bob::a comment", "there is no hash"},
		{":" + bcrypt05, "a user has a name"},
		{strings.Repeat("b", 257) + ":" + bcrypt05, "at most 256 bytes"},
		{"$2y$05$" + secret + ":bob", "a hash where the user should be"},
		{"bob:$2y$05$" + secret, "the bcrypt hash is not whole"},
		{"bob:$2y$5$" + secret, "the bcrypt hash is not whole"},
		{"bob:" + bcrypt05 + secret, "the bcrypt hash is not whole"},
		{"bob:" + strings.Replace(bcrypt05, "$05$", "$03$", 1), "the bcrypt hash is not whole"},
		{"bob:" + strings.Replace(bcrypt05, "$05$", "$+5$", 1), "the bcrypt hash is not whole"},
		{"bob:" + strings.Replace(bcrypt05, "a", "é", 1), "the bcrypt hash is not whole"},
		{"bob:" + strings.Replace(bcrypt05, "$05$", "$15$", 1), "cost 15 and would take seconds"},
		{"bob:" + strings.Replace(bcrypt05, "$2y$", "$2x$", 1), "$2x$"},
		{"bob:" + apr1 + "x", "the $apr1$ hash is not whole"},
		{"bob:$apr1$" + secret, "the $apr1$ hash is not whole"},
		{"bob:$apr1$abcdefghi$T64oOxnD8c28.dQa.2Lty1", "the $apr1$ hash is not whole"},
		{"bob:" + crypt6 + "x", "the $6$ hash is not whole"},
		{"bob:$5$" + crypt6[3:], "the $5$ hash is not whole"},
		{"bob:$6$$" + crypt6[20:], "the $6$ hash is not whole"},
		{"bob:$6$rounds=abc$salt$" + crypt6[20:], "rounds as a whole number from 1000"},
		{"bob:$6$rounds=999$salt$" + crypt6[20:], "rounds as a whole number from 1000"},
		{"bob:$6$rounds=05000$salt$" + crypt6[20:], "rounds as a whole number from 1000"},
		{"bob:$6$rounds=5000$" + crypt6[20:], "the $6$ hash is not whole"},
		{"bob:$6$rounds=999999999$salt$" + crypt6[20:], "999999999 rounds and would take seconds"},
		{"bob:{SHA}" + secret, "the hash is not whole"},
		{"bob:{SHA}W8r/fyL/UzygmbNAjq2HbA67qa==", "the hash is not whole"},
		{"bob:{SSHA}" + secret + "==", "the hash is not whole"},
		{"bob:$y$j9T$" + secret, "hashes of the kind $y$ are not known"},
		{"bob:$argon2id$v=19$" + secret, "hashes of the kind $argon2id$ are not known"},
		{"ann:" + plainSHA, `line 2, user "ann" is not the first; line 1, user "ann" counts`},
	} {
		f, errs := Parse([]byte("ann:" + apr1 + "\n" + c.line + "\nzoe:" + saltedSHA + "\n"))
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || !strings.HasPrefix(errs[0].Error(), "line 2") {
			t.Errorf("%s: errors %v, want one that says %q", c.line, errs, c.want)
		}
		for _, err := range errs {
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), bcrypt05[10:20]) {
				t.Errorf("%s: the error tells the hash: %v", c.line, err)
			}
		}
		if f.Len() != 2 || f.ask("ann", "open sesame") != Passed || f.ask("zoe", "open sesame") != Passed {
			t.Errorf("%s: the other users are not there", c.line)
		}
		if v := f.ask("bob", "open sesame"); v != Refused {
			t.Errorf("%s: bob is let in", c.line)
		}
	}
}

func TestLinesAreReadAsTheyAreWritten(t *testing.T) {
	text := "\ufeff# users\r\n\r\n  ann:" + apr1 + " \r\n\t# bob:" + apr1 + "\r\ncarl:" + plainSHA + ":of accounts\r\nd é:" + plainSHA
	f, errs := Parse([]byte(text))
	if len(errs) != 0 || f.Len() != 3 {
		t.Fatalf("%d users, errors %v; want 3 and none", f.Len(), errs)
	}
	for _, user := range []string{"ann", "carl", "d é"} {
		if f.ask(user, "open sesame") != Passed {
			t.Errorf("%s is not let in", user)
		}
	}
}

func TestFirstLineOfAUserCounts(t *testing.T) {
	old := "{SHA}4uXg4D+O+Z9AW6cwxJ9gu+tkTeo=" // of "old"
	f, _ := Parse([]byte("ann:" + plainSHA + "\nann:" + old + "\nbob:changed\nbob:" + plainSHA))
	if f.ask("ann", "open sesame") != Passed {
		t.Error("the first line does not count")
	}
	if f.ask("ann", "old") != Refused {
		t.Error("the second line counts")
	}
	if f.ask("bob", "open sesame") != Refused {
		t.Error("a line of long ago counts, because the one above it cannot be used")
	}
}

func TestMap(t *testing.T) {
	f, errs := FromMap(map[string][]byte{
		"ann": []byte(apr1 + "\n"), "bob": []byte(plainSHA + ":comment"), "carl": []byte("secret"),
		"dora": []byte(plainSHA + "\neve:" + plainSHA),
	})
	if len(errs) != 2 || !strings.HasPrefix(errs[0].Error(), `key "carl": plain text`) || !strings.HasPrefix(errs[1].Error(), `key "dora": the hash is not whole`) {
		t.Errorf("errors %v, want one of carl and one of dora", errs)
	}
	if f.Len() != 2 || f.ask("ann", "open sesame") != Passed || f.ask("bob", "open sesame") != Passed {
		t.Error("ann and bob are not let in")
	}
	if f.ask("eve", "open sesame") != Refused {
		t.Error("a value made a user of its second line")
	}
}

func TestFileWithoutUsersRefusesAll(t *testing.T) {
	f, errs := Parse(nil)
	if len(errs) != 0 || f.Len() != 0 {
		t.Errorf("%d users, errors %v", f.Len(), errs)
	}
	if v := f.ask("", ""); v != Refused {
		t.Errorf("nobody is let in: %d", v)
	}
}

func TestErrorsOfAHugeFileAreFew(t *testing.T) {
	_, errs := Parse([]byte(strings.Repeat("x\n", 1000)))
	if len(errs) != maxErrors+1 || errs[maxErrors].Error() != "and 980 lines more" {
		t.Errorf("%d errors, the last %v", len(errs), errs[len(errs)-1])
	}
}

func TestKindsOfHashesAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range maxKinds + 1 {
		fmt.Fprintf(&text, "user%d:$6$rounds=%d$saltsaltsaltsalt$%s\n", i, 1000+i, crypt6[20:])
	}
	f, errs := Parse([]byte(text.String()))
	if f.Len() != maxKinds || len(errs) != 1 || !strings.Contains(errs[0].Error(), "unlike the 8 before it") {
		t.Errorf("%d users, errors %v; want %d and one", f.Len(), errs, maxKinds)
	}
}

func TestPasswordsThatHashesCannotTellApart(t *testing.T) {
	long, errs := Parse([]byte("ann:$2b$04$abcdefghijklmnopqrstuuBzzIgyKkz7xMWYSzkIjUSnxEQFQ0WNe")) // of 80 times a
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	for n, want := range map[int]Verdict{71: Refused, 72: Passed, 80: Passed, 256: Passed, 257: Refused} {
		if v := long.ask("ann", strings.Repeat("a", n)); v != want {
			t.Errorf("bcrypt with %d bytes: %d, want %d", n, v, want)
		}
	}
	short, _ := Parse([]byte("ann:" + bcrypt05))
	if v := short.ask("ann", "open sesame\x00open sesame"); v != Refused {
		t.Errorf("a password is let in when it is repeated after a NUL")
	}
	if v := short.ask(strings.Repeat("u", 257), "x"); v != Refused {
		t.Errorf("a long name: %d", v)
	}
}

// FuzzParse looks for hashes that are taken and then panic, and for errors that tell a line.
func FuzzParse(f *testing.F) {
	for _, hash := range []string{bcrypt05, apr1, crypt5, crypt6, plainSHA, saltedSHA, "$6$rounds=1000$a$b", "$5$rounds=$", "{SSHA}", "{PLAIN}x"} {
		f.Add(hash, "open sesame")
	}
	f.Fuzz(func(t *testing.T, hash, password string) {
		file, errs := Parse([]byte("ann:" + hash + "\n"))
		for _, err := range errs {
			if len(hash) > 12 && !strings.Contains(hash, "\n") && strings.Contains(err.Error(), hash) {
				t.Errorf("the error tells the hash: %v", err)
			}
		}
		for kind, matches := range file.kinds {
			if !strings.HasPrefix(kind, "bcrypt 1") { // those take too long
				matches(password)
			}
		}
	})
}
