package feature

import (
	"cmp"
	"time"
)

// timeouts are how long an endpoint may do nothing (reference B3 #30 to #32).
func timeouts(a *Annotations, d *Draft) {
	a.Section("Timeouts", ReachPaths, "The times to send and to read are the longest gap between two signs of life, never the time for the whole: an answer "+
		"may take as long as it takes while something of it comes. Where a route sets one of these two, the longer of them is how long a WebSocket may be "+
		"silent; where it sets neither, that is an hour. 0 means no limit, which ingress-nginx does not know. A connection in the making is given up by the "+
		"system after about two minutes in any case.")
	o := &d.Upstream
	connect := a.Shared().Seconds("proxy-connect-timeout", usualTime(o.ConnectTimeout, 5*time.Second), "the time to connect to an endpoint")
	send := a.Shared().Seconds("proxy-send-timeout", usualTime(o.SendTimeout, time.Minute), "the longest gap between two writes that the endpoint takes")
	read := a.Shared().Seconds("proxy-read-timeout", usualTime(o.ReadTimeout, time.Minute), "the longest gap until the endpoint's answer begins, and between two reads of it")
	o.ConnectTimeout, o.SendTimeout, o.ReadTimeout = unlimited(connect), unlimited(send), unlimited(read)
	if a.Shared().Has("proxy-send-timeout") || a.Shared().Has("proxy-read-timeout") {
		o.TunnelTimeout = unlimited(max(send, read))
		if send == 0 || read == 0 {
			o.TunnelTimeout = -1
		}
	}
}

// usualTime is a time of the settings as Seconds has it, where 0 means no limit.
func usualTime(ofSettings, usual time.Duration) time.Duration {
	return max(0, cmp.Or(ofSettings, usual))
}

// unlimited is a time as upstream.Options has it, where negative means no limit.
func unlimited(t time.Duration) time.Duration {
	if t == 0 {
		return -1
	}
	return t
}
