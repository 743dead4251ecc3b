package value

import (
	"crypto/tls"
	"slices"
	"testing"
)

func TestCiphersOfOpenSSLsLists(t *testing.T) {
	const (
		ea128, ra128 = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
		ea256, ra256 = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
		ec, rc       = tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
	)
	for _, c := range []struct {
		list    string
		ids     []uint16
		unknown []string
	}{
		{"ECDHE-RSA-AES128-GCM-SHA256", []uint16{ra128}, nil},
		{"ecdhe-rsa-aes128-gcm-sha256", []uint16{ra128}, nil},
		{"ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-GCM-SHA384", []uint16{rc, ra256}, nil},
		{"ECDHE-RSA-AES256-SHA AES128-SHA", []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_AES_128_CBC_SHA}, nil},
		{"DEFAULT", []uint16{ea128, ra128, ea256, ra256, ec, rc}, nil},
		{"HIGH:!aNULL:!MD5:!kRSA", []uint16{ea128, ra128, ea256, ra256, ec, rc}, nil},
		{"EECDH+AESGCM:EECDH+CHACHA20", []uint16{ea128, ra128, ea256, ra256, ec, rc}, nil},
		{"ALL:!AES128:-ECDSA:+RSA:@STRENGTH", []uint16{ra256, rc}, nil},
		{"!AES128:ECDHE-RSA-AES128-GCM-SHA256", nil, nil},
		{"-AES128,ECDHE-RSA-AES128-GCM-SHA256", []uint16{ra128}, nil},
		{"TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256:@SECLEVEL=0", []uint16{ra128}, nil},
		{"DHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:NOSUCH", []uint16{ra128}, []string{"DHE-RSA-AES128-GCM-SHA256", "NOSUCH"}},
		{"EECDH+NOSUCH", nil, []string{"EECDH+NOSUCH"}},
		{"", nil, nil}, {":::", nil, nil}, {"!", nil, nil}, {"+", nil, []string{"+"}},
	} {
		ids, unknown := Ciphers(c.list)
		if !slices.Equal(ids, c.ids) || !slices.Equal(unknown, c.unknown) {
			t.Errorf("%q: %x, unknown %q; want %x, %q", c.list, ids, unknown, c.ids, c.unknown)
		}
	}
}

func FuzzCiphers(f *testing.F) {
	f.Add("EECDH+AESGCM:!aNULL:-ECDSA,@STRENGTH")
	f.Fuzz(func(t *testing.T, list string) {
		ids, _ := Ciphers(list)
		for i, id := range ids {
			if openSSLName(id) == "" || slices.Contains(ids[:i], id) {
				t.Errorf("%q: %x", list, ids)
			}
		}
	})
}
