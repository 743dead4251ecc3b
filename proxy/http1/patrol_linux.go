package http1

import "golang.org/x/sys/unix"

// A patrol asks the kernel which of many clients have closed their connections, in one call.
type patrol struct {
	conns []*conn
	polls []unix.PollFd
}

func (p *patrol) add(c *conn) {
	if c.fd >= 0 {
		p.conns = append(p.conns, c)
	}
}

// look asks, and tells those concerned. A connection that ended meanwhile may have given its descriptor to another: what is
// said then is said to nobody, since its context has ended.
func (p *patrol) look() {
	if len(p.conns) == 0 {
		return
	}
	for _, c := range p.conns {
		p.polls = append(p.polls, unix.PollFd{Fd: int32(c.fd), Events: unix.POLLRDHUP})
	}
	if n, err := unix.Poll(p.polls, 0); err == nil && n > 0 {
		for i := range p.polls {
			if p.polls[i].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0 {
				p.conns[i].left(p.polls[i].Revents&(unix.POLLHUP|unix.POLLERR) != 0)
			}
		}
	}
	clear(p.conns)
	p.conns, p.polls = p.conns[:0], p.polls[:0]
}
