package acme

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A certificate is renewed at two thirds of its lifetime, or before, when the authority asks for it (RFC 9773): it names a
// window, in which each certificate has a place of its own, so that not all are renewed in its first second.
type renewal struct {
	wanted time.Time // by the authority; zero: it does not say
	ask    time.Time // the authority again, not before
}

func (r renewal) at(leaf *x509.Certificate) time.Time {
	usual := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
	if !r.wanted.IsZero() && r.wanted.Before(usual) {
		return r.wanted
	}
	return usual
}

// How often an authority is asked when a certificate is to be renewed: as it says, within bounds.
const (
	askUsually = 6 * time.Hour
	askSoonest = time.Minute
	askLatest  = 24 * time.Hour
)

// askRenewal asks the authority when it wants the certificate of a host renewed.
func (m *Manager) askRenewal(ctx context.Context, h *host) {
	defer m.ended(h)
	m.mu.Lock()
	leaf := h.pair.Leaf
	m.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start, end, again, err := m.renewalInfo(asking, leaf)
	if err != nil && !errors.Is(err, errNoRenewalInfo) {
		m.log.Debug("the authority does not say when it wants a certificate renewed", "host", h.name, "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.pair.Leaf != leaf {
		return
	}
	h.renewal.ask = time.Now().Add(min(max(again, askSoonest), askLatest))
	if err == nil {
		h.renewal.wanted = placeIn(start, end, leaf)
	}
}

// placeIn is a moment between start and end that a certificate has always, and others hardly.
func placeIn(start, end time.Time, leaf *x509.Certificate) time.Time {
	sum := sha256.Sum256(leaf.Raw)
	share := float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
	return start.Add(time.Duration(share * float64(end.Sub(start))))
}

var errNoRenewalInfo = errors.New("the authority has no renewalInfo")

// renewalInfo is what golang.org/x/crypto/acme has not: two GETs without a signature.
func (m *Manager) renewalInfo(ctx context.Context, leaf *x509.Certificate) (start, end time.Time, again time.Duration, err error) {
	again = askUsually
	var directory struct {
		RenewalInfo string `json:"renewalInfo"`
	}
	if _, err = m.getJSON(ctx, m.options.directory(), &directory); err != nil {
		return
	}
	id, err := renewalID(leaf)
	if err != nil {
		return
	}
	if directory.RenewalInfo == "" {
		err = errNoRenewalInfo
		return
	}
	var info struct {
		SuggestedWindow struct{ Start, End time.Time } `json:"suggestedWindow"`
	}
	header, err := m.getJSON(ctx, directory.RenewalInfo+"/"+id, &info)
	if err != nil {
		return
	}
	if seconds, failure := strconv.Atoi(header.Get("Retry-After")); failure == nil {
		again = time.Duration(seconds) * time.Second
	}
	start, end = info.SuggestedWindow.Start, info.SuggestedWindow.End
	if start.IsZero() || !end.After(start) {
		err = fmt.Errorf("the window from %v to %v is none", start, end)
	}
	return
}

// renewalID is the name of a certificate (RFC 9773 section 4.1): its issuer's key identifier and its serial number.
func renewalID(leaf *x509.Certificate) (string, error) {
	serial, err := asn1.Marshal(leaf.SerialNumber)
	if err != nil || len(leaf.AuthorityKeyId) == 0 || len(serial) < 3 {
		return "", errNoRenewalInfo
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(leaf.AuthorityKeyId) + "." + encode(serial[2:]), nil // without the tag and the length, which is below 128
}

func (m *Manager) getJSON(ctx context.Context, url string, to any) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := m.httpClient().Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return response.Header, json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(to)
}
