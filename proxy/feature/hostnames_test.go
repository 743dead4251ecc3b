package feature

import (
	"slices"
	"strings"
	"testing"
)

func TestServerAliasKeepsTheGoodNamesOfAList(t *testing.T) {
	for _, c := range []struct {
		list string
		want []string
		says string // empty: nothing
	}{
		{"Alias.Test,good.alias.test", []string{"alias.test", "good.alias.test"}, ""},
		{"*.W.Test, ~^Re[0-9]+[.]test$", []string{"*.w.test", "~^Re[0-9]+[.]test$"}, ""},
		{"good.test, b_d.test, also.test", []string{"good.test", "also.test"}, `"b_d.test" is no host name`},
		{"b_d.test, ~(?=x), good.test", []string{"good.test"}, `"~(?=x)": lookahead "(?=x)" at character 1 is not supported, expressions are RE2; write what has to follow into the pattern itself`},
		{"~^(?!www).*", nil, "; write what is to match instead, in as many patterns as it needs"},
		{"~(", nil, `"~(": unclosed group`},
		{",", nil, "expected a list of host names"},
	} {
		d, problems := Parse(Input{Annotations: map[string]string{NginxPrefix + "server-alias": c.list}})
		told := len(problems) == 1 && c.says != "" && strings.Contains(problems[0].Message, c.says)
		if !slices.Equal(d.Host.Aliases, c.want) || !told && (c.says != "" || len(problems) > 0) || d.Denied() {
			t.Errorf("%q: names %q, problems %v, denied %v; want %q and %q", c.list, d.Host.Aliases, problems, d.Denied(), c.want, c.says)
		}
	}
}
