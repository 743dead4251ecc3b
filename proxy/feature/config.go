package feature

import (
	"maps"
	"slices"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// A Config is the ConfigMap of the controller (--configmap): what holds for every Ingress that says nothing else, and what
// holds for the process. It never changes. The nil Config has no keys.
type Config struct {
	values    map[string]string
	namespace string // of the ConfigMap, and of what it names without one
	clients   *proxy.Clients
	streams   upstream.StreamOptions
	around    Middleware // nil: nothing
	tls       TLS
	denies    bool // a key is wrong, or misspelt, that may have been meant to keep clients out of everything
}

// NewConfig reads the data of a ConfigMap and finds what is wrong with it, once for all Ingresses.
func NewConfig(data map[string]string, in Input) (*Config, []Problem) {
	c := &Config{values: maps.Clone(data), namespace: in.Namespace}
	in.Annotations, in.Memory, in.Config = nil, nil, c
	a := newAnnotations(in)
	a.collect = true
	d := &Draft{Settings: in.Settings}
	a.run(d, All)
	if len(d.everywhere) > 0 {
		c.around = d.Around
	}
	read := len(a.problems)
	c.clients = readClients(a)
	c.streams = readStreams(a)
	c.tls = readTLS(a)
	c.tls.Suites = a.hostCiphers()
	a.reportUnreadKeys()
	c.denies = slices.ContainsFunc(a.problems[read:], func(p Problem) bool { return p.Denies })
	var problems []Problem
	for _, p := range a.problems {
		if p.Config {
			problems = append(problems, p)
		}
	}
	return c, problems
}

// MissingConfig stands for a ConfigMap that was asked for and does not exist. Nobody knows what it would keep out.
func MissingConfig() *Config { return &Config{clients: new(proxy.Clients), denies: true} }

// Clients is what the front of the process is to be told; nil for the nil Config.
func (c *Config) Clients() *proxy.Clients {
	if c == nil {
		return nil
	}
	return c.clients
}

// TLS is what holds for every handshake with clients.
func (c *Config) TLS() TLS {
	if c == nil {
		return TLS{}
	}
	return c.tls
}

// Around is what stands around every answer of the process; nil: nothing.
func (c *Config) Around() Middleware {
	if c == nil {
		return nil
	}
	return c.around
}

// Streams is what holds for connections and datagrams that are passed on as they are.
func (c *Config) Streams() upstream.StreamOptions {
	if c == nil {
		return upstream.StreamOptions{}
	}
	return c.streams
}

// value is the value of a key, "" where it is absent.
func (c *Config) value(key string) string {
	if c == nil {
		return ""
	}
	return c.values[key]
}
