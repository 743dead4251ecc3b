package upstream

import (
	"time"

	"golang.org/x/sys/unix"
)

// The states of a connection, as the kernel numbers them (include/net/tcp_states.h).
const tcpClosed = 7

// certainty is how long the kernel of the endpoint may take to say what became of a request. It answers within a round
// trip, whatever the program behind it does.
const certainty = 20 * time.Millisecond

// rejected reports whether nothing of the request that was written last reached the endpoint: its kernel has acknowledged
// no byte of it, and refused the connection. That happens when the endpoint closes an idle connection in the moment in
// which a request is on its way.
func (c *conn) rejected() bool {
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
