package acme_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/e2e/acme"
)

func TestMain(m *testing.M) {
	acme.Prepare()
	os.Exit(e2e.Main(m))
}

// ingress asks for certificates for hosts, each in an entry of spec.tls without a Secret.
func ingress(name, annotations string, hosts ...string) string {
	var tls, rules strings.Builder
	for _, host := range hosts {
		fmt.Fprintf(&tls, "  - hosts: [%q]\n", host)
		fmt.Fprintf(&rules, "  - host: %q\n    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}\n", host)
	}
	return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, annotations: {ingress.kubernetes.io/acme: \"true\"%s}}\nspec:\n  tls:\n%s  rules:\n%s---\n", name, annotations, tls.String(), rules.String())
}

const web = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"

// start serves manifests with certificates of the authority, kept in a folder.
func start(t *testing.T, a *acme.Authority, state, manifests string, flags ...string) *e2e.Process {
	t.Helper()
	endpoint := e2e.Echo(t, "127.0.0.1:0", "web")
	return startWith(t, a, e2e.Folder(t, map[string]string{"all.yaml": manifests + web}), state, endpoint, flags...)
}

func startWith(t *testing.T, a *acme.Authority, folder, state string, endpoint *e2e.Endpoint, flags ...string) *e2e.Process {
	t.Helper()
	flags = append(flags, "--state-dir="+state, "--map=web="+endpoint.Addr, "--drain-delay=0", "--access-log=off")
	s := e2e.Start(t, folder, a.Flags(flags...)...)
	a.Finds(s)
	return s
}

func expect(t *testing.T, a *acme.Authority, s *e2e.Process, host string) {
	t.Helper()
	e2e.Eventually(t, host+" has a certificate", func() error {
		_, err := a.Shown(s.HTTPS, host)
		return err
	})
}

func get(t *testing.T, s *e2e.Process, url string) (*http.Response, string) {
	t.Helper()
	client := s.Client(nil)
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// TestAFolderHasItsCertificates orders by each kind of challenge, from an authority that rejects every third nonce, for a
// host that guards everything it has. What is there is not ordered again by a process that starts later.
func TestAFolderHasItsCertificates(t *testing.T) {
	for _, kind := range []string{"http-01", "tls-alpn-01"} {
		t.Run(kind, func(t *testing.T) {
			a := acme.Start(t, acme.Options{RejectedNonces: 30})
			a.Knows("a.test", "b.test")
			state := t.TempDir()
			manifests := ingress("a", `, nginx.ingress.kubernetes.io/whitelist-source-range: "192.0.2.0/24", nginx.ingress.kubernetes.io/force-ssl-redirect: "true"`, "a.test") + ingress("b", "", "b.test")
			began := time.Now()
			s := start(t, a, state, manifests, "--acme-challenges="+kind)
			expect(t, a, s, "a.test")
			expect(t, a, s, "b.test")
			t.Logf("both have certificates %v after the start", time.Since(began).Round(time.Millisecond))
			if answer, _ := get(t, s, "http://b.test/"); answer.StatusCode != http.StatusPermanentRedirect {
				t.Errorf("http://b.test/ is answered %s, want a redirect to HTTPS", answer.Status)
			}
			if _, body := get(t, s, "https://b.test/.well-known/acme-challenge/token-of-others"); !strings.Contains(body, `"endpoint":"web"`) {
				t.Errorf("a token that is not ours is answered %s, want the endpoint's answer: others solve challenges too", body)
			}
			s.Terminate()
			<-s.Exited()
			s = start(t, a, state, manifests, "--acme-challenges="+kind)
			if _, err := a.Shown(s.HTTPS, "a.test"); err != nil {
				t.Errorf("a process that starts later has no certificate at once: %v", err)
			}
			for _, host := range []string{"a.test", "b.test"} {
				if n := a.Orders(host); n < 1 || n > 20 {
					t.Errorf("there were %d requests for orders for %s", n, host)
				}
			}
			if n := s.Metric(t, "sallyport_acme_orders_total"); n != 0 {
				t.Errorf("the process that started later made %v orders, want none", n)
			}
			checkModes(t, filepath.Join(state, "acme"))
		})
	}
}

// checkModes holds that nobody else may read keys.
func checkModes(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 4 {
		t.Errorf("%d files are kept, want an account, orders and two certificates at least", len(entries))
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", entry.Name(), info.Mode())
		}
	}
}

// TestAHostThatLeadsElsewhere has its reason told, and the others their certificates.
func TestAHostThatLeadsElsewhere(t *testing.T) {
	a := acme.Start(t, acme.Options{Blocked: []string{"blocked.test"}})
	a.Knows("good.test", "blocked.test")
	a.Names.Set("away.test", e2e.Records{Addresses: []string{"127.0.0.9"}}) // where nobody listens
	s := start(t, a, t.TempDir(), ingress("good", "", "good.test")+ingress("away", "", "away.test")+ingress("none", "", "unknown.test")+ingress("blocked", "", "blocked.test")+ingress("wild", "", "*.wild.test"))
	expect(t, a, s, "good.test")
	for host, want := range map[string]string{
		"away.test":    "the certificate authority does not get through to away.test on port 80: does its DNS lead here, and is the port open?",
		"unknown.test": "the certificate authority does not get through to unknown.test on port 80: does its DNS lead here, and is the port open?",
		"blocked.test": "the certificate authority issues none for blocked.test:",
	} {
		e2e.Eventually(t, host+" is told what is wrong", func() error {
			for page, text := range map[string]string{"log": s.Log(), "/routes": s.AdminGet(t, "/routes"), "/metrics": s.AdminGet(t, "/metrics")} {
				if page == "/metrics" {
					if !strings.Contains(text, `sallyport_acme_host_failures{host="`+host+`"} 1`) {
						return errors.New("it is not in the metrics")
					}
				} else if !strings.Contains(text, want) {
					return fmt.Errorf("%s does not say %q", page, want)
				}
			}
			if !strings.Contains(s.AdminGet(t, "/metrics"), `reason="CertificateNotIssued",severity="error"`) {
				return errors.New("it is no problem")
			}
			return nil
		})
		if n := a.Orders(host); n != 1 {
			t.Errorf("%d orders for %s, want 1 that is not repeated at once", n, host)
		}
	}
	if !strings.Contains(s.Log(), "no certificate is ordered for the wildcard *.wild.test") || a.Orders("*.wild.test") != 0 {
		t.Error("nobody says that wildcards are not ordered for, or one was")
	}
}

// TestAnAuthorityInTrouble breaks off orders in their middle: each is gone on with, and none is made twice.
func TestAnAuthorityInTrouble(t *testing.T) {
	t.Run("it answers 500 where an order is finished", func(t *testing.T) {
		a := acme.Start(t, acme.Options{Slow: 1})
		a.Knows("a.test")
		a.Trouble(acme.FinalizePath, 1)
		s := start(t, a, t.TempDir(), ingress("a", "", "a.test"))
		expect(t, a, s, "a.test")
		if n := a.Orders("a.test"); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
	})
	t.Run("it is away when the process starts", func(t *testing.T) {
		a := acme.Start(t, acme.Options{})
		a.Knows("a.test")
		a.Down(true)
		s := start(t, a, t.TempDir(), ingress("a", "", "a.test"))
		e2e.Eventually(t, "it is told", func() error {
			if !strings.Contains(s.AdminGet(t, "/routes"), "cannot be reached") {
				return errors.New("no word of it on /routes")
			}
			return nil
		})
		client := s.Client(nil)
		defer client.CloseIdleConnections()
		answer, err := client.Get("https://a.test/")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("the host is answered %v, %v meanwhile; want 200 with the default certificate", answer, err)
		}
		a.Down(false)
		expect(t, a, s, "a.test")
		e2e.Eventually(t, "the problem is solved", func() error {
			if text := s.AdminGet(t, "/routes"); strings.Contains(text, "cannot be reached") {
				return errors.New(text)
			}
			return nil
		})
	})
	t.Run("the process is killed between order and answer", func(t *testing.T) {
		a := acme.Start(t, acme.Options{})
		a.Knows("a.test")
		waiting, free := a.Hold(acme.ChallengePath)
		state := t.TempDir()
		s := start(t, a, state, ingress("a", "", "a.test"))
		e2e.Eventually(t, "the authority is to be told of an answer", func() error {
			if waiting() == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		s.Kill()
		e2e.Eventually(t, "what it was about to say is lost", func() error {
			if waiting() > 0 {
				return errors.New("not yet")
			}
			return nil
		})
		free()
		s = start(t, a, state, ingress("a", "", "a.test"))
		expect(t, a, s, "a.test")
		if n := a.Orders("a.test"); n != 1 {
			t.Errorf("%d orders, want 1 that the second process goes on with", n)
		}
	})
}

// TestRenewalUnderLoad renews certificates that live 15 seconds while clients ask, twice, and once because the authority
// wants it.
func TestRenewalUnderLoad(t *testing.T) {
	t.Run("at two thirds", func(t *testing.T) {
		a := acme.Start(t, acme.Options{Life: 15 * time.Second})
		a.Knows("a.test")
		s := start(t, a, t.TempDir(), ingress("a", "", "a.test"))
		expect(t, a, s, "a.test")
		load := e2e.StartLoad(t, s, 8, 5*time.Millisecond, e2e.Target{URL: "https://a.test/", Endpoints: []string{"web"}})
		handshakes := startHandshakes(t, a, s, "a.test")
		expectAnother(t, a, s, "a.test")
		expectAnother(t, a, s, "a.test")
		if n := a.Orders("a.test"); n != 3 {
			t.Errorf("%d orders, want 3: the first and two renewals", n)
		}
		load.Stop(t, 100)
		handshakes()
	})
	t.Run("when the authority asks", func(t *testing.T) {
		a := acme.Start(t, acme.Options{})
		a.Knows("a.test")
		state := t.TempDir()
		s := start(t, a, state, ingress("a", "", "a.test"))
		expect(t, a, s, "a.test")
		leaf, err := a.Shown(s.HTTPS, "a.test")
		if err != nil {
			t.Fatal(err)
		}
		s.Terminate()
		<-s.Exited()
		a.AskRenewal(t, leaf)
		s = start(t, a, state, ingress("a", "", "a.test"))
		e2e.Eventually(t, "the certificate is renewed", func() error {
			now, err := a.Shown(s.HTTPS, "a.test")
			if err == nil && now.Equal(leaf) {
				err = errors.New("it is the old one")
			}
			return err
		})
		if n := a.Orders("a.test"); n != 2 {
			t.Errorf("%d orders, want 2", n)
		}
	})
}

// expectAnother waits until a host has another certificate than now.
func expectAnother(t *testing.T, a *acme.Authority, s *e2e.Process, host string) {
	t.Helper()
	leaf, err := a.Shown(s.HTTPS, host)
	if err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, host+" has another certificate", func() error {
		now, err := a.Shown(s.HTTPS, host)
		if err == nil && now.Equal(leaf) {
			err = errors.New("it is the same")
		}
		return err
	})
}

// startHandshakes makes one handshake after another until stop is called, which fails the test if one met a certificate that
// is not good.
func startHandshakes(t *testing.T, a *acme.Authority, s *e2e.Process, host string) (stop func()) {
	end, done := make(chan struct{}), make(chan error, 1)
	made := 0
	go func() {
		for {
			select {
			case <-end:
				done <- nil
				return
			default:
			}
			if _, err := a.Shown(s.HTTPS, host); err != nil {
				done <- err
				return
			}
			made++
		}
	}()
	return func() {
		close(end)
		if err := <-done; err != nil {
			t.Errorf("a handshake failed: %v", err)
		}
		t.Logf("%d handshakes", made)
	}
}

// TestAnAccountIsBound opens an account that the authority binds to one it knows.
func TestAnAccountIsBound(t *testing.T) {
	const key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	a := acme.Start(t, acme.Options{Keys: map[string]string{"kid-1": key}})
	a.Knows("a.test")
	file := filepath.Join(e2e.Folder(t, map[string]string{"mac": key + "\n"}), "mac")
	s := start(t, a, t.TempDir(), ingress("a", "", "a.test"), "--acme-eab-kid=kid-1", "--acme-eab-hmac-key-file="+file, "--acme-email=ops@example.org")
	expect(t, a, s, "a.test")

	unbound := start(t, a, t.TempDir(), ingress("a", "", "a.test"))
	e2e.Eventually(t, "the account that is missing is told", func() error {
		if text := unbound.AdminGet(t, "/routes"); !strings.Contains(text, "there is no account at") {
			return errors.New(text)
		}
		return nil
	})
}

// TestManyHostsAtOnce asks for more than may be ordered at once: the rest waits.
func TestManyHostsAtOnce(t *testing.T) {
	a := acme.Start(t, acme.Options{})
	var hosts []string
	for i := range 200 {
		hosts = append(hosts, fmt.Sprintf("h%d.many.test", i))
	}
	a.Knows(hosts...)
	s := start(t, a, t.TempDir(), ingress("many", "", hosts...), "--acme-orders-per-hour=80")
	e2e.Eventually(t, "half an hour's worth of certificates is there", func() error {
		if n := s.Metric(t, "sallyport_acme_certificates_total"); n < 40 {
			return fmt.Errorf("there are %v", n)
		}
		return nil
	})
	if n := a.AllOrders(); n != 40 {
		t.Errorf("%d orders, want 40: half an hour's worth", n)
	}
	have := 0
	for _, host := range hosts {
		if _, err := a.Shown(s.HTTPS, host); err == nil {
			have++
		}
	}
	if have != 40 {
		t.Errorf("%d hosts have certificates, want 40", have)
	}
}

// TestAHandshakeOrdersNothing shows names that the table has not, and handshakes of TLS-ALPN-01 for a host that no order is for.
func TestAHandshakeOrdersNothing(t *testing.T) {
	a := acme.Start(t, acme.Options{})
	a.Knows("a.test", "evil.test")
	s := start(t, a, t.TempDir(), ingress("a", "", "a.test"))
	expect(t, a, s, "a.test")
	for i := range 100 {
		a.Shown(s.HTTPS, fmt.Sprintf("n%d.evil.test", i))
	}
	_, err := tls.Dial("tcp", s.HTTPS, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: []string{"acme-tls/1"}})
	if err == nil {
		t.Error("a handshake for TLS-ALPN-01 succeeds although no challenge is open")
	}
	if n := a.AllOrders(); n != 1 {
		t.Errorf("%d orders, want that for a.test alone", n)
	}
}
