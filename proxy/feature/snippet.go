package feature

import (
	"slices"
	"strings"
)

// What snippets of nginx configuration say most often has an annotation or a key of the ConfigMap of its own. A snippet is
// never read for anything but this advice.

// idioms are the directives of nginx that need no snippet, and what does their work.
var idioms = map[string]string{
	"more_set_headers":        "custom-headers sets fields of answers",
	"add_header":              "custom-headers sets fields of answers",
	"more_clear_headers":      "hide-headers in the ConfigMap removes fields of answers",
	"proxy_hide_header":       "hide-headers in the ConfigMap removes fields of answers",
	"proxy_set_header":        "proxy-set-headers in the ConfigMap sets fields of requests",
	"more_set_input_headers":  "proxy-set-headers in the ConfigMap sets fields of requests",
	"grpc_set_header":         "proxy-set-headers in the ConfigMap sets fields of requests",
	"return":                  "permanent-redirect or temporal-redirect answers with a redirect",
	"rewrite":                 "rewrite-target changes the path, permanent-redirect sends clients elsewhere",
	"allow":                   "allowlist-source-range lets only some clients in",
	"deny":                    "denylist-source-range keeps clients out",
	"satisfy":                 "satisfy does this",
	"auth_basic":              "auth-type and auth-secret ask for a password",
	"auth_request":            "auth-url asks a service whether clients may pass",
	"client_max_body_size":    "proxy-body-size limits bodies",
	"proxy_read_timeout":      "proxy-read-timeout does this",
	"proxy_send_timeout":      "proxy-send-timeout does this",
	"proxy_connect_timeout":   "proxy-connect-timeout does this",
	"proxy_buffering":         "proxy-buffering does this",
	"proxy_request_buffering": "proxy-request-buffering does this",
	"proxy_cookie_path":       "proxy-cookie-path does this",
	"proxy_cookie_domain":     "proxy-cookie-domain does this",
	"proxy_redirect":          "proxy-redirect-from and proxy-redirect-to do this",
	"limit_req":               "limit-rps or limit-rpm limits requests",
	"limit_conn":              "limit-connections limits requests at a time",
	"limit_rate":              "limit-rate limits the speed of answers",
	"access_log":              "enable-access-log turns the log off",
	"error_page":              "custom-http-errors and default-backend answer errors",
}

// snippetAdvice says what to write instead of a snippet: "" where there is nothing to say. It looks at the first word of
// each line and after each semicolon, in the first few kilobytes.
func snippetAdvice(text string) string {
	var advice []string
	words := strings.FieldsFunc(text[:min(len(text), 4<<10)], func(r rune) bool { return r == '\n' || r == ';' || r == '{' || r == '}' })
	for _, line := range words {
		directive, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instead := idioms[directive]; instead != "" && !slices.Contains(advice, directive+": "+instead) {
			advice = append(advice, directive+": "+instead)
		}
	}
	if len(advice) == 0 {
		return ""
	}
	return "; " + strings.Join(advice, "; ")
}
