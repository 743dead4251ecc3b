package htpasswd

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asked is a Digest client that was challenged.
type asked struct {
	user, realm, password, nonce string
	algorithm                    *algorithm
}

var nonceOf = regexp.MustCompile(`nonce="([^"]+)"`)

func challenged(f *DigestFile, user, realm, password string) asked {
	return asked{user, realm, password, nonceOf.FindStringSubmatch(f.Challenge(realm, false))[1], algorithms[0]}
}

// answer is the client's Authorization for a request.
func (a asked) answer(method, target string, count int) string {
	nc := fmt.Sprintf("%08x", count)
	ha1 := a.algorithm.hex(a.user + ":" + a.realm + ":" + a.password)
	response := a.algorithm.hex(ha1 + ":" + a.nonce + ":" + nc + ":c:auth:" + a.algorithm.hex(method+":"+target))
	return fmt.Sprintf(`Digest username="%s", realm="%s", nonce="%s", uri="%s", algorithm=%s, response="%s", qop=auth, nc=%s, cnonce="c"`,
		escaper.Replace(a.user), escaper.Replace(a.realm), a.nonce, target, a.algorithm.name, response, nc)
}

const (
	annMD5    = "ann:sallyport:75b4b4dfcf5029492450a6d187834534" // of "open sesame"
	annSHA256 = "ann:sallyport:f64247a31c53f22eb3fdd75c50002d5b1a2218c5a9f777181a7538ff67800624"
)

func digestFile(t *testing.T, text string) *DigestFile {
	t.Helper()
	f, errs := ParseDigest([]byte(text))
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	return f
}

// TestDigestsOfTheRFCs: their nonces are not ours, so that a right digest is stale and a wrong one refused.
func TestDigestsOfTheRFCs(t *testing.T) {
	for _, c := range []struct{ file, realm, header, response string }{
		{
			"Mufasa:testrealm@host.com:939e7578ed9e3c518a452acee763bce9", "testrealm@host.com", // RFC 2617, 3.5
			`Digest username="Mufasa", realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", uri="/dir/index.html", qop=auth, nc=00000001, cnonce="0a4f113b", response="%s", opaque="5ccc069c403ebaf9f0171e9517f40e41"`,
			"6629fae49393a05397450978507c4ef1",
		}, {
			"Mufasa:http-auth@example.org:" + algorithms[0].hex("Mufasa:http-auth@example.org:Circle of Life"), "http-auth@example.org", // RFC 7616, 3.9.1
			`Digest username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html", algorithm=MD5, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001, cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, response="%s", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`,
			"8ca523f5e9506fed4657c9700eebdbec",
		}, {
			"Mufasa:http-auth@example.org:" + algorithms[1].hex("Mufasa:http-auth@example.org:Circle of Life"), "http-auth@example.org",
			`digest username="Mufasa",realm="http-auth@example.org",uri="/dir/index.html",algorithm=sha-256,nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",nc=00000001,cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",qop="auth",response="%s",userhash=false`,
			"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
		},
	} {
		f := digestFile(t, c.file)
		if _, v := f.Check("GET", "/dir/index.html", fmt.Sprintf(c.header, c.response), c.realm); v != Stale {
			t.Errorf("%s: %d, want stale", c.header, v)
		}
		wrong := strings.Repeat("0", len(c.response))
		if _, v := f.Check("GET", "/dir/index.html", fmt.Sprintf(c.header, wrong), c.realm); v != Refused {
			t.Errorf("%s with a wrong response: %d, want refused", c.header, v)
		}
	}
}

func TestDigestLetsInWhoProvesThePassword(t *testing.T) {
	for i, text := range []string{annMD5, annSHA256} {
		f := digestFile(t, text+"\r\n")
		client := challenged(f, "ann", "sallyport", "open sesame")
		client.algorithm = algorithms[i]
		if challenge := f.Challenge("sallyport", false); !strings.Contains(challenge, "algorithm="+client.algorithm.name+",") {
			t.Errorf("%s: the challenge is %s", text, challenge)
		}
		if user, v := f.Check("GET", "/a?b=c", client.answer("GET", "/a?b=c", 1), "sallyport"); user != "ann" || v != Passed {
			t.Errorf("%s: %q, %d", text, user, v)
		}
	}
}

func TestDigestIsForOneRequest(t *testing.T) {
	f := digestFile(t, annMD5+"\nann:other:"+algorithms[0].hex("ann:other:open sesame"))
	client := challenged(f, "ann", "sallyport", "open sesame")
	good := client.answer("GET", "/a", 1)
	for _, c := range []struct{ claim, method, target, header, realm string }{
		{"another method", "POST", "/a", good, "sallyport"},
		{"another target", "GET", "/b", good, "sallyport"},
		{"another target, and a uri to match", "GET", "/b", strings.Replace(good, `uri="/a"`, `uri="/b"`, 1), "sallyport"},
		{"another realm", "GET", "/a", good, "other"},
		{"another realm, and a name to match", "GET", "/a", strings.Replace(good, `realm="sallyport"`, `realm="other"`, 1), "other"},
		{"a realm that is not in the file", "GET", "/a", strings.Replace(good, `realm="sallyport"`, `realm="x"`, 1), "x"},
		{"another realm in the field alone", "GET", "/a", strings.Replace(good, `realm="sallyport"`, `realm="other"`, 1), "sallyport"},
		{"another user", "GET", "/a", strings.Replace(good, `"ann"`, `"bob"`, 1), "sallyport"},
		{"another count", "GET", "/a", strings.Replace(good, "00000001", "00000002", 1), "sallyport"},
		{"another algorithm", "GET", "/a", strings.Replace(good, "=MD5", "=SHA-256", 1), "sallyport"},
		{"a session's algorithm", "GET", "/a", strings.Replace(good, "=MD5", "=MD5-sess", 1), "sallyport"},
		{"another protection", "GET", "/a", strings.Replace(good, "qop=auth", "qop=auth-int", 1), "sallyport"},
		{"none", "GET", "/a", strings.Replace(good, "qop=auth, ", "", 1), "sallyport"},
		{"no count", "GET", "/a", strings.Replace(good, "nc=00000001, ", "", 1), "sallyport"},
		{"a short count", "GET", "/a", strings.Replace(good, "00000001", "1", 1), "sallyport"},
		{"a count of 0", "GET", "/a", client.answer("GET", "/a", 0), "sallyport-"},
		{"no cnonce", "GET", "/a", strings.Replace(good, `cnonce="c"`, `x="c"`, 1), "sallyport"},
		{"a parameter twice", "GET", "/a", good + `, uri="/a"`, "sallyport"},
		{"a quote that does not end", "GET", "/a", good + `, x="`, "sallyport"},
		{"a backslash at the end", "GET", "/a", good + `, x="\`, "sallyport"},
		{"something behind a quote", "GET", "/a", strings.Replace(good, `"c"`, `"c"d`, 1), "sallyport"},
		{"a hashed user", "GET", "/a", good + ", userhash=true", "sallyport"},
		{"another scheme", "GET", "/a", strings.Replace(good, "Digest", "Basic", 1), "sallyport"},
		{"a long field", "GET", "/a", good + `, x="` + strings.Repeat("x", maxHeader) + `"`, "sallyport"},
		{"a wrong password", "GET", "/a", asked{"ann", "sallyport", "wrong", client.nonce, algorithms[0]}.answer("GET", "/a", 1), "sallyport"},
		{"a stranger", "GET", "/a", asked{"eve", "sallyport", "", client.nonce, algorithms[0]}.answer("GET", "/a", 1), "sallyport"},
		{"nothing", "GET", "/a", "", "sallyport"},
		{"the scheme alone", "GET", "/a", "Digest", "sallyport"},
	} {
		if user, v := f.Check(c.method, c.target, c.header, c.realm); v != Refused || user != "" {
			t.Errorf("%s: %q, %d; want refused", c.claim, user, v)
		}
	}
	if _, v := f.Check("GET", "/a", good, "sallyport"); v != Passed {
		t.Errorf("after all that the right one: %d", v)
	}
}

// TestStrangerHasNoHash: what is hashed in its place lets nobody in.
func TestStrangerHasNoHash(t *testing.T) {
	f := digestFile(t, annMD5)
	a := algorithms[0]
	nonce := challenged(f, "eve", "sallyport", "").nonce
	response := a.hex(fmt.Sprintf("%x:%s:00000001:c:auth:%s", f.key[:a.size], nonce, a.hex("GET:/a")))
	header := fmt.Sprintf(`Digest username="eve", realm="sallyport", nonce="%s", uri="/a", response="%s", qop=auth, nc=00000001, cnonce="c"`, nonce, response)
	if _, v := f.Check("GET", "/a", header, "sallyport"); v != Refused {
		t.Errorf("%d, want refused", v)
	}
}

func TestNonceIsForOneRealm(t *testing.T) {
	f := digestFile(t, annMD5+"\nann:other:"+algorithms[0].hex("ann:other:open sesame"))
	client := challenged(f, "ann", "sallyport", "open sesame")
	client.realm = "other"
	if _, v := f.Check("GET", "/a", client.answer("GET", "/a", 1), "other"); v != Stale {
		t.Errorf("%d, want stale", v)
	}
}

func TestNonceCountsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := digestFile(t, annMD5)
		time.Sleep(time.Hour)
		client := challenged(f, "ann", "sallyport", "open sesame")
		time.Sleep(nonceLifetime)
		if _, v := f.Check("GET", "/a", client.answer("GET", "/a", 1), "sallyport"); v != Passed {
			t.Errorf("within its time: %d", v)
		}
		time.Sleep(time.Millisecond)
		if _, v := f.Check("GET", "/a", client.answer("GET", "/a", 2), "sallyport"); v != Stale {
			t.Errorf("after its time: %d, want stale", v)
		}
		if challenge := f.Challenge("sallyport", true); !strings.HasSuffix(challenge, ", stale=true") {
			t.Errorf("the challenge is %s", challenge)
		}
	})
}

func TestNonceOfAnotherFileIsStale(t *testing.T) {
	client := challenged(digestFile(t, annMD5), "ann", "sallyport", "open sesame")
	if _, v := digestFile(t, annMD5).Check("GET", "/a", client.answer("GET", "/a", 1), "sallyport"); v != Stale {
		t.Errorf("%d, want stale", v)
	}
}

func TestHeardDigestDoesNotCountTwice(t *testing.T) {
	f := digestFile(t, annMD5)
	client := challenged(f, "ann", "sallyport", "open sesame")
	other := challenged(f, "ann", "sallyport", "open sesame")
	for i, c := range []struct {
		who   asked
		count int
		want  Verdict
	}{
		{client, 1, Passed}, {client, 1, Stale}, {other, 1, Passed}, {client, 3, Passed}, {client, 2, Passed}, {client, 2, Stale}, {client, 3, Stale},
		{client, 0, Stale}, {client, 66, Passed}, {client, 3, Stale}, {client, 4, Passed}, {client, 4, Stale}, {client, 200, Passed}, {client, 136, Stale}, {client, 137, Passed},
	} {
		if _, v := f.Check("GET", "/a", c.who.answer("GET", "/a", c.count), "sallyport"); v != c.want {
			t.Errorf("request %d, count %d: %d, want %d", i, c.count, v, c.want)
		}
	}
}

func TestOneOfManyAtOnceCounts(t *testing.T) {
	f := digestFile(t, annMD5)
	header := challenged(f, "ann", "sallyport", "open sesame").answer("GET", "/a", 1)
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, v := f.Check("GET", "/a", header, "sallyport"); v == Passed {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 {
		t.Errorf("one digest counted %d times", passed.Load())
	}
}

func TestUsesAreBoundedAndNeverForgetInFavourOfAReplay(t *testing.T) {
	var u uses
	const nonces = 5 * maxNonces
	for n := uint64(1); n <= nonces; n++ {
		if !u.first(n, 1) {
			t.Fatalf("nonce %d is new and refused", n)
		}
		if n > 1 && n%1000 == 0 && !u.first(1000, uint32(n)) { // one that stays in use
			t.Fatalf("nonce 1000 is in use and forgotten at %d", n)
		}
		if kept := len(u.young) + len(u.old); kept > 2*maxNonces {
			t.Fatalf("%d nonces are kept", kept)
		}
	}
	for n := uint64(1); n <= nonces; n++ {
		if u.first(n, 1) {
			t.Fatalf("nonce %d counts again", n)
		}
	}
	if !u.first(nonces+1, 1) {
		t.Error("a new nonce is refused")
	}
}

func TestDigestLinesThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"Zq7wXk", "line 2 is not user:realm:hash"},
		{"bob:Zq7wXk", "line 2 is not user:realm:hash"},
		{"bob:r:Zq7wXk", `line 2, user "bob": the hash is not 32 hexadecimal digits`},
		{"bob:r:75b4b4dfcf5029492450a6d1878345", "the hash is not 32 hexadecimal digits"},
		{":r:75b4b4dfcf5029492450a6d187834534", "a user has a name"},
		{"bob:sallyport:" + strings.Repeat("ab", 32), "the hash is SHA-256 and those before it in its realm are MD5"},
		{"ann:sallyport:00000000000000000000000000000000", "is not the first"},
	} {
		f, errs := ParseDigest([]byte(annMD5 + "\n" + c.line + "\n#\n"))
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "Zq7wXk") {
			t.Errorf("%s: errors %v, want one that says %q", c.line, errs, c.want)
		}
		if realms := f.Realms(); len(realms) != 1 || realms[0] != "sallyport" {
			t.Errorf("%s: realms %q", c.line, realms)
		}
		client := challenged(f, "ann", "sallyport", "open sesame")
		if _, v := f.Check("GET", "/", client.answer("GET", "/", 1), "sallyport"); v != Passed {
			t.Errorf("%s: ann is not let in: %d", c.line, v)
		}
	}
}

func TestDigestMap(t *testing.T) {
	f, errs := DigestFromMap(map[string][]byte{"ann": []byte(strings.TrimPrefix(annMD5, "ann:") + "\n"), "bob": []byte("75b4b4dfcf5029492450a6d187834534")})
	if len(errs) != 1 || errs[0].Error() != `key "bob" is not realm:hash` {
		t.Errorf("errors %v, want one of bob", errs)
	}
	client := challenged(f, "ann", "sallyport", "open sesame")
	if _, v := f.Check("GET", "/", client.answer("GET", "/", 1), "sallyport"); v != Passed {
		t.Errorf("ann is not let in: %d", v)
	}
}

func TestRealmAndUserAreQuoted(t *testing.T) {
	const realm, user = `the "back\door"`, `a"n\n`
	f := digestFile(t, user+":"+realm+":"+algorithms[0].hex(user+":"+realm+":p"))
	if challenge := f.Challenge(realm, false); !strings.HasPrefix(challenge, `Digest realm="the \"back\\door\"", qop="auth", algorithm=MD5, nonce="`) {
		t.Errorf("the challenge is %s", challenge)
	}
	if got, v := f.Check("GET", "/", challenged(f, user, realm, "p").answer("GET", "/", 1), realm); v != Passed || got != user {
		t.Errorf("%q: %d", got, v)
	}
}

func FuzzDigest(f *testing.F) {
	file, _ := ParseDigest([]byte(annMD5))
	client := challenged(file, "ann", "sallyport", "open sesame")
	f.Add(client.answer("GET", "/a", 1))
	f.Add(`Digest a=b,,c="d\"e" , =`)
	f.Fuzz(func(t *testing.T, header string) {
		if _, v := file.Check("PUT", "/z", header, "sallyport"); v != Refused {
			t.Errorf("%q: %d", header, v)
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	f, _ := ParseDigest([]byte(annMD5))
	header := challenged(f, "ann", "sallyport", "open sesame").answer("GET", "/a", 1)
	b.ReportAllocs()
	for b.Loop() {
		f.Check("GET", "/a", header, "sallyport")
	}
}
