package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/certs/acme"
	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/keeper"
	"sallyport/proxy/admin"
)

// folderOrders is the namespace in which a folder's certificates are that were ordered. No manifest can have it.
const folderOrders = "(state-dir)"

// ordersNamespace is where the certificates are that are ordered; empty: none are.
func ordersNamespace(w world, c config.Config) string {
	switch {
	case !c.ACMEAcceptTerms:
		return ""
	case len(c.Manifests) > 0:
		return folderOrders
	}
	_, namespace := ownPod(w)
	return namespace
}

// An orderer joins what orders certificates with the parts that ask for them and that use them.
type orderer struct {
	manager   *acme.Manager
	namespace string
	folder    *folderStore // nil: a cluster is served
	stale     atomic.Bool  // what is to be said of hosts is other

	// For the goroutine that builds.
	seen     any // the Secret with the orders, as it was last
	problems []controller.Problem
}

// A folderStore is the store of a folder run, which tells of the certificates that come: there is no cluster that does.
type folderStore struct {
	acme.FolderStore
	mu  sync.Mutex
	new map[string]map[string][]byte // certificates, by name
}

func (f *folderStore) Save(ctx context.Context, name string, data map[string][]byte) error {
	err := f.FolderStore.Save(ctx, name, data)
	if err == nil && data[acme.CertificateKey] != nil {
		f.mu.Lock()
		f.new[name] = data
		f.mu.Unlock()
	}
	return err
}

// bring puts the certificates that came into the snapshot.
func (f *folderStore) bring(s *controller.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, data := range f.new {
		s.Set(controller.OrderedSecret(folderOrders, name, data))
	}
	clear(f.new)
}

// settle is how long a Secret takes to every replica, on a cluster that is busy.
const settle = time.Second

// newOrderer prepares to order certificates; nil: nobody wants any.
func newOrderer(w world, c config.Config, from source, metrics *admin.Metrics, log *slog.Logger) (*orderer, error) {
	if !c.ACMEAcceptTerms {
		return nil, checkNoOrders(c)
	}
	o := &orderer{namespace: ordersNamespace(w, c)}
	if o.namespace == "" {
		return nil, usageError{errors.New("--acme-accept-terms keeps certificates in the cluster: set POD_NAMESPACE to the namespace they are to be in")}
	}
	options := acme.Options{
		Directory: c.ACMEDirectory, Email: c.ACMEEmail, Challenges: c.ACMEChallenges, OrdersPerHour: c.ACMEOrdersPerHour, KeyID: c.ACMEEABKeyID, Log: log,
		Changed: func() {
			o.stale.Store(true)
			from.Nudge()
		},
	}
	var err error
	if options.Client, err = authorityClient(c.ACMECABundle); err != nil {
		return nil, usageError{fmt.Errorf("--acme-ca-bundle: %w", err)}
	}
	if (c.ACMEEABKeyID == "") != (c.ACMEEABHMACKeyFile == "") {
		return nil, usageError{errors.New("--acme-eab-kid and --acme-eab-hmac-key-file belong together: one of them is missing")}
	}
	if c.ACMEEABHMACKeyFile != "" {
		if options.MACKey, err = readMACKey(c.ACMEEABHMACKeyFile); err != nil {
			return nil, usageError{fmt.Errorf("--acme-eab-hmac-key-file: %w", err)}
		}
	}
	if cluster, ok := from.(clusterSource); ok {
		options.Settle = settle
		options.Store, err = keeper.New(keeper.Options{Config: cluster.source.Config(), Namespace: o.namespace})
	} else {
		o.folder, err = openFolderStore(w, c)
		options.Store = o.folder
	}
	if err != nil {
		return nil, err
	}
	if o.manager, err = acme.New(options); err != nil {
		return nil, usageError{err}
	}
	metrics.CountOrders(o.manager.Counts, func(yield func(host string, failures int)) {
		for host, failure := range o.manager.Failures() {
			yield(host, failure.Failures)
		}
	})
	return o, nil
}

// checkNoOrders refuses flags that mean nothing without the one that agrees to the terms.
func checkNoOrders(c config.Config) error {
	for flag, given := range map[string]bool{
		"--acme-directory": c.ACMEDirectory != "", "--acme-email": c.ACMEEmail != "", "--acme-ca-bundle": c.ACMECABundle != "",
		"--acme-eab-kid": c.ACMEEABKeyID != "", "--acme-eab-hmac-key-file": c.ACMEEABHMACKeyFile != "", "--acme-challenges": len(c.ACMEChallenges) > 0,
	} {
		if given {
			return usageError{fmt.Errorf("%s: no certificates are ordered unless --acme-accept-terms says that the authority's terms of service are agreed to", flag)}
		}
	}
	return nil
}

func openFolderStore(w world, c config.Config) (*folderStore, error) {
	state, err := stateDir(w, c)
	if err != nil {
		return nil, usageError{fmt.Errorf("certificates that are ordered need a folder that outlives the process: %w", err)}
	}
	f := &folderStore{FolderStore: acme.Folder(filepath.Join(state, "acme"))}
	if f.new, err = f.Certificates(); err != nil {
		return nil, fmt.Errorf("read the certificates of before: %w", err)
	}
	if f.new == nil {
		f.new = make(map[string]map[string][]byte)
	}
	return f, nil
}

// authorityClient asks the authority, through the proxy of the environment where there is one.
func authorityClient(bundle string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if bundle != "" {
		text, err := os.ReadFile(bundle)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", bundle)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}, nil
}

// readMACKey reads a key as authorities give it, with or without padding.
func readMACKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(string(text)), "="))
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("%s holds no key in base64url", path)
	}
	return key, nil
}

// bring tells the snapshot and the manager what came since the last build.
func (o *orderer) bring(s *controller.Snapshot) {
	if o.folder != nil {
		o.folder.bring(s)
		return
	}
	secret := s.Secret(controller.Key{Namespace: o.namespace, Name: acme.OrdersName()})
	if o.seen == any(secret) {
		return
	}
	o.seen = secret
	if secret == nil {
		o.manager.See(nil)
	} else {
		o.manager.See(secret.Data)
	}
	o.stale.Store(true)
}

// review tells the manager what the hosts have that ask for certificates, and returns what there is to say of them. Changed
// says that this may be other than the time before.
func (o *orderer) review(result controller.Result, orders func() []controller.Order) (problems []controller.Problem, changed bool) {
	changed = o.stale.Swap(false)
	if result.OnlyEndpoints && !changed {
		return o.problems, false
	}
	all := orders()
	hosts := make([]acme.Host, len(all))
	for i, order := range all {
		hosts[i] = order.Host
	}
	o.manager.Want(hosts)
	failures := make(map[string]acme.Failure)
	for host, failure := range o.manager.Failures() {
		failures[host] = failure
	}
	o.problems = nil
	for _, order := range all {
		failure, failed := failures[order.Name]
		if !failed {
			continue
		}
		p := controller.Problem{Object: order.Ingress, Field: order.Field, Severity: controller.Error, Reason: controller.ReasonNotIssued,
			Message: fmt.Sprintf("there is no certificate for %s: %s", order.Name, failure.Reason)}
		if order.Pair != nil {
			p.Severity, p.Message = controller.Warning, fmt.Sprintf("the certificate for %s is not renewed: %s", order.Name, failure.Reason)
		}
		o.problems = append(o.problems, p)
	}
	return o.problems, changed
}

// remark is what the page of routes says of a host; empty: nothing.
func (o *orderer) remark(host string) string {
	failure, failed := o.manager.Failure(host)
	if !failed {
		return ""
	}
	return fmt.Sprintf("no certificate is had: %s (failures: %d; tried again after %s)", failure.Reason, max(1, failure.Failures), failure.Retry.UTC().Format(time.RFC3339))
}
