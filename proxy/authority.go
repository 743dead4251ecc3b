package proxy

import (
	"net/http"
	"strings"
)

// authorityPath begins what certificate authorities ask for (RFC 8555 section 8.3).
const authorityPath = "/.well-known/acme-challenge/"

// answerAuthority answers a certificate authority that asks for a token which is known, and says whether it did. Every other
// token is for the routes of the host: others solve challenges too.
func (s *Server) answerAuthority(w http.ResponseWriter, r *http.Request) bool {
	e := From(r)
	if s.Answer == nil || !strings.HasPrefix(e.Target, authorityPath) || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	text, known := s.Answer(e.Host, e.Target[len(authorityPath):])
	if !known {
		return false
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodGet {
		w.Write([]byte(text))
	}
	return true
}
