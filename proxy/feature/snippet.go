package feature

import (
	"regexp"
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

// authIdioms are those of auth-snippet that differ: what it sets fields of is not what endpoints get.
var authIdioms = map[string]string{
	"proxy_set_header":       askedFields,
	"more_set_input_headers": askedFields,
}

const askedFields = "auth-proxy-set-headers sets fields of what the service is asked"

// httpsInstead is for a snippet that sends clients to HTTPS: permanent-redirect in its place would redirect for ever.
const httpsInstead = "ssl-redirect sends clients to HTTPS where the host has a certificate, and is on unless it is turned off; force-ssl-redirect does so in any case"

// guardingDirectives keep clients out, or may: a route whose snippet has one does not stand open without it. Everything
// that is run, not read, is among them.
var guardingDirectives = []string{"allow", "deny", "satisfy", "return", "if", "internal", "valid_referers", "ssl_verify_client"}

var guardingPrefixes = []string{"auth_", "limit_", "secure_link", "access_by_", "rewrite_by_", "content_by_", "modsecurity"}

// snippetGuards reports whether a snippet may have been written to keep clients out. A redirect is no such thing, and
// neither is a condition on which clients are sent to HTTPS.
func snippetGuards(text string) bool {
	all := directives(text)
	for i, words := range all {
		switch name := strings.ToLower(words[0]); {
		case name == "return" && len(words) > 1 && strings.HasPrefix(words[1], "3"), asksForHTTPS(all[i:]):
		case slices.Contains(guardingDirectives, name), slices.ContainsFunc(guardingPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			return true
		}
	}
	return false
}

// directives are what may be the directives of a snippet, each with what stands behind it: the words up to a semicolon, a
// brace or the end of the line.
func directives(text string) (all [][]string) {
	for piece := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\n;{}", r) }) {
		if words := strings.Fields(piece); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// plainHTTP is a condition on nothing but how the client came.
var plainHTTP = regexp.MustCompile(`^if \( ?\$(scheme|https|server_port|pass_access_scheme|http_x_forwarded_(proto|scheme|port)|http_x_scheme) [!=~*]+ [^$()]*\)$`)

// asksForHTTPS reports whether the first of some directives is a condition like
//
//	if ($scheme = http) { return 301 https://$host$request_uri; }
//
// and the second what is done then.
func asksForHTTPS(all [][]string) bool {
	if len(all) < 2 || !plainHTTP.MatchString(strings.Join(all[0], " ")) {
		return false
	}
	then := all[1]
	return len(then) > 2 && strings.HasPrefix(then[2], "https://") && (then[0] == "rewrite" || then[0] == "return" && strings.HasPrefix(then[1], "3"))
}

// snippetAdvice says what to write instead of the snippet that an annotation holds: "" where there is nothing to say.
func snippetAdvice(name, text string) string {
	var advice []string
	add := func(directive, instead string) {
		if line := "; " + directive + ": " + instead; instead != "" && !slices.Contains(advice, line) {
			advice = append(advice, line)
		}
	}
	for all := directives(text); len(all) > 0; all = all[1:] {
		directive := all[0][0]
		switch instead, differs := authIdioms[directive]; {
		case asksForHTTPS(all):
			add(directive, httpsInstead)
			all = all[1:] // which belongs to it
		case differs && name == "auth-snippet":
			add(directive, instead)
		default:
			add(directive, idioms[directive])
		}
	}
	return strings.Join(advice, "")
}
