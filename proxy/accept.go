package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// WantsJSON reports whether a client would rather have JSON than text (RFC 9110 section 12.5.1). It must have named JSON:
// a browser, which takes anything, and curl, which says */*, are people at a screen.
//
//	application/json, text/plain, */*      true
//	text/html, application/json;q=0.9      false
//	*/*                                    false
func WantsJSON(r *http.Request) bool {
	var json, text float64
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			kind, parameters, _ := strings.Cut(item, ";")
			switch kind = strings.TrimSpace(kind); {
			case strings.EqualFold(kind, "application/json"), len(kind) > 5 && strings.EqualFold(kind[len(kind)-5:], "+json"):
				json = max(json, quality(parameters))
			case len(kind) > 5 && strings.EqualFold(kind[:5], "text/"):
				text = max(text, quality(parameters))
			}
		}
	}
	return json > 0 && json >= text
}

// quality is the weight among the parameters of a media range: 1 where there is none, 0 where it is no number.
func quality(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}
