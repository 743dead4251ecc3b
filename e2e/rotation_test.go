package e2e_test

import (
	"crypto/tls"
	"path/filepath"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestASecretIsRotatedUnderLoad replaces the file of a Secret again and again while two hundred clients a second come: every
// handshake succeeds, and from a tenth of a second after the file was renamed into its place nobody is shown the certificate
// before. A connection that was there before the first is there after the last.
func TestASecretIsRotatedUnderLoad(t *testing.T) {
	const rotations = 20
	root := e2e.NewAuthority(t, "root")
	var pairs []*tls.Certificate
	var secrets []string
	for range rotations + 1 {
		pair := root.Issue(t, "a.test")
		pairs, secrets = append(pairs, pair), append(secrets, pairSecret(t, "default", "a", pair))
	}
	folder := e2e.Folder(t, map[string]string{"a.yaml": secured("default", "a.test", entry("a", "a.test")), "secret.yaml": secrets[0]})
	web := e2e.Echo(t, "127.0.0.1:0", "web")
	s := &shop{t: t}
	s.Process = e2e.Start(t, folder, "--map=default/web:80="+web.Addr)
	stays, _, err := s.handshake(variants[1], "a.test")
	if err != nil {
		t.Fatal(err)
	}

	load := e2e.StartHandshakes(t, s.HTTPS, "a.test", 200, pairs[0])
	load.Shown(t, 20)
	for i := 1; i <= rotations; i++ {
		e2e.WriteFile(t, filepath.Join(folder, "secret.yaml"), secrets[i])
		load.Wrote(pairs[i])
		load.Shown(t, 20)
		if answer := s.ask(stays, "a.test"); answer.StatusCode != 200 {
			t.Fatalf("after %d rotations a connection from before is answered %d", i, answer.StatusCode)
		}
	}
	load.Stop(t, 100*time.Millisecond)
}
