package names

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	longestLookup = 30 * time.Second       // with all names of the search list, servers and attempts
	latecomer     = 500 * time.Millisecond // how long the addresses of one family wait for those of the other
)

// A client asks name servers.
type client struct {
	file  *file
	turns atomic.Uint32 // for rotate
}

// lookup asks what addresses a name has. Last is the one of the search list that had them the last time: while nobody
// answers for it, no other is taken in its place.
func (c *client) lookup(ctx context.Context, name, last string) reply {
	ctx, cancel := context.WithTimeout(ctx, longestLookup)
	defer cancel()
	s := c.file.read()
	all := reply{verdict: absent, fault: "there is no such name", life: absentLife}
	var failure *reply
	for _, candidate := range s.candidates(name) {
		r := c.ask(ctx, &s, candidate)
		switch {
		case r.verdict == found:
			r.source = candidate
			return r
		case r.verdict == failed && candidate == last:
			return r
		case r.verdict == failed && failure == nil:
			failure = &r
		case r.verdict == absent:
			all.life = min(all.life, r.life)
			if r.fault != "" {
				all.fault = r.fault
			}
		}
	}
	if failure != nil {
		return *failure // of which nobody said that there is no such name
	}
	return all
}

// ask asks for the addresses of both families of one name, with a dot at its end.
func (c *client) ask(ctx context.Context, s *settings, name string) reply {
	switch {
	case s.noIPv6:
		return c.query(ctx, s, name, dnsmessage.TypeA)
	case s.inTurn:
		four := c.query(ctx, s, name, dnsmessage.TypeA)
		return together(four, c.query(ctx, s, name, dnsmessage.TypeAAAA))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sixes := make(chan reply, 1)
	fours := make(chan reply, 1)
	go func() { sixes <- c.query(ctx, s, name, dnsmessage.TypeAAAA) }()
	go func() { fours <- c.query(ctx, s, name, dnsmessage.TypeA) }()
	var four, six reply
	var late <-chan time.Time
	// Either family may answer first; addresses of one have waited long enough for the other, whose question then ends too.
	for range 2 {
		select {
		case four = <-fours:
			fours = nil
		case six = <-sixes:
			sixes = nil
		case <-late:
			cancel()
			if fours != nil {
				four = <-fours
			} else {
				six = <-sixes
			}
		}
		if (fours == nil) != (sixes == nil) && (four.verdict == found || six.verdict == found) {
			timer := time.NewTimer(latecomer)
			defer timer.Stop()
			late = timer.C
		}
	}
	return together(four, six)
}

// together makes one reply of those for both families.
func together(four, six reply) reply {
	switch {
	case four.verdict == found && six.verdict == found:
		return reply{verdict: found, addresses: append(four.addresses, six.addresses...), life: min(four.life, six.life)}
	case four.verdict == found:
		four.lacks6 = six.verdict == failed
		return four
	case six.verdict == found:
		six.lacks4 = four.verdict == failed
		return six
	case four.verdict == failed:
		return four
	case six.verdict == failed:
		return six
	}
	four.life = min(four.life, six.life)
	return four
}

// query asks one question of one server after the other, until one knows.
func (c *client) query(ctx context.Context, s *settings, name string, kind dnsmessage.Type) reply {
	last := reply{fault: "no name server was asked"}
	q, err := newQuestion(name, kind)
	if err != nil {
		return reply{verdict: absent, fault: fmt.Sprintf("%q is not a name that can be asked for", name), life: absentLife}
	}
	first := 0
	if s.rotate {
		first = int(c.turns.Add(1))
	}
	for attempt := range s.attempts {
		for i := range s.servers {
			server := s.servers[(first+i)%len(s.servers)]
			answer, err := q.ask(ctx, server, s)
			r := reply{fault: fmt.Sprintf("%s %s", hostOf(server), err)}
			if err == nil {
				r = answer.reply(server)
			}
			if r.verdict != failed || ctx.Err() != nil {
				return r
			}
			if attempt == 0 && i == 0 {
				last = r // told the same whatever the others say, so that it is told once
			}
		}
	}
	return last
}

// hostOf is a server as messages name it: the usual port goes without saying.
func hostOf(server string) string {
	host, plain := strings.CutSuffix(server, ":53")
	if !plain {
		return server
	}
	return strings.Trim(host, "[]")
}

// An answer is what a message says about a question.
type answer struct {
	code      dnsmessage.RCode
	addresses []netip.Addr
	life      time.Duration // of the addresses, or of the news that there are none
	referral  bool          // the server knows nothing and asks nobody
}

func (a *answer) reply(server string) reply {
	switch {
	case len(a.addresses) > 0 && a.code == dnsmessage.RCodeSuccess:
		return reply{verdict: found, addresses: a.addresses, life: a.life}
	case a.code == dnsmessage.RCodeNameError:
		return reply{verdict: absent, fault: "there is no such name", life: a.life}
	case a.code == dnsmessage.RCodeSuccess && !a.referral:
		return reply{verdict: absent, fault: "the name has no addresses", life: a.life}
	case a.code == dnsmessage.RCodeSuccess:
		return reply{fault: hostOf(server) + " knows nothing of it and asks nobody"}
	}
	return reply{fault: fmt.Sprintf("%s answers with %s", hostOf(server), codeText(a.code))}
}

func codeText(code dnsmessage.RCode) string {
	switch code {
	case dnsmessage.RCodeServerFailure:
		return "a failure of its own (SERVFAIL)"
	case dnsmessage.RCodeRefused:
		return "a refusal (REFUSED)"
	}
	return fmt.Sprintf("code %d", code)
}
