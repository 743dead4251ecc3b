package main

import (
	"testing"

	"sallyport/config"
)

func TestTheStateDirectoryIsTheFlagsElseTheUsers(t *testing.T) {
	for _, test := range []struct{ flag, state, home, want string }{
		{"/var/lib/s", "/x", "/home/u", "/var/lib/s"},
		{"", "/x", "/home/u", "/x/sallyport"},
		{"", "not/absolute", "/home/u", "/home/u/.local/state/sallyport"},
		{"", "", "/home/u", "/home/u/.local/state/sallyport"},
		{"", "", "", ""},
		{"", "", "home", ""},
	} {
		env := map[string]string{"XDG_STATE_HOME": test.state, "HOME": test.home}
		w := world{lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}
		got, err := stateDir(w, config.Config{StateDir: test.flag})
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("stateDir of %+v = %q, %v; want %q", test, got, err, test.want)
		}
	}
}
