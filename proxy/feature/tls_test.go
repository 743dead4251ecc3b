package feature

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCipherSuitesHaveTheNamesOfOpenSSL(t *testing.T) {
	all := func(keep func(name string) bool) (ids []uint16) {
		for _, s := range suites {
			if keep(s.name) {
				ids = append(ids, s.id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	none := func(string) bool { return false }
	for _, c := range []struct {
		list              string
		want              func(string) bool
		unspoken, unknown string
	}{
		{"ECDHE-RSA-AES128-GCM-SHA256", func(n string) bool { return n == "ECDHE-RSA-AES128-GCM-SHA256" }, "", ""},
		{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", func(n string) bool { return n == "ECDHE-RSA-AES128-GCM-SHA256" }, "", ""},
		{"HIGH:!aNULL:!MD5", func(string) bool { return true }, "", ""},
		{"EECDH+AESGCM:EDH+AESGCM", func(n string) bool { return strings.Contains(n, "GCM") }, "EDH+AESGCM", ""},
		{"ALL:!AES128:@STRENGTH:@SECLEVEL=1", func(n string) bool { return !strings.Contains(n, "AES128") }, "", ""},
		{"ALL:-ECDHE-RSA-CHACHA20-POLY1305", func(n string) bool { return n != "ECDHE-RSA-CHACHA20-POLY1305" }, "", ""},
		{"!CHACHA20:ALL", func(n string) bool { return !strings.Contains(n, "CHACHA20") }, "", ""},
		{"-CHACHA20:ALL", func(string) bool { return true }, "", ""},
		{"ECDHE+aRSA+CHACHA20 , ECDHE+aECDSA+AES256", func(n string) bool { return n == "ECDHE-RSA-CHACHA20-POLY1305" || n == "ECDHE-ECDSA-AES256-GCM-SHA384" }, "", ""},
		{"DHE-RSA-AES128-GCM-SHA256:AES128-SHA:DES-CBC3-SHA", none, "DHE-RSA-AES128-GCM-SHA256 AES128-SHA DES-CBC3-SHA", ""},
		{"ECDHE-RSA-AES128-SHA:RC4", none, "ECDHE-RSA-AES128-SHA RC4", ""},
		{"TLS_AES_128_GCM_SHA256", none, "", ""},
		{"ECDHE-RSA-AES128-GMC-SHA256:FOO:@WEAK", none, "", "ECDHE-RSA-AES128-GMC-SHA256 FOO @WEAK"},
		{"", none, "", ""},
		{":::,!", none, "", "!"},
	} {
		chosen, unspoken, unknown := ParseCiphers(c.list)
		slices.Sort(chosen)
		if want := all(c.want); !slices.Equal(chosen, want) {
			t.Errorf("%q: %v, want %v", c.list, names(chosen), names(want))
		}
		if got := strings.Join(unspoken, " "); got != c.unspoken {
			t.Errorf("%q: not spoken are %q, want %q", c.list, got, c.unspoken)
		}
		if got := strings.Join(unknown, " "); got != c.unknown {
			t.Errorf("%q: unknown are %q, want %q", c.list, got, c.unknown)
		}
	}
}

func names(ids []uint16) (names []string) {
	for _, id := range ids {
		names = append(names, tls.CipherSuiteName(id))
	}
	return names
}

func FuzzParseCiphers(f *testing.F) {
	f.Add("EECDH+AESGCM:!aNULL:@STRENGTH:DHE-RSA-AES128-SHA")
	f.Fuzz(func(t *testing.T, list string) {
		chosen, _, _ := ParseCiphers(list)
		for _, id := range chosen {
			if !slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.ID == id && !strings.Contains(s.Name, "CBC") }) {
				t.Errorf("%q chose %s", list, tls.CipherSuiteName(id))
			}
		}
	})
}

func TestTheConfigMapSaysWhatHoldsForHandshakes(t *testing.T) {
	gcm := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, c := range []struct {
		data     map[string]string
		want     TLS
		problems []string
	}{
		{nil, TLS{}, nil},
		{map[string]string{"ssl-protocols": "TLSv1.3"}, TLS{Min: tls.VersionTLS13, Max: tls.VersionTLS13}, nil},
		{map[string]string{"ssl-protocols": "TLSv1.2"}, TLS{Min: tls.VersionTLS12, Max: tls.VersionTLS12}, nil},
		{map[string]string{"ssl-protocols": "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3"}, TLS{Min: tls.VersionTLS12, Max: tls.VersionTLS13}, []string{"TLSv1, TLSv1.1: too old"}},
		{map[string]string{"ssl-protocols": "TLSv1"}, TLS{}, []string{"expected TLSv1.2 or TLSv1.3"}},
		{map[string]string{"ssl-protocols": "TLSv1.4"}, TLS{}, []string{"expected TLSv1.2 or TLSv1.3"}},
		{map[string]string{"ssl-ciphers": "ECDHE-RSA-AES128-GCM-SHA256"}, TLS{Suites: gcm}, nil},
		{map[string]string{"ssl-ciphers": "ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-SHA:ECDHE-OOPS"}, TLS{Suites: gcm}, []string{"ECDHE-OOPS: no suite", "DHE-RSA-AES256-SHA: not spoken"}},
		{map[string]string{"ssl-ciphers": "AES128-SHA"}, TLS{}, []string{"expected at least one suite"}},
		{map[string]string{"ssl-reject-handshake": "true", "enable-ocsp": "true"}, TLS{Reject: true, Staple: true}, nil},
		{map[string]string{"ssl-early-data": "true", "ssl-session-tickets": "true"}, TLS{}, nil},
	} {
		config, problems := NewConfig(c.data, Input{Namespace: "x", Name: "c"})
		if got := config.TLS(); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %+v, want %+v", c.data, got, c.want)
		}
		if len(problems) != len(c.problems) {
			t.Errorf("%v: %d problems, want %d: %v", c.data, len(problems), len(c.problems), problems)
			continue
		}
		for i, want := range c.problems {
			if !strings.Contains(problems[i].Message, want) {
				t.Errorf("%v: problem %q, want %q in it", c.data, problems[i].Message, want)
			}
		}
	}
}

func TestSuitesOfAHost(t *testing.T) {
	config, _ := NewConfig(map[string]string{"ssl-ciphers": "ECDHE-RSA-AES128-GCM-SHA256"}, Input{})
	for _, c := range []struct {
		value  string
		config *Config
		want   int
	}{
		{"", nil, 0}, {"", config, 0}, {"HIGH", nil, 6}, {"CHACHA20", config, 2}, {"ECDHE-RSA-AES128-GCM-SHA256", config, 0}, {"NONSENSE", nil, 0}, {"NONSENSE", config, 0},
	} {
		annotations := map[string]string{}
		if c.value != "" {
			annotations[NginxPrefix+"ssl-ciphers"] = c.value
		}
		d, problems := Parse(Input{Namespace: "x", Name: "i", Annotations: annotations, Config: c.config})
		if len(d.Host.Suites) != c.want || (len(problems) > 0) != (c.value == "NONSENSE") {
			t.Errorf("%q: %d suites of its own and problems %v, want %d", c.value, len(d.Host.Suites), problems, c.want)
		}
	}
}

func TestHSTSIsWhatTheKeysSay(t *testing.T) {
	for _, c := range []struct {
		data map[string]string
		want string
	}{
		{nil, "max-age=31536000; includeSubDomains"},
		{map[string]string{"hsts": "false"}, "none"},
		{map[string]string{"hsts-max-age": "0"}, "max-age=0; includeSubDomains"},
		{map[string]string{"hsts-include-subdomains": "false", "hsts-preload": "true"}, "max-age=31536000; preload"},
		{map[string]string{"hsts-max-age": "a year"}, "max-age=31536000; includeSubDomains"},
	} {
		config, _ := NewConfig(c.data, Input{})
		if got := config.Clients().HSTS; got != c.want {
			t.Errorf("%v: %q, want %q", c.data, got, c.want)
		}
	}
}
