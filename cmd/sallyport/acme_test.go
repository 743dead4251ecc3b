package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/config"
	"sallyport/proxy/admin"
)

// TestFlagsOfOrdersThatMeanNothing are refused with what is missing.
func TestFlagsOfOrdersThatMeanNothing(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "no-pem")
	if err := os.WriteFile(file, []byte("!"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := world{lookup: func(string) (string, bool) { return "", false }}
	for _, test := range []struct {
		set  func(*config.Config)
		want string
	}{
		{func(c *config.Config) { c.ACMEEmail, c.ACMEAcceptTerms = "a@b.test", false }, "--acme-email: no certificates are ordered unless --acme-accept-terms"},
		{func(c *config.Config) { c.ACMECABundle = file }, "--acme-ca-bundle: " + file + " holds no certificate in PEM"},
		{func(c *config.Config) { c.ACMEEABKeyID = "k" }, "--acme-eab-kid and --acme-eab-hmac-key-file belong together"},
		{func(c *config.Config) { c.ACMEEABKeyID, c.ACMEEABHMACKeyFile = "k", file }, "--acme-eab-hmac-key-file: " + file + " holds no key in base64url"},
		{func(c *config.Config) { c.StateDir = "" }, "certificates that are ordered need a folder that outlives the process"},
		{func(c *config.Config) { c.Manifests = nil }, "set POD_NAMESPACE"},
	} {
		c := config.Default()
		c.ACMEAcceptTerms, c.Manifests, c.StateDir = true, []string{folder}, folder
		test.set(&c)
		_, err := newOrderer(w, c, folderSource{}, admin.NewMetrics(admin.Identity{}), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
