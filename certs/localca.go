package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A LocalCA is a certificate authority for one machine. It issues certificates for whatever names its caller asks for, so
// that a client which trusts it, once, trusts every host of a folder of manifests. Leaves are made when they are first
// asked for, are good for a week and replaced after five days; they live in memory alone.
//
// The authority's own key and certificate may be kept in a folder (ca.key, ca.crt), where several processes can use them
// at a time. Whoever can read the key can be every host to the clients that trust the certificate, so it is made for its
// owner's eyes only, and one that others can read is refused. The names are not constrained (RFC 5280 section 4.2.1.10):
// manifests may have any host, and clients would need another certificate with every new one.
type LocalCA struct {
	now  func() time.Time
	pair *tls.Certificate
	path string            // of the certificate; empty: it is nowhere
	key  *ecdsa.PrivateKey // of all leaves

	mu     sync.Mutex // guards what follows
	leaves map[string]*tls.Certificate
}

// Lengths of lives. Those of authorities are long, since people have to trust them by hand.
const (
	localLife     = 5 * 365 * 24 * time.Hour
	localLast     = 30 * 24 * time.Hour // of which an authority is not used any more
	leafLife      = 7 * 24 * time.Hour
	leafRenewal   = 5 * 24 * time.Hour // after which another is made
	clocksDiffer  = time.Hour
	maxLeaves     = 1024 // kept; a wildcard has any number of names
	localCertFile = "ca.crt"
	localKeyFile  = "ca.key"
)

// OpenLocalCA returns the authority that a folder keeps, and makes folder and authority where there is none. One that is
// about to end is replaced, which made says, too. Now is the time; nil: time.Now.
func OpenLocalCA(folder string, now func() time.Time) (ca *LocalCA, made bool, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, false, err
	}
	ca = newLocalCA(now)
	keyPath, certPath := filepath.Join(folder, localKeyFile), filepath.Join(folder, localCertFile)
	// Of two processes that make one at a time, the second finds the first one's key.
	for range 2 {
		if ca.pair, err = loadCA(certPath, keyPath); err == nil && ca.now().Before(ca.pair.Leaf.NotAfter.Add(-localLast)) {
			ca.path = certPath
			return ca, made, nil
		}
		old := err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		if err = makeCA(certPath, keyPath, old, ca.now()); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
		made = err == nil
	}
	return nil, false, fmt.Errorf("%s: what was made there is gone at once", folder)
}

// NewLocalCA returns an authority that ends with the process.
func NewLocalCA(now func() time.Time) (*LocalCA, error) {
	ca := newLocalCA(now)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a local CA: %w", err)
	}
	ca.pair, err = certifyCA(key, ca.now())
	return ca, err
}

func newLocalCA(now func() time.Time) *LocalCA {
	if now == nil {
		now = time.Now
	}
	return &LocalCA{now: now, leaves: make(map[string]*tls.Certificate)}
}

// Path is the file with the authority's certificate; empty: there is none.
func (ca *LocalCA) Path() string { return ca.path }

// PEM is the authority's certificate as clients are given it.
func (ca *LocalCA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.pair.Certificate[0]})
}

// Pair is a certificate for a host. It fails only where there is no randomness. Whether a host may have one is for the
// caller to say.
func (ca *LocalCA) Pair(host string) (*tls.Certificate, error) { return ca.leaf(host, host) }

// Default is a certificate for this machine itself, for clients that ask for no name or for one that nobody has.
func (ca *LocalCA) Default() (*tls.Certificate, error) {
	return ca.leaf("", "localhost", "127.0.0.1", "::1", selfSignedHost)
}

// leaf is the certificate that is kept under a key, made anew where it is too old.
func (ca *LocalCA) leaf(key string, names ...string) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	now := ca.now()
	if pair := ca.leaves[key]; pair != nil && now.Before(pair.Leaf.NotBefore.Add(clocksDiffer+leafRenewal)) {
		return pair, nil
	}
	pair, err := ca.issueLocked(now, names)
	if err != nil {
		return nil, err
	}
	if len(ca.leaves) >= maxLeaves {
		for other := range ca.leaves { // any one
			delete(ca.leaves, other)
			break
		}
	}
	ca.leaves[key] = pair
	return pair, nil
}

func (ca *LocalCA) issueLocked(now time.Time, names []string) (_ *tls.Certificate, err error) {
	if ca.key == nil {
		if ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
	}
	form, err := templateFrom(now, leafLife)
	if err != nil {
		return nil, err
	}
	form.Subject = pkix.Name{Organization: []string{"Sallyport"}}
	if len(names[0]) <= 64 { // as long as a common name may be
		form.Subject.CommonName = names[0]
	}
	for _, name := range names {
		if ip := net.ParseIP(strings.Trim(name, "[]")); ip != nil {
			form.IPAddresses = append(form.IPAddresses, ip)
		} else {
			form.DNSNames = append(form.DNSNames, name)
		}
	}
	if form.NotAfter.After(ca.pair.Leaf.NotAfter) {
		form.NotAfter = ca.pair.Leaf.NotAfter
	}
	form.KeyUsage = x509.KeyUsageDigitalSignature
	form.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return certify(form, ca.pair.Leaf, ca.key, ca.pair.PrivateKey.(*ecdsa.PrivateKey))
}

// templateFrom is what certificates of any kind begin with.
func templateFrom(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-clocksDiffer), NotAfter: now.Add(life), BasicConstraintsValid: true,
	}, nil
}

// certify makes the certificate of a key, signed by its parent, which may be itself.
func certify(form, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// certifyCA makes the certificate of an authority. Its name has a part of its serial number: people who trust it meet it in
// lists among others.
func certifyCA(key *ecdsa.PrivateKey, now time.Time) (*tls.Certificate, error) {
	form, err := templateFrom(now, localLife)
	if err != nil {
		return nil, err
	}
	form.Subject = pkix.Name{Organization: []string{"Sallyport"}, CommonName: fmt.Sprintf("Sallyport local CA %08x", form.SerialNumber.Uint64()&0xffffffff)}
	form.KeyUsage = x509.KeyUsageCertSign
	form.IsCA, form.MaxPathLenZero = true, true
	return certify(form, form, key, key)
}

// makeCA makes the files of an authority: that of the key, which has all there is, at once. Old ones are replaced; else the
// error is fs.ErrExist where somebody else was faster.
func makeCA(certPath, keyPath string, replace bool, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a local CA: %w", err)
	}
	pair, err := certifyCA(key, now)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make a local CA: %w", err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), cert...)
	if err := place(keyPath, both, replace); err != nil {
		return err
	}
	return place(certPath, cert, true)
}

// place writes a file as a whole: nobody sees half of it. Without replace it must not be there yet.
func place(path string, content []byte, replace bool) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if replace {
		return os.Rename(file.Name(), path)
	}
	return os.Link(file.Name(), path)
}

// loadCA reads an authority. The key's file has its certificate too, which is what counts; that of the certificate is for
// clients, and is made good where it is another.
func loadCA(certPath, keyPath string) (*tls.Certificate, error) {
	info, err := os.Stat(keyPath)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may read or write it (mode %04o): expected 0600; remove both %s and %s if somebody may have, and they are made anew", keyPath, info.Mode().Perm(), localKeyFile, localCertFile)
	}
	text, err := os.ReadFile(keyPath)
	if err != nil {
		return nil, err
	}
	pair, err := Parse(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s: expected a certificate authority with an ECDSA key", keyPath)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	if there, err := os.ReadFile(certPath); err != nil || string(there) != string(cert) {
		if err := place(certPath, cert, true); err != nil {
			return nil, err
		}
	}
	return pair, nil
}
