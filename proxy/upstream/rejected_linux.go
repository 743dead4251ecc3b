package upstream

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The states of a connection, as the kernel numbers them (include/net/tcp_states.h).
const tcpClosed = 7

// certainty is how long the kernel of the endpoint may take to say what became of a request. It answers within a round
// trip, whatever the program behind it does.
const certainty = 20 * time.Millisecond

// rejected reports whether nothing of the request that was written last reached the endpoint, after err: it had ended the
// connection, its kernel has acknowledged no byte of the request, and refuses the connection. That happens when the endpoint
// closes an idle connection in the moment in which a request is on its way.
//
// That no byte was acknowledged is not enough. A kernel that has seen answers go out puts off its acknowledgements, to send
// them with the next one; a program that acts on a request meanwhile and then breaks the connection off leaves none but that
// in its RST, which ours does not count. The end of the endpoint's stream, which came before the RST, tells them apart:
// nobody who has ended it takes requests any more. Without it a read is told of the RST itself.
func (c *conn) rejected(err error) bool {
	if c.wrote == c.before {
		return true // not even our kernel has taken any of it
	}
	if errors.Is(err, syscall.ECONNRESET) {
		return false
	}
	for deadline := time.Now().Add(certainty); ; {
		info, ok := c.info()
		// The kernel counts the SYN as a byte.
		if !ok || info.Bytes_acked > c.before+1 {
			return false
		}
		if info.State == tcpClosed {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(time.Millisecond)
	}
}

func (c *conn) info() (info *unix.TCPInfo, ok bool) {
	var err error
	if c.raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil {
		return nil, false // it has been closed here
	}
	return info, err == nil
}
