package names

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Settings are what resolv.conf(5) says.
type settings struct {
	servers  []string // address:port
	search   []string // each with a dot at its end
	ndots    int      // dots from which on a name is tried as it stands first
	timeout  time.Duration
	attempts int
	rotate   bool
	overTCP  bool // use-vc
	inTurn   bool // single-request: some name servers answer one of two questions that come together
	noIPv6   bool // no-aaaa
}

const (
	mostServers = 3 // that are asked, as everywhere
	mostDomains = 32
)

// parseSettings reads a file. What it does not know it passes over. Beyond what others read, a name server may have a port,
// as in 127.0.0.1:5353 or [::1]:5353.
func parseSettings(text string) settings {
	s := settings{ndots: 1, timeout: 5 * time.Second, attempts: 2}
	for line := range strings.Lines(text) {
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			if server := serverAddress(words[1]); server != "" && len(s.servers) < mostServers {
				s.servers = append(s.servers, server)
			}
		case "domain":
			s.search = domains(words[1:2])
		case "search":
			s.search = domains(words[1:])
		case "options":
			for _, option := range words[1:] {
				s.option(option)
			}
		}
	}
	if len(s.servers) == 0 {
		s.servers = []string{"127.0.0.1:53", "[::1]:53"}
	}
	return s
}

func serverAddress(text string) string {
	if addr, err := netip.ParseAddr(text); err == nil {
		return net.JoinHostPort(addr.String(), "53")
	}
	if addr, err := netip.ParseAddrPort(text); err == nil {
		return addr.String()
	}
	return ""
}

func domains(words []string) []string {
	var all []string
	for _, word := range words[:min(len(words), mostDomains)] {
		if word = strings.Trim(word, "."); word != "" {
			all = append(all, word+".")
		}
	}
	return all
}

func (s *settings) option(text string) {
	name, value, _ := strings.Cut(text, ":")
	number := func(least, most int) int {
		n, err := strconv.Atoi(value)
		if err != nil {
			return least
		}
		return min(max(n, least), most)
	}
	switch name {
	case "ndots":
		s.ndots = number(0, 15)
	case "timeout":
		s.timeout = time.Duration(number(1, 30)) * time.Second
	case "attempts":
		s.attempts = number(1, 5)
	case "rotate":
		s.rotate = true
	case "use-vc", "usevc", "tcp":
		s.overTCP = true
	case "single-request", "single-request-reopen":
		s.inTurn = true
	case "no-aaaa":
		s.noIPv6 = true
	}
}

// longestName is the most that a name in a message may have, with the dot at its end.
const longestName = 254

// candidates are the names that a name may mean, the first one first, each with a dot at its end. A name with a dot at its
// end means itself; one with ndots dots is tried as it stands before the search list, another after it.
func (s *settings) candidates(name string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var all []string
	for _, domain := range s.search {
		all = append(all, name+"."+domain)
	}
	if strings.Count(name, ".") >= s.ndots {
		all = slices.Insert(all, 0, name+".")
	} else {
		all = append(all, name+".")
	}
	return slices.DeleteFunc(all, func(n string) bool { return len(n) > longestName })
}

// A file is where settings come from. It is looked at before each lookup and read when it is another one.
type file struct {
	path string
	log  *slog.Logger

	mu       sync.Mutex
	known    bool        // guarded by mu; settings were made of something
	info     os.FileInfo // guarded by mu; nil: it could not be read
	settings settings    // guarded by mu
}

// read is what the file says, or said last when it cannot be read now.
func (f *file) read() settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.settings
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(f.path)
	}
	switch {
	case err == nil:
		f.settings, f.info, f.known = parseSettings(string(text)), info, true
	case f.info != nil || !f.known:
		f.log.Warn("the settings of the resolver cannot be read; what they were last is used", "file", f.path, "err", err)
		f.info = nil
		if !f.known {
			f.settings, f.known = parseSettings(""), true
		}
	}
	return f.settings
}
