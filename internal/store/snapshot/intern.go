package snapshot

import (
	"slices"
	"strings"
)

// interner lets hosts with the same labels share one map: a map takes more room
// than all else that is known of a host. A nil interner shares nothing.
type interner struct {
	sets map[string]map[string]string
	keys []string
	key  strings.Builder
}

func newInterner() *interner { return &interner{sets: make(map[string]map[string]string)} }

// labels returns a map equal to m that must not be changed.
func (in *interner) labels(m map[string]string) map[string]string {
	if in == nil || len(m) == 0 {
		return m
	}
	in.keys = in.keys[:0]
	for k := range m {
		in.keys = append(in.keys, k)
	}
	slices.Sort(in.keys)
	in.key.Reset()
	for _, k := range in.keys {
		in.key.WriteString(k)
		in.key.WriteByte(0)
		in.key.WriteString(m[k])
		in.key.WriteByte(0)
	}
	key := in.key.String()
	if have, ok := in.sets[key]; ok {
		return have
	}
	in.sets[key] = m
	return m
}
