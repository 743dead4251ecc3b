package feature

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The readers of plain values. What a feature alone can judge it checks itself, with [Annotations.Refuse].

// maxValue bounds the bytes of one value. The API server takes 256 KiB of annotations an object, a folder takes more.
const maxValue = 64 << 10

// Bool reads a switch. It takes what ingress-nginx takes: the words of strconv.ParseBool, without spaces around.
func (a *Annotations) Bool(name string, usual bool, usage string) bool {
	d := Declaration{Name: name, Values: "true or false", Default: strconv.FormatBool(usual), Usage: usage}
	return readExactly(a, d, usual, func(value string) (bool, string) {
		v, err := strconv.ParseBool(value)
		return v, unless(err == nil, `expected "true" or "false"`)
	})
}

// OnOff reads a switch of nginx's own: "on" or "off".
func (a *Annotations) OnOff(name string, usual bool, usage string) bool {
	d := Declaration{Name: name, Values: "on or off", Default: map[bool]string{true: "on", false: "off"}[usual], Usage: usage}
	return read(a, d, usual, func(value string) (bool, string) {
		return value == "on", unless(value == "on" || value == "off", `expected "on" or "off"`)
	})
}

// Int reads a whole number that is not negative, without spaces around.
func (a *Annotations) Int(name string, usual int, usage string) int {
	return a.IntBetween(name, usual, 0, 1<<31-1, usage)
}

// IntBetween reads a whole number within bounds, which both belong to them.
func (a *Annotations) IntBetween(name string, usual, least, most int, usage string) int {
	d := Declaration{Name: name, Default: strconv.Itoa(usual), Usage: usage}
	if a.collect {
		d.Values = intValues(least, most)
	}
	return readExactly(a, d, usual, func(value string) (int, string) {
		v, err := strconv.Atoi(value)
		if err == nil && v >= least && v <= most {
			return v, ""
		}
		return 0, "expected " + intValues(least, most)
	})
}

// intValues are the whole numbers from least to most, in words.
func intValues(least, most int) string {
	switch {
	case most < 1<<31-1:
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	case least != 0:
		return fmt.Sprintf("a whole number from %d on", least)
	}
	return "a whole number"
}

// Seconds reads a time: a whole number of seconds, without unit, as ingress-nginx has it.
func (a *Annotations) Seconds(name string, usual time.Duration, usage string) time.Duration {
	const most = 365 * 24 * time.Hour
	d := Declaration{Name: name, Values: "a whole number of seconds", Default: strconv.Itoa(int(usual / time.Second)), Usage: usage}
	return readExactly(a, d, usual, func(value string) (time.Duration, string) {
		v, err := strconv.Atoi(value)
		if err == nil && v >= 0 && v <= int(most/time.Second) {
			return time.Duration(v) * time.Second, ""
		}
		expected := "expected a whole number of seconds"
		if length, err := time.ParseDuration(strings.TrimSpace(value)); err == nil && length >= time.Second {
			expected += fmt.Sprintf(" without a unit, as in \"%d\"", length/time.Second)
		}
		return 0, expected
	})
}

// Size reads a number of bytes as nginx writes them: digits, then k, m or g for powers of 1,024.
func (a *Annotations) Size(name string, usual int64, usage string) int64 {
	d := Declaration{Name: name, Values: "a size: digits, then k, m, g or nothing", Default: sizeText(usual), Usage: usage}
	return read(a, d, usual, func(value string) (int64, string) {
		v, ok := parseSize(value)
		return v, unless(ok, `expected a size as in "8m": digits, then k, m, g or nothing`)
	})
}

func parseSize(value string) (int64, bool) {
	value = strings.ToLower(value)
	shift := 0
	if value != "" {
		switch value[len(value)-1] {
		case 'k':
			shift = 10
		case 'm':
			shift = 20
		case 'g':
			shift = 30
		}
	}
	if shift > 0 {
		value = value[:len(value)-1]
	}
	n, err := strconv.ParseUint(value, 10, 63-shift)
	return int64(n) << shift, err == nil
}

func sizeText(n int64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "g"}, {20, "m"}, {10, "k"}} {
		if n != 0 && n%(1<<unit.shift) == 0 {
			return strconv.FormatInt(n>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// String reads one line of text, which may not be empty. Spaces around it are dropped.
func (a *Annotations) String(name, usual, usage string) string {
	d := Declaration{Name: name, Values: "text", Default: usual, Usage: usage}
	return read(a, d, usual, func(value string) (string, string) {
		return value, oneLine(value)
	})
}

// oneLine says what is wrong with a value that is to be a line of text.
func oneLine(value string) string {
	switch {
	case value == "":
		return "expected one line of text"
	case len(value) > maxValue:
		return fmt.Sprintf("expected no more than %d bytes", maxValue)
	case strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return "expected one line of text, without control characters"
	}
	return ""
}

// Word reads one of some words, in any case, and returns it as it stands among them.
func (a *Annotations) Word(name, usual string, words []string, usage string) string {
	d := Declaration{Name: name, Default: usual, Usage: usage}
	if a.collect {
		d.Values = alternatives(words)
	}
	return read(a, d, usual, func(value string) (string, string) {
		for _, word := range words {
			if strings.EqualFold(value, word) {
				return word, ""
			}
		}
		return "", "expected " + alternatives(words)
	})
}

func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// List reads values that commas separate. Spaces around them and empty ones are dropped; at least one must be left. Check
// says what is wrong with one, "" for nothing; nil takes every one.
func (a *Annotations) List(name, values, usage string, check func(string) string) []string {
	d := Declaration{Name: name, Values: "a list of " + values + ", separated by commas", Usage: usage}
	return read(a, d, nil, func(value string) ([]string, string) {
		list, expected := parseList(value, values)
		for _, item := range list {
			if check == nil || expected != "" {
				break
			}
			expected = check(item)
		}
		return list, expected
	})
}

func parseList(value, values string) (list []string, expected string) {
	if len(value) > maxValue {
		return nil, fmt.Sprintf("expected no more than %d bytes", maxValue)
	}
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list, unless(len(list) > 0, "expected a list of "+values+", separated by commas")
}

// maxCIDRs bounds the networks of one list. A lookup costs the same for any number, the memory does not.
const maxCIDRs = 4096

// CIDRs reads a list of networks and addresses. Nil: it is absent, or bad.
func (a *Annotations) CIDRs(name, usage string) []netip.Prefix {
	const values = "addresses and networks as in 10.0.0.0/8"
	d := Declaration{Name: name, Values: "a list of " + values + ", separated by commas", Usage: usage}
	return read(a, d, nil, func(value string) ([]netip.Prefix, string) {
		list, expected := parseList(value, values)
		if expected != "" {
			return nil, expected
		}
		if len(list) > maxCIDRs {
			return nil, fmt.Sprintf("expected no more than %d networks, not %d", maxCIDRs, len(list))
		}
		networks := make([]netip.Prefix, 0, len(list))
		for _, item := range list {
			network, ok := parseNetwork(item)
			if !ok {
				return nil, fmt.Sprintf("%s is neither an address nor a network as in 10.0.0.0/8", shown(item))
			}
			networks = append(networks, network)
		}
		return networks, ""
	})
}

func parseNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		if network.Addr().Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
		return network.Masked(), true
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// HeaderNames reads a list of header fields' names, and returns them in canonical form.
func (a *Annotations) HeaderNames(name, usage string) []string {
	names := a.List(name, "header names", usage, checkFieldName)
	for i := range names {
		names[i] = canonical(names[i])
	}
	return names
}

// checkFieldName says what is wrong with the name of a header field.
func checkFieldName(name string) string {
	return unless(httpguts.ValidHeaderFieldName(name), shown(name)+" is no name of a header field")
}

// checkFieldValue says what is wrong with the value of a header field.
func checkFieldValue(value string) string {
	return unless(httpguts.ValidHeaderFieldValue(value), shown(value)+" cannot be the value of a header field")
}

func canonical(name string) string { return http.CanonicalHeaderKey(name) }
