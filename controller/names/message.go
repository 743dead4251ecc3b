package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// A question is one that can be asked of any server.
type question struct{ dnsmessage.Question }

func newQuestion(name string, kind dnsmessage.Type) (*question, error) {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return nil, errors.New("is not a name")
		}
	}
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, err
	}
	return &question{dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET}}, nil
}

// datagram is the largest answer that is taken without a connection: what passes every network in one piece.
const datagram = 1232

// Why a server has not answered, as it is told behind the server's address.
var (
	errSilent = errors.New("does not answer")
	errClosed = errors.New("refuses the question: nobody listens there")
	errOdd    = errors.New("answers what nobody asked")
)

// ask asks one server, and again over TCP when the answer is too long for a datagram, or without extensions (EDNS0) when it
// does not understand those.
func (q *question) ask(ctx context.Context, server string, s *settings) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	network, extended := "udp", true
	if s.overTCP {
		network = "tcp"
	}
	for {
		a, truncated, err := q.exchange(ctx, network, server, extended)
		switch {
		case err != nil:
			return nil, faultOf(err)
		case truncated && network == "udp":
			network = "tcp"
		case extended && (a.code == dnsmessage.RCodeFormatError || a.code == dnsmessage.RCodeNotImplemented):
			extended = false
		default:
			return a, nil
		}
	}
}

// faultOf is an error in words that stay the same from one attempt to the next.
func faultOf(err error) error {
	switch {
	case errors.Is(err, errOdd):
		return errOdd
	case errors.Is(err, syscall.ECONNREFUSED):
		return errClosed
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return errors.New("cannot be reached")
	}
	return errSilent
}

func (q *question) exchange(ctx context.Context, network, server string, extended bool) (a *answer, truncated bool, err error) {
	id := uint16(rand.Uint32())
	message, err := q.pack(id, extended)
	if err != nil {
		return nil, false, err
	}
	connection, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, false, err
	}
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { connection.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "tcp" {
		message = append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
	}
	if _, err := connection.Write(message); err != nil {
		return nil, false, err
	}
	if network == "tcp" {
		return q.readStream(connection, id)
	}
	buffer := make([]byte, datagram)
	for {
		n, err := connection.Read(buffer)
		if err != nil {
			return nil, false, err
		}
		// Anybody may send datagrams here. One that does not answer this question is passed over, and the right one may
		// still come.
		if a, truncated, err := q.parse(buffer[:n], id); err == nil {
			return a, truncated, nil
		}
	}
}

func (q *question) readStream(connection net.Conn, id uint16) (*answer, bool, error) {
	var length [2]byte
	if _, err := io.ReadFull(connection, length[:]); err != nil {
		return nil, false, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(connection, message); err != nil {
		return nil, false, err
	}
	a, _, err := q.parse(message, id)
	return a, false, err
}

func (q *question) pack(id uint16, extended bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	err := errors.Join(b.StartQuestions(), b.Question(q.Question))
	if extended {
		var header dnsmessage.ResourceHeader
		err = errors.Join(err, b.StartAdditionals(),
			header.SetEDNS0(datagram, dnsmessage.RCodeSuccess, false), b.OPTResource(header, dnsmessage.OPTResource{}))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// parse reads a message, if it answers this question.
func (q *question) parse(message []byte, id uint16) (a *answer, truncated bool, err error) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || !header.Response || header.ID != id {
		return nil, false, errOdd
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) > 1 {
		return nil, false, errOdd
	}
	if len(questions) == 1 && (questions[0].Type != q.Type || questions[0].Class != q.Class || !sameName(questions[0].Name, q.Name)) {
		return nil, false, errOdd
	}
	if header.Truncated {
		return new(answer), true, nil
	}
	a = &answer{code: header.RCode, life: absentLife}
	if len(questions) == 0 { // which servers do that did not understand it
		if a.code == dnsmessage.RCodeSuccess {
			return nil, false, errOdd
		}
		return a, false, nil
	}
	if err := q.readAnswers(&p, a); err != nil {
		return nil, false, errOdd
	}
	if len(a.addresses) == 0 {
		denied := readDenial(&p, a)
		a.referral = !denied && !header.Authoritative && !header.RecursionAvailable
	}
	return a, false, nil
}

// maxChain bounds how many names an answer may lead through.
const maxChain = 16

// readAnswers collects the addresses of the name asked for, or of the one that it stands for by the server's word (CNAME).
// Other records, which anybody may have slipped in, count for nothing.
func (q *question) readAnswers(p *dnsmessage.Parser, a *answer) error {
	type alias struct {
		to   string
		life uint32
	}
	type record struct {
		address netip.Addr
		life    uint32
	}
	aliases := make(map[string]alias)
	records := make(map[string][]record)
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return err
		}
		owner := strings.ToLower(h.Name.String())
		switch {
		case h.Class != dnsmessage.ClassINET:
			err = p.SkipAnswer()
		case h.Type == dnsmessage.TypeCNAME:
			var r dnsmessage.CNAMEResource
			if r, err = p.CNAMEResource(); err == nil {
				aliases[owner] = alias{strings.ToLower(r.CNAME.String()), h.TTL}
			}
		case h.Type == dnsmessage.TypeA && q.Type == h.Type:
			var r dnsmessage.AResource
			if r, err = p.AResource(); err == nil {
				records[owner] = append(records[owner], record{netip.AddrFrom4(r.A), h.TTL})
			}
		case h.Type == dnsmessage.TypeAAAA && q.Type == h.Type:
			var r dnsmessage.AAAAResource
			if r, err = p.AAAAResource(); err == nil {
				records[owner] = append(records[owner], record{netip.AddrFrom16(r.AAAA).Unmap(), h.TTL})
			}
		default:
			err = p.SkipAnswer()
		}
		if err != nil {
			return err
		}
	}
	name := strings.ToLower(q.Name.String())
	life := uint32(longestLife / time.Second)
	for range maxChain {
		for _, r := range records[name] {
			a.addresses = append(a.addresses, r.address)
			life = min(life, r.life)
		}
		next, ok := aliases[name]
		if len(a.addresses) > 0 || !ok {
			break
		}
		name, life = next.to, min(life, next.life)
	}
	if len(a.addresses) > 0 {
		a.life = time.Duration(life) * time.Second
	}
	return nil
}

// readDenial reads how long it holds that there is nothing (RFC 2308 section 5), and whether the server says so at all.
func readDenial(p *dnsmessage.Parser, a *answer) bool {
	for {
		h, err := p.AuthorityHeader()
		if err != nil {
			return false
		}
		if h.Type != dnsmessage.TypeSOA {
			if p.SkipAuthority() != nil {
				return false
			}
			continue
		}
		soa, err := p.SOAResource()
		if err != nil {
			return false
		}
		a.life = min(a.life, time.Duration(min(soa.MinTTL, h.TTL))*time.Second)
		return true
	}
}

func sameName(a, b dnsmessage.Name) bool { return strings.EqualFold(a.String(), b.String()) }
