package feature

import (
	"strconv"
	"strings"
	"time"

	"sallyport/proxy/upstream"
)

// readStreams reads what holds for the Services of --tcp-services-configmap and --udp-services-configmap.
func readStreams(a *Annotations) upstream.StreamOptions {
	a.Section("TCP and UDP services", ReachProcess, "What holds for the ports of `--tcp-services-configmap` and `--udp-services-configmap`; docs/tcp-udp.md has the rest. "+
		"Unlike in ingress-nginx a UDP client that gets no answer is forgotten after a minute, unless proxy-stream-timeout says something else; "+
		"and a connection of which one side has nothing more to say goes on until the other has not, either. "+
		"A change holds from the next connection on, and from the next client that sends a datagram.")
	a = a.Config()
	o := upstream.StreamOptions{
		Idle:         a.streamTime("proxy-stream-timeout", time.Second, "600s for TCP, 60s for UDP", "how long a connection, or a client that sends datagrams, may be silent in both directions"),
		NoRetry:      !a.Bool("proxy-stream-next-upstream", true, "whether another endpoint is tried where one cannot be connected to"),
		RetryTimeout: a.streamTime("proxy-stream-next-upstream-timeout", 0, "600s", "the time after which no other endpoint is tried; 0 means no limit"),
		Tries:        a.Int("proxy-stream-next-upstream-tries", 3, "how many endpoints are tried at most; 0 means no limit. Those that refuse at once do not count"),
		Responses:    a.Int("proxy-stream-responses", 1, "how many datagrams answer one of the client's; a client that has them all may get another endpoint next time. 0 means that none is ever answered"),
	}
	if o.Tries == 0 {
		o.Tries = -1
	}
	if o.Responses == 0 {
		o.Responses = -1
	}
	return o
}

// streamTime reads a time with its unit, or a number of seconds. An absent one is zero; one that is written as zero is less.
func (a *Annotations) streamTime(name string, least time.Duration, usual, usage string) time.Duration {
	const most = 365 * 24 * time.Hour
	expected := "expected a time with its unit, as in 600s"
	d := Declaration{Name: name, Values: "a time with its unit, as in 600s", Default: usual, Usage: usage}
	return read(a, d, 0, func(value string) (time.Duration, string) {
		value = strings.TrimSpace(value)
		v, err := time.ParseDuration(value)
		if n, numberErr := strconv.Atoi(value); numberErr == nil {
			v, err = time.Duration(min(n, int(most/time.Second)))*time.Second, nil
		}
		if err != nil || v < least || v > most {
			return 0, expected
		}
		if v == 0 {
			return -1, ""
		}
		return v, ""
	})
}
