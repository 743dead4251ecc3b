package feature

import (
	"iter"
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

// guardingDirectives keep clients out, or may: a route whose snippet has one does not stand open without it. Everything
// that is run, not read, is among them.
var guardingDirectives = []string{"allow", "deny", "satisfy", "return", "if", "internal", "valid_referers", "ssl_verify_client"}

var guardingPrefixes = []string{"auth_", "limit_", "secure_link", "access_by_", "rewrite_by_", "content_by_", "modsecurity"}

// snippetGuards reports whether a snippet may have been written to keep clients out. A redirect is no such thing.
func snippetGuards(text string) bool {
	for words := range directives(text) {
		switch name := strings.ToLower(words[0]); {
		case name == "return" && len(words) > 1 && strings.HasPrefix(words[1], "3"):
		case slices.Contains(guardingDirectives, name), slices.ContainsFunc(guardingPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			return true
		}
	}
	return false
}

// directives yields what may be a directive of a snippet, with what stands behind it: the words up to a semicolon, a brace
// or the end of the line.
func directives(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for piece := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\n;{}", r) }) {
			if words := strings.Fields(piece); len(words) > 0 && !yield(words) {
				return
			}
		}
	}
}

// snippetAdvice says what to write instead of a snippet: "" where there is nothing to say.
func snippetAdvice(text string) string {
	var advice []string
	for words := range directives(text) {
		if instead := idioms[words[0]]; instead != "" && !slices.Contains(advice, words[0]+": "+instead) {
			advice = append(advice, words[0]+": "+instead)
		}
	}
	if len(advice) == 0 {
		return ""
	}
	return "; " + strings.Join(advice, "; ")
}
