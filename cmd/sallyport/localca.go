package main

import (
	"crypto/tls"
	"log/slog"

	"sallyport/certs"
	"sallyport/config"
)

// openLocalCA opens the authority that a folder run's hosts have their certificates of where no Secret has one. It is kept in
// the state directory; where that cannot be, it ends with the process, which is said. Nil: there is none at all.
func openLocalCA(w world, c config.Config, log *slog.Logger) *certs.LocalCA {
	folder, err := stateDir(w, c)
	if err == nil {
		var ca *certs.LocalCA
		var made bool
		if ca, made, err = certs.OpenLocalCA(folder, nil); err == nil {
			if made {
				log.Info("made a local CA; clients that trust it trust every host of the manifests", "certificate", ca.Path())
			}
			log.Info("hosts without a Secret have certificates of the local CA", "certificate", ca.Path())
			return ca
		}
	}
	ca, memoryErr := certs.NewLocalCA(nil)
	if memoryErr != nil {
		log.Error("there is no local CA; hosts without a Secret have a certificate that nobody trusts", "err", memoryErr)
		return nil
	}
	log.Warn("the local CA cannot be kept, so this process has one of its own, which no client trusts; choose another folder with --state-dir", "err", err)
	return ca
}

// useLocalCA has hosts that have no certificate show one of the local CA: those of the table alone.
func (s *server) useLocalCA(ca *certs.LocalCA) {
	if ca == nil {
		return
	}
	s.certs.Local = func(name string) *tls.Certificate {
		pair, err := ca.Default()
		if s.front.Table().Has(name) {
			pair, err = ca.Pair(name)
		}
		if err != nil {
			s.log.Error("no certificate of the local CA can be made", "host", name, "err", err)
			return nil
		}
		return pair
	}
}
