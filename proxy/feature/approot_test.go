package feature

import "testing"

func TestAppRootSaysWhatItExpects(t *testing.T) {
	const expected = "expected a path as in /home"
	for text, want := range map[string]string{
		"start":            `"start": ` + expected + ", which begins with a slash",
		"":                 `"": ` + expected + ", which begins with a slash",
		"$arg_x":           `"$arg_x": ` + expected + ", which begins with a slash",
		"https://h.test/x": `"https://h.test/x": ` + expected + ", which begins with a slash",
		"//h.test/x":       `"//h.test/x": ` + expected + `: "//h.test/x" begins with two slashes, which a client reads as a host`,
		"/$nothing":        `"/$nothing": ` + expected + `: "$nothing" is no variable`,
		"/":                `"/": expected another path than / itself, which would be redirected for ever`,
		"/?again":          `"/?again": expected another path than / itself, which would be redirected for ever`,
		"/home":            "",
		"/$host":           "",
	} {
		d, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + "app-root": text}})
		got := ""
		if len(problems) > 0 {
			got = problems[0].Message
		}
		if got != want || len(problems) > 1 || d.Host.Wraps() != (want == "") {
			t.Errorf("%q: %v, redirects: %v; want %q", text, problems, d.Host.Wraps(), want)
		}
	}
}
