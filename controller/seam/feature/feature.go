// Package feature stands in for proxy/feature.
package feature

import (
	"net/http"

	"sallyport/router"
)

type Settings struct{ HTTPSPort int }
type Place struct {
	Match   router.Match
	HostTLS bool
}
type Problem struct{ Annotation, Value, Message string }
type Draft struct{}

func Parse(map[string]string, Settings) (*Draft, []Problem)       { return nil, nil }
func (d *Draft) Handler(at Place, last http.Handler) http.Handler { return last }
