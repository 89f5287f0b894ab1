package cli

import "testing"

// TestAskedRoles has the parameters of rule 0 of docs/reference/matching.md.
func TestAskedRoles(t *testing.T) {
	for _, c := range []struct{ name, label, want string }{
		{"builder", "", "?role=builder"},
		{"builder-target", "", "?role=builder or ?role=builder-target"},
		{"node-7", "worker", "?role=node-7 or ?role=worker"},
		{"worker-target", "worker", "?role=worker or ?role=worker-target"},
	} {
		if got := askedRoles(c.name, c.label); got != c.want {
			t.Errorf("%s, role %q: %s; want %s", c.name, c.label, got, c.want)
		}
	}
}
