package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A NameServer is a DNS server of a test's own, over UDP and TCP. It knows the names it is told, and says of others that
// there are none.
type NameServer struct {
	Addr string

	mu    sync.Mutex
	zone  map[string]Records // by name in lower case, with a dot at its end
	down  bool
	asked map[string]int
	held  []net.Conn
}

// Records are what a NameServer says of a name. The zero Records say that the name exists and has no addresses.
type Records struct {
	Addresses []string
	Alias     string        // the name that it stands for, whose records are added; empty: none
	Life      time.Duration // default one second
	Silent    bool          // there is no answer
	Code      dnsmessage.RCode
	Long      bool // the answer does not fit a datagram
}

// ServeNames starts a NameServer. Addr may end in ":0". It ends with the test.
func ServeNames(t testing.TB, addr string) *NameServer {
	t.Helper()
	stream, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("name server: %v", err)
	}
	packets, err := net.ListenPacket("udp", stream.Addr().String())
	if err != nil {
		t.Fatalf("name server: %v", err)
	}
	s := &NameServer{Addr: stream.Addr().String(), zone: make(map[string]Records), asked: make(map[string]int)}
	var tasks sync.WaitGroup
	tasks.Go(func() { s.servePackets(packets) })
	tasks.Go(func() { s.serveStreams(stream, &tasks) })
	t.Cleanup(func() {
		packets.Close()
		stream.Close()
		s.mu.Lock()
		for _, c := range s.held {
			c.Close()
		}
		s.mu.Unlock()
		tasks.Wait()
	})
	return s
}

// Set says what the server knows of a name from now on.
func (s *NameServer) Set(name string, r Records) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[full(name)] = r
}

// Remove makes the server say that there is no such name.
func (s *NameServer) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.zone, full(name))
}

// Down makes the server answer nothing, or answer again.
func (s *NameServer) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Asked is how many questions about a name there were, those that were not answered too.
func (s *NameServer) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[full(name)]
}

// Settings writes a resolv.conf that names this server, with more lines below, and returns its path.
func (s *NameServer) Settings(t testing.TB, lines ...string) string {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	WriteFile(t, path, "nameserver "+s.Addr+"\n"+strings.Join(lines, "\n")+"\n")
	return path
}

func full(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) + "." }

func (s *NameServer) servePackets(packets net.PacketConn) {
	buffer := make([]byte, 4096)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply := s.answer(buffer[:n], true); reply != nil {
			packets.WriteTo(reply, from)
		}
	}
}

func (s *NameServer) serveStreams(stream net.Listener, tasks *sync.WaitGroup) {
	for {
		c, err := stream.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.held = append(s.held, c)
		s.mu.Unlock()
		tasks.Go(func() {
			defer c.Close()
			var length [2]byte
			for {
				if _, err := io.ReadFull(c, length[:]); err != nil {
					return
				}
				message := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(c, message); err != nil {
					return
				}
				reply := s.answer(message, false)
				if reply == nil {
					continue
				}
				c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		})
	}
}

// answer is the reply to a message, nil where there is none.
func (s *NameServer) answer(message []byte, datagram bool) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(q.Name.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
	r, exists := s.zone[name]
	if s.down || r.Silent {
		return nil
	}
	code := r.Code
	if !exists {
		code = dnsmessage.RCodeNameError
	}
	truncated := r.Long && datagram
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: header.ID, Response: true, RecursionDesired: true, RecursionAvailable: true, RCode: code, Truncated: truncated})
	err = b.StartQuestions()
	if err == nil {
		err = b.Question(q)
	}
	if err == nil && !truncated {
		err = s.addRecordsLocked(&b, q, r)
	}
	reply, finish := b.Finish()
	if err != nil || finish != nil {
		panic(fmt.Sprint("name server: ", err, finish)) // a fault of the test
	}
	return reply
}

func (s *NameServer) addRecordsLocked(b *dnsmessage.Builder, q dnsmessage.Question, r Records) error {
	if err := b.StartAnswers(); err != nil {
		return err
	}
	owner, found := q.Name, false
	for {
		life := r.Life
		if life == 0 {
			life = time.Second
		}
		h := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: uint32(life / time.Second)}
		for _, text := range r.Addresses {
			address := netip.MustParseAddr(text)
			var err error
			switch {
			case address.Is4() && q.Type == dnsmessage.TypeA:
				found, err = true, b.AResource(h, dnsmessage.AResource{A: address.As4()})
			case address.Is6() && q.Type == dnsmessage.TypeAAAA:
				found, err = true, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: address.As16()})
			}
			if err != nil {
				return err
			}
		}
		if r.Alias == "" {
			break
		}
		target := dnsmessage.MustNewName(full(r.Alias))
		if err := b.CNAMEResource(h, dnsmessage.CNAMEResource{CNAME: target}); err != nil {
			return err
		}
		owner, r = target, s.zone[full(r.Alias)]
	}
	if found {
		return nil
	}
	if err := b.StartAuthorities(); err != nil {
		return err
	}
	root := dnsmessage.MustNewName(".")
	return b.SOAResource(dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET, TTL: 1}, dnsmessage.SOAResource{NS: root, MBox: root, MinTTL: 1})
}
