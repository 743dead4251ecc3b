package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func openLocalCA(t testing.TB, folder string, now func() time.Time) *LocalCA {
	t.Helper()
	ca, _, err := OpenLocalCA(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// trusting is what clients know who trust an authority by its file.
func trusting(t testing.TB, path string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate", path)
	}
	return pool
}

// shakes makes a handshake for a name with whatever a Store shows.
func shakes(t testing.TB, s *Store, roots *x509.CertPool, name string) error {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		defer server.Close()
		over := tls.Server(server, &tls.Config{GetConfigForClient: s.GetConfigForClient})
		if over.Handshake() == nil {
			io.WriteString(over, "x")
		}
	}()
	client.SetDeadline(time.Now().Add(10 * time.Second))
	_, err := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: name}).Read(make([]byte, 1))
	return err
}

func TestClientsThatTrustALocalCATrustEveryNameItIsAskedFor(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not", "there", "yet")
	ca := openLocalCA(t, folder, nil)
	store := &Store{Local: func(name string) *tls.Certificate {
		if name == "nobody.test" {
			return nil
		}
		pair, err := ca.Pair(name)
		if name == "" || name == "localhost" {
			pair, err = ca.Default()
		}
		if err != nil {
			t.Error(err)
		}
		return pair
	}}
	roots := trusting(t, ca.Path())
	for _, name := range []string{"a.test", "A.Test", "b.apps.test", "myapp.localhost", "localhost", "127.0.0.1", "::1", strings.Repeat("a.", 100) + "test"} {
		if err := shakes(t, store, roots, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := shakes(t, store, roots, "nobody.test"); err == nil {
		t.Error("nobody.test, which is to have none, has a certificate that is trusted")
	}
	store.Set(Certificates{ByHost: map[string]*Host{"own.test": {Pairs: []*tls.Certificate{pairFor(t, "own.test")}}, "none.test": nil}})
	if err := shakes(t, store, roots, "own.test"); err == nil {
		t.Error("own.test, which has a certificate of its own, shows that of the local CA")
	}
	if err := shakes(t, store, roots, "none.test"); err != nil {
		t.Errorf("none.test, which is to have the default one: %v", err)
	}
	store.Set(Certificates{Default: pairFor(t, "default.test")})
	if err := shakes(t, store, roots, "a.test"); err == nil {
		t.Error("a.test shows a certificate of the local CA although there is a default one")
	}
}

func TestALocalCAStays(t *testing.T) {
	folder := t.TempDir()
	first, made, err := OpenLocalCA(folder, nil)
	if err != nil || !made {
		t.Fatalf("made %v, %v; want true", made, err)
	}
	for file, want := range map[string]os.FileMode{"ca.key": 0o600, "ca.crt": 0o600} {
		info, err := os.Stat(filepath.Join(folder, file))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", file, info.Mode(), err, want)
		}
	}
	os.Remove(first.Path()) // which is made good
	second, made, err := OpenLocalCA(folder, nil)
	if err != nil || made {
		t.Fatalf("made %v, %v; want what is there", made, err)
	}
	pair, err := second.Pair("a.test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: poolOf(first.pair.Leaf), DNSName: "a.test"}); err != nil {
		t.Errorf("who trusts the first does not trust the second: %v", err)
	}
	if string(first.PEM()) != string(second.PEM()) {
		t.Error("the certificate is another one")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v; want two files", entries, err)
	}
}

func poolOf(all ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, one := range all {
		pool.AddCert(one)
	}
	return pool
}

func TestProcessesThatBeginTogetherShareALocalCA(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	var all [16]*LocalCA
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			ca, _, err := OpenLocalCA(folder, nil)
			if err != nil {
				t.Error(err)
			}
			all[i] = ca
		})
	}
	running.Wait()
	for i, ca := range all {
		if ca == nil || string(ca.PEM()) != string(all[0].PEM()) {
			t.Fatalf("process %d has another authority than the first", i)
		}
	}
}

func TestLeavesAreRenewedBeforeTheyEnd(t *testing.T) {
	begin := time.Now()
	now := begin
	ca := openLocalCA(t, t.TempDir(), func() time.Time { return now })
	get := func() *tls.Certificate {
		t.Helper()
		pair, err := ca.Pair("a.test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: poolOf(ca.pair.Leaf), DNSName: "a.test", CurrentTime: now}); err != nil {
			t.Errorf("after %v: %v", now.Sub(begin), err)
		}
		return pair
	}
	first := get()
	if life := first.Leaf.NotAfter.Sub(begin).Round(time.Hour); life != 7*24*time.Hour {
		t.Errorf("a leaf lives for %v, want a week", life)
	}
	now = begin.Add(5*24*time.Hour - time.Minute)
	if get() != first {
		t.Error("before five days are over there is another leaf")
	}
	now = begin.Add(5*24*time.Hour + time.Minute)
	if get() == first {
		t.Error("after five days there is the same leaf")
	}
	now = ca.pair.Leaf.NotAfter.Add(-time.Hour)
	if pair := get(); pair.Leaf.NotAfter.After(ca.pair.Leaf.NotAfter) {
		t.Error("a leaf outlives its authority")
	}
}

func TestALocalCAThatIsAboutToEndIsReplaced(t *testing.T) {
	folder := t.TempDir()
	now := time.Now()
	clock := func() time.Time { return now }
	first := openLocalCA(t, folder, clock)
	now = first.pair.Leaf.NotAfter.Add(-29 * 24 * time.Hour)
	second, made, err := OpenLocalCA(folder, clock)
	if err != nil || !made || string(first.PEM()) == string(second.PEM()) {
		t.Fatalf("made %v, %v; want another authority", made, err)
	}
	if text, err := os.ReadFile(second.Path()); err != nil || string(text) != string(second.PEM()) {
		t.Errorf("the file has another certificate, %v", err)
	}
}

func TestNamesWithoutEndAreNotKept(t *testing.T) {
	ca, err := NewLocalCA(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxLeaves + 10 {
		if _, err := ca.Pair(fmt.Sprintf("n%d.apps.test", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(ca.leaves) != maxLeaves {
		t.Errorf("%d leaves are kept, want %d", len(ca.leaves), maxLeaves)
	}
}

func TestAFolderThatHoldsNoAuthorityIsLeftAsItIs(t *testing.T) {
	for what, test := range map[string]struct {
		spoil func(t *testing.T, folder string)
		want  string
	}{
		"a key that others may read": {func(t *testing.T, folder string) {
			openLocalCA(t, folder, nil)
			os.Chmod(filepath.Join(folder, "ca.key"), 0o644)
		}, "others may read or write it (mode 0644): expected 0600"},
		"a key that is none": {func(t *testing.T, folder string) {
			os.WriteFile(filepath.Join(folder, "ca.key"), []byte("x"), 0o600)
		}, "is not PEM"},
		"half a key": {func(t *testing.T, folder string) {
			ca := openLocalCA(t, folder, nil)
			os.WriteFile(filepath.Join(folder, "ca.key"), ca.PEM(), 0o600)
		}, "PEM block of type"},
		"a file in place of the folder": {func(t *testing.T, folder string) {
			os.Remove(folder)
			os.WriteFile(folder, nil, 0o600)
		}, "not a directory"},
		"a folder in place of the key": {func(t *testing.T, folder string) {
			os.MkdirAll(filepath.Join(folder, "ca.key"), 0o700)
		}, "is a directory"},
	} {
		folder := filepath.Join(t.TempDir(), "state")
		os.Mkdir(folder, 0o700)
		test.spoil(t, folder)
		before, _ := os.ReadFile(filepath.Join(folder, "ca.key"))
		if _, _, err := OpenLocalCA(folder, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one with %q", what, err, test.want)
		}
		if after, _ := os.ReadFile(filepath.Join(folder, "ca.key")); string(before) != string(after) {
			t.Errorf("%s: the file is another one", what)
		}
	}
}
