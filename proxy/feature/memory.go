package feature

// Memory is what the features of one Ingress have learned while serving: buckets of rate limits, answers of an
// authentication service. It outlives the drafts, so that an edit of the Ingress lets nobody start afresh.
type Memory struct {
	before, now map[string]any
}

// next is the memory of the draft that follows.
func (m *Memory) next() *Memory {
	n := &Memory{now: make(map[string]any)}
	if m != nil {
		n.before = m.now
	}
	return n
}

// keep remembers what was not asked for too: a draft that denies asks for little.
func (m *Memory) keep() {
	for key, value := range m.before {
		if _, ok := m.now[key]; !ok {
			m.now[key] = value
		}
	}
}

// Recall returns what was remembered under a key, else what make returns, which is remembered. What a draft does not ask
// for is forgotten. The key tells all that the value depends on: another limit is another key.
func Recall[T any](d *Draft, key string, make func() T) T {
	if d.memory == nil {
		d.memory = (*Memory)(nil).next()
	}
	m := d.memory
	for _, known := range []map[string]any{m.now, m.before} {
		if v, ok := known[key].(T); ok {
			m.now[key] = v
			return v
		}
	}
	v := make()
	m.now[key] = v
	return v
}
