package upstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Check is how endpoints are asked whether they are well. It is comparable; the zero value asks nothing.
type Check struct {
	// Path is what a GET asks for; empty: there are no checks. Of gRPC endpoints it is "/" and the name of the service that
	// the standard health service (grpc.health.v1) is asked about; "/" stands for all.
	Path     string
	Host     string   // that the endpoint is told; empty: its address
	Protocol Protocol // that it speaks; AutoHTTP counts as HTTP
	// Plain says that who speaks HTTP/2 here need not know gRPC, and is asked by a GET too.
	Plain bool
	// TLS has the certificate that endpoints are shown, the versions and the suites. What they show is not looked at. Nil: TLS
	// 1.2 or later, without a certificate.
	TLS *tls.Config

	Interval  time.Duration // between two checks of an endpoint; default 10 s
	Timeout   time.Duration // that an answer may take; default 5 s
	Healthy   int           // checks in a row that make an endpoint well again; default 2
	Unhealthy int           // failures in a row after which it is left alone; default 3
	Expected  Statuses      // that are good; default 200 to 399
}

func (c Check) withDefaults() Check {
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Healthy, c.Unhealthy = cmp.Or(c.Healthy, 2), cmp.Or(c.Unhealthy, 3)
	if c.Expected == (Statuses{}) {
		c.Expected.add(200, 399)
	}
	return c
}

// Statuses are a set of HTTP statuses, from 100 to 599. The zero value holds none.
type Statuses [8]uint64

func (s *Statuses) add(from, to int) {
	for status := from; status <= to; status++ {
		s[(status-100)/64] |= 1 << ((status - 100) % 64)
	}
}

// Has reports whether a status is in the set.
func (s *Statuses) Has(status int) bool {
	return status >= 100 && status <= 599 && s[(status-100)/64]&(1<<((status-100)%64)) != 0
}

// ParseStatuses reads statuses and ranges of them that commas separate, as in "200-299,404".
func ParseStatuses(text string) (s Statuses, err error) {
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 100 || last > 599 || first > last {
			return Statuses{}, fmt.Errorf("%q is neither a status from 100 to 599 nor a range as in 200-399", item)
		}
		s.add(first, last)
	}
	return s, nil
}

// checks are the checkers of a pool, one for each endpoint. The zero value has none.
type checks struct {
	check    Check
	checkers map[*Endpoint]*checker
}

// watch has endpoints be checked, and no others. It waits for the checkers that end.
func (c *checks) watch(check Check, endpoints []*Endpoint) {
	stay := make(map[*Endpoint]bool, len(endpoints))
	if check == c.check && check.Path != "" {
		for _, e := range endpoints {
			stay[e] = true
		}
	}
	for e, checker := range c.checkers {
		if !stay[e] {
			checker.cancel()
		}
	}
	for e, checker := range c.checkers {
		if !stay[e] {
			<-checker.done
			delete(c.checkers, e)
			if check.Path == "" {
				e.setUnwell(false)
			}
		}
	}
	c.check = check
	if check.Path == "" {
		return
	}
	if c.checkers == nil {
		c.checkers = make(map[*Endpoint]*checker)
	}
	for _, e := range endpoints {
		if c.checkers[e] == nil {
			c.checkers[e] = startChecker(e, check.withDefaults())
		}
	}
}

// A checker asks one endpoint again and again.
type checker struct {
	Check
	endpoint *Endpoint
	client   *http.Client
	cancel   context.CancelFunc
	done     chan struct{} // closed when the goroutine has ended
}

func startChecker(e *Endpoint, check Check) *checker {
	ctx, cancel := context.WithCancel(context.Background())
	c := &checker{Check: check, endpoint: e, client: checkClient(e, check.Protocol, check.TLS), cancel: cancel, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

// checkClient makes a connection for each check: whether one can be made is half of what there is to know.
func checkClient(e *Endpoint, protocol Protocol, config *tls.Config) *http.Client {
	if config == nil {
		config = unverified
	}
	config = config.Clone()
	config.InsecureSkipVerify, config.VerifyConnection = true, nil // as kubelet: it is asked whether it is well, not who it is
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol != GRPC && protocol != GRPCS)
	protocols.SetUnencryptedHTTP2(protocol == GRPC)
	protocols.SetHTTP2(protocol == GRPCS)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", e.addr.String())
			},
			TLSClientConfig:    config,
			DisableKeepAlives:  true,
			DisableCompression: true,
			Protocols:          protocols,
		},
	}
}

// run is the checker's goroutine. The first check is soon, but not of all endpoints at once; until there is a verdict an
// endpoint counts as well.
func (c *checker) run(ctx context.Context) {
	defer close(c.done)
	timer := time.NewTimer(rand.N(min(c.Interval, time.Second)))
	defer timer.Stop()
	unwell, inARow := c.endpoint.health.unwell.Load(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		passed := c.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if passed != unwell { // as it was
			inARow = 0
		} else if inARow++; unwell && inARow >= c.Healthy || !unwell && inARow >= c.Unhealthy {
			unwell, inARow = !unwell, 0
			c.endpoint.setUnwell(unwell)
		}
		timer.Reset(c.Interval - c.Interval/10 + rand.N(c.Interval/5+1))
	}
}

// ask reports whether one check passes.
func (c *checker) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := c.request(ctx)
	if err != nil {
		return false
	}
	res, err := c.client.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if r.Method == http.MethodGet {
		return c.Expected.Has(res.StatusCode)
	}
	return serving(res)
}

func (c *checker) request(ctx context.Context) (*http.Request, error) {
	address := c.endpoint.addr.String()
	var r *http.Request
	var err error
	scheme := "http://"
	if c.Protocol == HTTPS || c.Protocol == GRPCS {
		scheme = "https://"
	}
	if (c.Protocol == GRPC || c.Protocol == GRPCS) && !c.Plain {
		r, err = http.NewRequestWithContext(ctx, http.MethodPost, scheme+address+"/grpc.health.v1.Health/Check", bytes.NewReader(healthQuestion(c.Path[1:])))
		if err == nil {
			r.Header.Set("Content-Type", "application/grpc")
			r.Header.Set("Te", "trailers")
		}
	} else {
		r, err = http.NewRequestWithContext(ctx, http.MethodGet, scheme+address+c.Path, nil)
	}
	if err != nil {
		return nil, err
	}
	r.Host = c.Host // net/http takes the address where it is empty
	r.Header.Set("User-Agent", "sallyport-health-check")
	return r, nil
}

// healthQuestion is a HealthCheckRequest in its frame. Names are shorter than 128 bytes.
func healthQuestion(service string) []byte {
	var message []byte
	if service != "" {
		message = append([]byte{1<<3 | 2, byte(len(service))}, service...)
	}
	return append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
}

// serving reports whether an answer is a HealthCheckResponse that says SERVING, which is 1 in the first field.
func serving(res *http.Response) bool {
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	status := cmp.Or(res.Trailer.Get("Grpc-Status"), res.Header.Get("Grpc-Status"))
	return err == nil && res.StatusCode == http.StatusOK && status == "0" && bytes.Equal(body, []byte{0, 0, 0, 0, 2, 1 << 3, 1})
}
