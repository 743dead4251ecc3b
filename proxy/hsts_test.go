package proxy

import (
	"crypto/tls"
	"net/http"
	"slices"
	"testing"
)

func TestEveryAnswerOverTLSIsStrict(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := From(r)
		if r.URL.Path == "/hook" {
			e.OnHeader(setStrict{})
		}
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		w.WriteHeader(http.StatusOK)
	})
	s := new(Server)
	plain, secure := front(t, s, handler)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, c := range []struct {
		hsts, url string
		want      []string
	}{
		{"", "https://" + secure + "/", []string{UsualHSTS}},
		{"max-age=5", "https://" + secure + "/", []string{"max-age=5"}},
		{"", "https://" + secure + "/%zz", []string{UsualHSTS}}, // refused
		{"", "https://" + secure + "/hook", []string{"max-age=7"}},
		{NoHSTS, "https://" + secure + "/", []string{"max-age=1"}}, // the endpoint's own
		{"", "http://" + plain + "/", []string{"max-age=1"}},
	} {
		s.SetClients(&Clients{HSTS: c.hsts})
		request, err := http.NewRequest("GET", c.url, nil)
		if err != nil {
			request, _ = http.NewRequest("GET", "https://"+secure+"/", nil)
			request.URL.Opaque = "/%zz"
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header["Strict-Transport-Security"]; !slices.Equal(got, c.want) {
			t.Errorf("%q, %s (status %d): %q, want %q", c.hsts, c.url, answer.StatusCode, got, c.want)
		}
	}
}

type setStrict struct{}

func (setStrict) SetHeader(_ *Exchange, header http.Header) {
	header.Set("Strict-Transport-Security", "max-age=7")
}
