package proxy

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// maxLogged is how much of a client's own words stands in one field of a log line, in bytes.
const maxLogged = 2048

// appendText appends the line that ingress-nginx writes by default (reference C4):
//
//	addr - user [time] "request" status body_bytes "referer" "agent" request_length request_time
//	[upstream] [alternative] upstream_addr upstream_response_length upstream_response_time upstream_status req_id
//
// Values of several attempts are separated by ", ", missing ones are "-". Bytes that could end a field or a line are
// written as \xHH, as nginx does.
func appendText(b []byte, r *http.Request, e *Exchange) []byte {
	b = appendAddr(b, e.Client)
	b = append(b, " - "...)
	b = appendTextField(b, user(r))
	b = append(b, " ["...)
	b = append(b, stamp(e.Start)...)
	b = append(b, `] "`...)
	b = appendEscaped(b, r.Method)
	b = append(b, ' ')
	b = appendEscaped(b, r.RequestURI)
	b = append(b, ' ')
	b = append(b, r.Proto...)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, e.Sent, 10)
	b = append(b, ` "`...)
	b = appendTextField(b, first(r.Header, "Referer"))
	b = append(b, `" "`...)
	b = appendTextField(b, first(r.Header, "User-Agent"))
	b = append(b, `" `...)
	b = strconv.AppendInt(b, e.Received, 10)
	b = append(b, ' ')
	b = appendSeconds(b, e.Took)
	b = append(b, " ["...)
	b = appendUpstreamName(b, e.Info)
	b = append(b, "] ["...)
	if e.Info != nil {
		b = append(b, e.Info.Canary...)
	}
	b = append(b, "] "...)
	b = appendAttempts(b, e, func(b []byte, a *Attempt) []byte { return a.Endpoint.AppendTo(b) })
	b = append(b, ' ')
	b = appendAttempts(b, e, func(b []byte, a *Attempt) []byte { return strconv.AppendInt(b, a.Received, 10) })
	b = append(b, ' ')
	b = appendAttempts(b, e, func(b []byte, a *Attempt) []byte { return appendSeconds(b, a.Total) })
	b = append(b, ' ')
	b = appendAttempts(b, e, func(b []byte, a *Attempt) []byte {
		if a.Status == 0 {
			return append(b, '-')
		}
		return strconv.AppendInt(b, int64(a.Status), 10)
	})
	b = append(b, ' ')
	b = append(b, e.ID...)
	return append(b, '\n')
}

// lastStamp is the second that was written last, as all lines within it have it.
var lastStamp atomic.Pointer[stamped]

type stamped struct {
	second   int64
	location *time.Location
	text     string
}

// stamp is a time as nginx's $time_local has it.
func stamp(t time.Time) string {
	second, location := t.Unix(), t.Location()
	if last := lastStamp.Load(); last != nil && last.second == second && last.location == location {
		return last.text
	}
	text := t.Format("02/Jan/2006:15:04:05 -0700")
	lastStamp.Store(&stamped{second, location, text})
	return text
}

// first is the first value of a field, by its canonical name, which spares finding that out.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func user(r *http.Request) string {
	if len(r.Header["Authorization"]) == 0 {
		return ""
	}
	name, _, _ := r.BasicAuth()
	return name
}

func appendAddr(b []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(b, '-')
	}
	return a.AppendTo(b)
}

// appendSeconds appends seconds with three places behind the point.
func appendSeconds(b []byte, d time.Duration) []byte {
	ms := int64(d.Round(time.Millisecond) / time.Millisecond)
	b = strconv.AppendInt(b, ms/1000, 10)
	ms %= 1000
	return append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

func appendUpstreamName(b []byte, info *RouteInfo) []byte {
	if info == nil || info.Service == "" {
		return b
	}
	b = append(b, info.Namespace...)
	b = append(b, '-')
	b = append(b, info.Service...)
	b = append(b, '-')
	return append(b, info.Port...)
}

func appendAttempts(b []byte, e *Exchange, one func([]byte, *Attempt) []byte) []byte {
	if len(e.Attempts) == 0 {
		return append(b, '-')
	}
	for i := range e.Attempts {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = one(b, &e.Attempts[i])
	}
	return b
}

// appendTextField is appendEscaped with "-" for nothing.
func appendTextField(b []byte, s string) []byte {
	if s == "" {
		return append(b, '-')
	}
	return appendEscaped(b, s)
}

const hexDigits = "0123456789ABCDEF"

func appendEscaped(b []byte, s string) []byte {
	s = s[:min(len(s), maxLogged)]
	plain := 0 // what stands from here on is appended in one piece
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			b = append(append(b, s[plain:i]...), '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			plain = i + 1
		}
	}
	return append(b, s[plain:]...)
}

// appendJSON appends one object with the fields of the text line, and of the route, the attempts and the reason.
func appendJSON(b []byte, r *http.Request, e *Exchange) []byte {
	b = append(b, `{"time":"`...)
	b = e.Start.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","remote_addr":"`...)
	b = appendAddr(b, e.Client)
	b = append(b, '"')
	b = appendJSONField(b, "remote_user", user(r))
	b = appendJSONField(b, "method", r.Method)
	b = appendJSONField(b, "host", r.Host)
	b = appendJSONField(b, "uri", r.RequestURI)
	b = appendJSONField(b, "protocol", r.Proto)
	b = appendJSONNumber(b, "status", int64(e.Status))
	b = appendJSONNumber(b, "bytes_sent", e.Sent)
	b = appendJSONNumber(b, "request_length", e.Received)
	b = append(b, `,"request_time":`...)
	b = appendSeconds(b, e.Took)
	b = appendJSONField(b, "referer", first(r.Header, "Referer"))
	b = appendJSONField(b, "user_agent", first(r.Header, "User-Agent"))
	b = appendJSONField(b, "request_id", e.ID)
	if info := e.Info; info != nil {
		b = appendJSONField(b, "namespace", info.Namespace)
		b = appendJSONField(b, "ingress", info.Ingress)
		b = appendJSONField(b, "service", info.Service)
		b = appendJSONField(b, "service_port", info.Port)
		b = appendJSONField(b, "canary", info.Canary)
		b = appendJSONField(b, "route_host", info.Host)
		b = appendJSONField(b, "route_path", info.Path)
	}
	b = appendJSONField(b, "reason", string(e.Reason))
	b = append(b, `,"attempts":[`...)
	for i := range e.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONAttempt(b, &e.Attempts[i])
	}
	return append(b, "]}\n"...)
}

func appendJSONAttempt(b []byte, a *Attempt) []byte {
	b = append(b, `{"endpoint":"`...)
	b = a.Endpoint.AppendTo(b)
	b = append(b, '"')
	b = appendJSONNumber(b, "status", int64(a.Status))
	b = appendJSONNumber(b, "response_length", a.Received)
	b = append(b, `,"response_time":`...)
	b = appendSeconds(b, a.Total)
	b = append(b, `,"connect_time":`...)
	b = appendSeconds(b, a.Connect)
	b = appendJSONField(b, "reason", string(a.Reason))
	b = appendJSONField(b, "tls", a.TLS)
	return append(b, '}')
}

// appendJSONField appends a field, or nothing for an empty value.
func appendJSONField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, `":"`...)
	b = appendJSONString(b, value[:min(len(value), maxLogged)])
	return append(b, '"')
}

func appendJSONNumber(b []byte, name string, n int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}

// appendJSONString appends the inside of a JSON string (RFC 8259 section 7). What is no UTF-8 becomes U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			letter, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, letter)
			i += size
			continue
		}
		i++
	}
	return b
}
