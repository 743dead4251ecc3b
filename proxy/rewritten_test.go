package proxy

import "testing"

func TestNormalPathHasOneSlashAndNoEscapes(t *testing.T) {
	for target, want := range map[string]string{
		"/a/b?x=%2F":          "/a/b",
		"/a%2Fb":              "/a/b",
		"/a//b%20c":           "/a/b c",
		"/a%2f%2Fb?q":         "/a/b",
		"/%25%41":             "/%A",
		"/":                   "/",
		"/group%2Fproject/-/": "/group/project/-/",
	} {
		path, sent, ok := readTarget(target)
		if !ok {
			t.Fatalf("%s is refused", target)
		}
		e := &Exchange{Path: path, Target: sent}
		if got := e.NormalPath(); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

func TestARewrittenPathIsFitForARequestLine(t *testing.T) {
	for path, want := range map[string]string{
		"":              "/",
		"a":             "/a",
		"/a b?c#d%e":    "/a%20b%3Fc%23d%25e",
		"/ü":            "/%C3%BC",
		"/x/../y":       "/y",
		"/x/./y/..":     "/x/",
		"/../../etc":    "/etc",
		"/a\r\nX: y":    "/a%0D%0AX:%20y",
		"/a;b=1,c@d!$&": "/a;b=1,c@d!$&",
		"/x/.hidden":    "/x/.hidden",
		"/x/...":        "/x/...",
	} {
		if got := string(AppendTarget([]byte("+"), []byte(path))); got != "+"+want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
