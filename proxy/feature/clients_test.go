package feature

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

func TestTheConfigMapSaysWhatIsBelievedOfClients(t *testing.T) {
	for _, c := range []struct {
		keys map[string]string
		want proxy.Clients // with the usual ForwardedFor and ProxyTimeout where they are zero
	}{
		{nil, proxy.Clients{}},
		{map[string]string{"use-forwarded-headers": "true"}, proxy.Clients{Forwarded: true}},
		{map[string]string{"enable-real-ip": "true", "forwarded-for-header": " cf-connecting-ip"}, proxy.Clients{RealIP: true, ForwardedFor: "Cf-Connecting-Ip"}},
		{map[string]string{"proxy-real-ip-cidr": "10.0.0.0/8, 2001:db8::/32,192.0.2.1"}, proxy.Clients{Trusted: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.1/32")}}},
		{map[string]string{"proxy-real-ip-cidr": ""}, proxy.Clients{}},
		{map[string]string{"compute-full-forwarded-for": "true"}, proxy.Clients{FullForwardedFor: true}},
		{map[string]string{"use-proxy-protocol": "true", "proxy-protocol-header-timeout": "1500ms"}, proxy.Clients{ProxyProtocol: true, ProxyTimeout: 1500 * time.Millisecond}},
		{map[string]string{"client-header-timeout": "5", "client-body-timeout": "6", "keep-alive": "7", "keep-alive-requests": "8"},
			proxy.Clients{Patience: http1.Patience{Head: 5 * time.Second, Gap: 6 * time.Second, Idle: 7 * time.Second, Requests: 8}}},
		{map[string]string{"proxy-add-original-uri-header": "true"}, proxy.Clients{OriginalURI: true}},
		{map[string]string{"generate-request-id": "false"}, proxy.Clients{NoID: true}},
		{map[string]string{"enable-underscores-in-headers": "true"}, proxy.Clients{Underscores: true}},
		{map[string]string{"ignore-invalid-headers": "false"}, proxy.Clients{OddNames: true}},
		{map[string]string{"allow-backend-server-header": "true"}, proxy.Clients{ServerField: true}},
		{map[string]string{"forwarded-for-proxy-protocol-header": "X-Forwarded-For-Proxy-Protocol"}, proxy.Clients{}},
	} {
		if c.want.ForwardedFor == "" {
			c.want.ForwardedFor = "X-Forwarded-For"
		}
		if c.want.ProxyTimeout == 0 {
			c.want.ProxyTimeout = 5 * time.Second
		}
		if c.want.Patience == (http1.Patience{}) {
			c.want.Patience = http1.Patience{Head: 10 * time.Second, Gap: time.Minute, Idle: 75 * time.Second}
		}
		c.want.HSTS = "max-age=31536000; includeSubDomains"
		config, problems := NewConfig(c.keys, Input{})
		if got := config.Clients(); !reflect.DeepEqual(*got, c.want) || len(problems) > 0 {
			t.Errorf("%v: %+v, problems %v; want %+v", c.keys, *got, problems, c.want)
		}
	}
	if got := (*Config)(nil).Clients(); got != nil {
		t.Errorf("without a ConfigMap: %+v, want nil", got)
	}
}

// TestMistakesAboutClientsAreTold, and the default stands.
func TestMistakesAboutClientsAreTold(t *testing.T) {
	for _, c := range []struct {
		key, value, says string
	}{
		{"use-forwarded-headers", "yes", `expected "true" or "false"`},
		{"proxy-real-ip-cidr", "10.0.0.0/33", "neither an address nor a network"}, // nobody is believed anyway
		{"proxy-real-ip-cdir", "10.0.0.0/8", "did you mean proxy-real-ip-cidr?"},
		{"forwarded-for-header", "X Forwarded", "no name of a header field"},
		{"forwarded-for-header", "authorization", "something else than who the client is"},
		{"proxy-protocol-header-timeout", "5", `a time as in "5s"`},
		{"proxy-protocol-header-timeout", "-5s", `a time as in "5s"`},
		{"proxy-protocol-header-timeout", "0s", `a time as in "5s"`},
		{"proxy-protocol-header-timeout", "2h", `a time as in "5s"`},
	} {
		config, problems := NewConfig(map[string]string{c.key: c.value}, Input{})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, c.says) || problems[0].Denies {
			t.Errorf("%s: %q: problems %+v, want one with %q that denies nothing", c.key, c.value, problems, c.says)
		}
		want, _ := NewConfig(nil, Input{})
		if got := config.Clients(); !reflect.DeepEqual(got, want.Clients()) {
			t.Errorf("%s: %q: %+v, want %+v", c.key, c.value, got, want.Clients())
		}
		if draft, _ := Parse(Input{Config: config}); draft.Denied() {
			t.Errorf("%s: %q: routes are denied, want that they are served", c.key, c.value)
		}
	}
}

// TestRoutesCloseWhereNobodyKnowsWhomToTrust: access lists and limits go by what trusted peers say.
func TestRoutesCloseWhereNobodyKnowsWhomToTrust(t *testing.T) {
	for _, key := range []string{"use-forwarded-headers", "enable-real-ip", "use-proxy-protocol"} {
		for value, says := range map[string]string{
			"10.0.0.0/33":               "neither an address nor a network",
			"10.0.0.0/8,lb.example.org": "neither an address nor a network",
			" , ":                       "expected a list",
		} {
			config, problems := NewConfig(map[string]string{key: "true", "proxy-real-ip-cidr": value}, Input{})
			if len(problems) != 1 || !strings.Contains(problems[0].Message, says) || !problems[0].Denies {
				t.Errorf("%s and %q: problems %+v, want one with %q that denies", key, value, problems, says)
			}
			if draft, _ := Parse(Input{Config: config}); !draft.Denied() {
				t.Errorf("%s and %q: routes are served, want that they are denied", key, value)
			}
		}
	}
}
