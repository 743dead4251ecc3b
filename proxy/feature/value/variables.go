package value

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"sallyport/proxy"
)

// The variables, and what each of them gives (reference A19).

// A variable is what stands behind a name.
type variable struct {
	kind   kind
	append func(dst []byte, s source) []byte
	url    func(dst []byte, s source) []byte // nil: append also where the value becomes a part of a URL
}

// A source is the request that values are taken from.
type source struct {
	r        *http.Request
	e        *proxy.Exchange
	captures []string
	name     string // of the part that is being written
}

// A kind says what is known of every value of a variable, and with it where in a URL it may stand.
type kind uint8

const (
	plain  kind = iota // anything: what a client wrote, percent-decoded or never encoded
	query              // a piece of a URL already: its escapes are escapes, its delimiters delimit
	target             // as query, and it begins with a slash
	host               // what a host is made of; checked by the front, or not of the client's making
	scheme             // "http" or "https"
)

func (v *variable) appendTo(dst []byte, s source, where place) []byte {
	from := len(dst)
	switch where {
	case inField:
		return escape(v.append(dst, s), from, notInField)
	case inURL:
		write := v.append
		if v.url != nil {
			write = v.url
		}
		if v.kind == plain {
			return escape(write(dst, s), from, notInSegments)
		}
		return escape(write(dst, s), from, notInURL)
	}
	return v.append(dst, s)
}

// capture is $1 to $9. Read from a path as it is matched, decoded: in a URL it is encoded again.
var capture = &variable{append: func(dst []byte, s source) []byte {
	if i := int(s.name[0] - '1'); i < len(s.captures) {
		dst = append(dst, s.captures[i]...)
	}
	return dst
}}

// families are variables by the beginning of their names; the rest names what is looked up.
var families = map[string]*variable{
	"arg_":    {kind: query, append: argument},
	"cookie_": {append: cookie},
	"http_":   {append: field},
}

var variables = map[string]*variable{
	"host":              {kind: host, append: text(hostOf)},
	"http_host":         {kind: host, append: text(askedHost)},
	"best_http_host":    {kind: host, append: text(askedHost)},
	"server_name":       {kind: host, append: text(serverName)},
	"hostname":          {kind: host, append: text(func(source) string { return hostname() })},
	"server_port":       {kind: host, append: text(func(s source) string { return s.e.Port })},
	"request_method":    {append: text(func(s source) string { return s.r.Method })},
	"server_protocol":   {append: text(func(s source) string { return s.r.Proto })},
	"request_length":    {append: func(dst []byte, s source) []byte { return strconv.AppendInt(dst, s.e.Received, 10) }},
	"request_id":        {append: text(func(s source) string { return s.e.ID })},
	"req_id":            {append: text(func(s source) string { return s.e.ID })},
	"time_iso8601":      {append: func(dst []byte, s source) []byte { return s.e.Start.AppendFormat(dst, "2006-01-02T15:04:05-07:00") }},
	"msec":              {append: milliseconds},
	"remote_user":       {append: text(user)},
	"remote_addr":       {kind: query, append: func(dst []byte, s source) []byte { return s.e.Client.AppendTo(dst) }},
	"remote_port":       {append: remotePort},
	"namespace":         {kind: host, append: info(func(i *proxy.RouteInfo) string { return i.Namespace })},
	"ingress_name":      {kind: host, append: info(func(i *proxy.RouteInfo) string { return i.Ingress })},
	"service_name":      {kind: host, append: info(func(i *proxy.RouteInfo) string { return i.Service })},
	"service_port":      {kind: host, append: info(func(i *proxy.RouteInfo) string { return i.Port })},
	"location_path":     {append: info(func(i *proxy.RouteInfo) string { return i.Path })},
	"ssl_protocol":      {append: text(sslProtocol)},
	"ssl_cipher":        {append: text(sslCipher)},
	"ssl_server_name":   {append: text(sslServerName)},
	"ssl_client_verify": {append: text(sslClientVerify)},
	"ssl_client_s_dn":   {append: text(sslClientSubject)},
	"ssl_client_i_dn":   {append: text(sslClientIssuer)},
	"ssl_client_serial": {append: text(sslClientSerial)},

	"ssl_client_fingerprint":    {append: text(sslClientFingerprint)},
	"binary_remote_addr":        {append: binaryAddr},
	"proxy_add_x_forwarded_for": {append: forwardedFor},
	"proxy_upstream_name":       {append: upstreamName},

	// $scheme is the connection's own; $pass_access_scheme is what the client sees, also behind a trusted load balancer
	// that ends TLS.
	"scheme":             {kind: scheme, append: text(connectionScheme)},
	"pass_access_scheme": {kind: scheme, append: text(func(s source) string { return s.e.Scheme })},

	"request_uri":         {kind: target, append: text(func(s source) string { return s.e.Target })},
	"escaped_request_uri": {kind: query, append: escapedTarget},
	"args":                {kind: query, append: text(args)},
	"query_string":        {kind: query, append: text(args)},
	"is_args":             {kind: query, append: text(isArgs)},
	// A URL needs the path as it came: %2F in the decoded one is an encoded slash or a percent sign with two letters.
	"uri": {kind: target, append: text(func(s source) string { return s.e.Path }), url: text(rawPath)},
}

func text(of func(s source) string) func([]byte, source) []byte {
	return func(dst []byte, s source) []byte { return append(dst, of(s)...) }
}

func info(of func(*proxy.RouteInfo) string) func([]byte, source) []byte {
	return func(dst []byte, s source) []byte {
		if s.e.Info == nil {
			return dst
		}
		return append(dst, of(s.e.Info)...)
	}
}

// hostOf is the rule's host for the HTTP/1.0 client that names none.
func hostOf(s source) string {
	if s.e.Host == "" {
		return serverName(s)
	}
	return s.e.Host
}

// askedHost is the host as the client wrote it, with its port, or as a trusted proxy says that it did.
func askedHost(s source) string { return s.r.Host }

// serverName is "_" for a rule that takes any host, as ingress-nginx calls its server for them.
func serverName(s source) string {
	switch {
	case s.e.Info == nil:
		return ""
	case s.e.Info.Host == "":
		return "_"
	}
	return s.e.Info.Host
}

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname() // empty where the system does not know
	return name
})

func connectionScheme(s source) string {
	if s.r.TLS != nil {
		return "https"
	}
	return "http"
}

func args(s source) string {
	_, query, _ := strings.Cut(s.e.Target, "?")
	return query
}

func isArgs(s source) string {
	if args(s) == "" {
		return ""
	}
	return "?"
}

func rawPath(s source) string {
	path, _, _ := strings.Cut(s.e.Target, "?")
	return path
}

func escapedTarget(dst []byte, s source) []byte {
	from := len(dst)
	return escape(append(dst, s.e.Target...), from, notUnreserved)
}

// argument is the first parameter of the query with a name, whatever the case of that, and with its escapes.
func argument(dst []byte, s source) []byte {
	for rest := args(s); rest != ""; {
		var parameter string
		parameter, rest, _ = strings.Cut(rest, "&")
		if name, value, ok := strings.Cut(parameter, "="); ok && strings.EqualFold(name, s.name) {
			return append(dst, value...)
		}
	}
	return dst
}

// cookie is the first cookie with a name, whatever the case of that.
func cookie(dst []byte, s source) []byte {
	for _, line := range s.r.Header["Cookie"] {
		for rest := line; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			name, value, ok := strings.Cut(pair, "=")
			if ok && strings.EqualFold(strings.TrimSpace(name), s.name) {
				return append(dst, strings.TrimSpace(value)...)
			}
		}
	}
	return dst
}

// field is a field of the request's header. The values of several with one name are joined, as in nginx since 1.23.
func field(dst []byte, s source) []byte {
	between := ", "
	if s.name == "Cookie" {
		between = "; "
	}
	for i, value := range s.r.Header[s.name] {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = append(dst, value...)
	}
	return dst
}

// user is who the request says it comes from. That alone proves nothing: a check of the password does.
func user(s source) string {
	name, _, _ := s.r.BasicAuth()
	return name
}

// remotePort is empty where a trusted proxy told the client's address: the port is not the client's then.
func remotePort(dst []byte, s source) []byte {
	if s.e.Client != s.e.Peer.Addr() || !s.e.Peer.IsValid() {
		return dst
	}
	return strconv.AppendUint(dst, uint64(s.e.Peer.Port()), 10)
}

// binaryAddr is 4 or 16 bytes.
func binaryAddr(dst []byte, s source) []byte {
	switch a := s.e.Client; {
	case a.Is4():
		b := a.As4()
		return append(dst, b[:]...)
	case a.IsValid():
		b := a.As16()
		return append(dst, b[:]...)
	}
	return dst
}

// forwardedFor is what the request said in X-Forwarded-For, and the client's address behind it. The front has put that
// field aside, since nobody need believe it.
func forwardedFor(dst []byte, s source) []byte {
	if said := s.r.Header.Get("X-Original-Forwarded-For"); said != "" {
		dst = append(append(dst, said...), ", "...)
	}
	return s.e.Client.AppendTo(dst)
}

func upstreamName(dst []byte, s source) []byte {
	i := s.e.Info
	if i == nil || i.Service == "" {
		return dst
	}
	dst = append(append(dst, i.Namespace...), '-')
	dst = append(append(dst, i.Service...), '-')
	return append(dst, i.Port...)
}

// milliseconds is the time of the request in seconds, to three places.
func milliseconds(dst []byte, s source) []byte {
	ms := max(0, s.e.Start.UnixMilli())
	rest := ms % 1000
	return append(strconv.AppendInt(dst, ms/1000, 10), '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
