package e2e

import "testing"

// TestTroubleshootingPage does what docs/guides/troubleshooting.md shows.
func TestTroubleshootingPage(t *testing.T) {
	needs(t, "root", "ip", "curl")
	r := newRack(t)
	machines := map[string]machine{
		"node-1":    r.machine(1, "52:54:00:12:34:56", "192.0.2.21"),
		"node-2":    r.machine(2, "52:54:00:12:34:57", "192.0.2.22"),
		"new-node":  r.machine(3, "52:54:00:12:34:58", "192.0.2.23"),
		"installer": r.machine(4, "52:54:00:12:34:59", "192.0.2.24"),
	}
	r.runPage(t, "troubleshooting.md", machines, 15)
}

// TestRolesPage does what docs/guides/roles.md shows.
func TestRolesPage(t *testing.T) {
	needs(t, "root", "ip")
	newRack(t).runPage(t, "roles.md", nil, 12)
}

// TestKnowBeforeBootPage does what docs/guides/know-before-boot.md shows.
func TestKnowBeforeBootPage(t *testing.T) {
	needs(t, "root", "ip")
	newRack(t).runPage(t, "know-before-boot.md", nil, 12)
}
