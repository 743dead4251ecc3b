package http1

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"testing"
)

func TestRequestLinesThatCouldBeReadInTwoWaysAreRefused(t *testing.T) {
	for _, c := range []struct {
		method, target, host string
		want                 error
	}{
		{"GET / HTTP/1.1\r\nX:", "/", "a", errMethod},
		{"", "/", "a", errMethod},
		{"GET", "/?a b HTTP/1.1", "a", errTarget},
		{"GET", "/\r\nX: y", "a", errTarget},
		{"GET", "/\x00", "a", errTarget},
		{"GET", "", "a", errTarget},
		{"GET", "/", "a b", errHost},
		{"GET", "/", "a\r\nX: y", errHost},
	} {
		if b, err := AppendRequestLine(nil, c.method, c.target, c.host); !errors.Is(err, c.want) || len(b) != 0 {
			t.Errorf("%q %q %q: %q, %v; want nothing, %v", c.method, c.target, c.host, b, err, c.want)
		}
	}
}

func TestRequestHeadIsReadAsWritten(t *testing.T) {
	b, err := AppendRequestLine(nil, "PUT", "/a%2f?b;c", "a.test:80")
	if err != nil {
		t.Fatal(err)
	}
	b = AppendField(b, "X-A", "b c")
	b = AppendField(b, "X-Bad", "b\r\nX-Evil: 1")
	b = AppendField(b, "X Bad", "b")
	b = AppendEnd(AppendLength(b, 3))
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(b, "abc"...))))
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "PUT" || r.RequestURI != "/a%2f?b;c" || r.Host != "a.test:80" || r.ContentLength != 3 ||
		r.Header.Get("X-A") != "b c" || len(r.Header) != 2 {
		t.Errorf("read as %s %s, Host %s, length %d, %v", r.Method, r.RequestURI, r.Host, r.ContentLength, r.Header)
	}
}

func TestListsAreSplitAtCommas(t *testing.T) {
	for list, want := range map[string]bool{
		"close": true, "Close": true, "a, close": true, "a,\tCLOSE ,b": true, "": false, ",,": false,
		"closed": false, "a close": false, "clo\u017fe": false, "x-close": false,
	} {
		if got := HasToken(list, "close"); got != want {
			t.Errorf("HasToken(%q, close) is %v", list, got)
		}
	}
}
