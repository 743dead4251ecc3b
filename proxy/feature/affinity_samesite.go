package feature

import (
	"regexp"
	"strconv"
	"strings"
)

// Browsers that do not know SameSite=None, as the Chromium project has published (SameSite=None: Known Incompatible
// Clients). The first two take it for Strict, the others refuse the cookie:
//
//	iOS 12                    whatever the browser is called: all of them are Safari's engine
//	macOS 10.14               Safari, and what embeds its engine
//	Chrome, Chromium 51 to 66
//	UC Browser before 12.13.2

var (
	onIOS      = regexp.MustCompile(`\((?:iPhone|iPad|iPod)[^)]*\bOS (\d+)_`)
	onMacOS    = regexp.MustCompile(`\(Macintosh;[^)]*Mac OS X (\d+)_(\d+)`)
	isSafari   = regexp.MustCompile(`\bVersion/\S+(?: \S+)* Safari/`)
	isEmbedded = regexp.MustCompile(`AppleWebKit/[.\d]+ \(KHTML, like Gecko\)$`)
	ofChromium = regexp.MustCompile(`\bChrom(?:e|ium)/(\d+)`)
	ofUC       = regexp.MustCompile(`\bUCBrowser/(\d+)\.(\d+)\.(\d+)`)
)

// longestUserAgent is how much of a User-Agent is looked at. What is longer is no browser's.
const longestUserAgent = 1 << 10

// knowsSameSiteNone reports whether the browser with a User-Agent does as SameSite=None says. One that says nothing does.
func knowsSameSiteNone(userAgent string) bool {
	userAgent = strings.TrimSpace(userAgent[:min(len(userAgent), longestUserAgent)])
	if v := versionOf(ofUC, userAgent); v != nil {
		return v[0] > 12 || v[0] == 12 && (v[1] > 13 || v[1] == 13 && v[2] >= 2)
	}
	if v := versionOf(onIOS, userAgent); v != nil && v[0] == 12 {
		return false
	}
	if v := versionOf(ofChromium, userAgent); v != nil {
		return v[0] < 51 || v[0] > 66
	}
	if v := versionOf(onMacOS, userAgent); v != nil && v[0] == 10 && v[1] == 14 {
		return !isSafari.MatchString(userAgent) && !isEmbedded.MatchString(userAgent)
	}
	return true
}

// versionOf returns the numbers that a pattern finds, nil when it finds none.
func versionOf(pattern *regexp.Regexp, userAgent string) []int {
	found := pattern.FindStringSubmatch(userAgent)
	if found == nil {
		return nil
	}
	var numbers []int
	for _, text := range found[1:] {
		n, _ := strconv.Atoi(text) // out of range is the largest there is
		numbers = append(numbers, n)
	}
	return numbers
}
