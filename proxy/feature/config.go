package feature

import "maps"

// A Config is the ConfigMap of the controller (--configmap): what holds for every Ingress that says nothing else, and what
// holds for the process. It never changes. The nil Config has no keys.
type Config struct {
	values map[string]string
}

// NewConfig reads the data of a ConfigMap and finds what is wrong with it, once for all Ingresses.
func NewConfig(data map[string]string, in Input) (*Config, []Problem) {
	c := &Config{values: maps.Clone(data)}
	in.Annotations, in.Memory, in.Config = nil, nil, c
	a := &Annotations{reading: &reading{in: in}}
	a.run(&Draft{Settings: in.Settings}, All)
	a.reportUnreadKeys()
	var problems []Problem
	for _, p := range a.problems {
		if p.Config {
			problems = append(problems, p)
		}
	}
	return c, problems
}

// value is the value of a key, "" where it is absent.
func (c *Config) value(key string) string {
	if c == nil {
		return ""
	}
	return c.values[key]
}
