package cli

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// What is known of the firewall of this machine.
const (
	firewallOpen    = "no rule drops incoming packets"
	firewallFilters = "it drops or rejects some incoming packets: allow UDP 67, 69 and 4011, and the TCP port of plain HTTP"
	firewallUnknown = "unknown: neither nft nor iptables is installed, or may be run"
)

// firewall returns what is known of the firewall: nft shows all rules of today's kernels, and iptables those of older
// programs.
func firewall(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	known := firewallUnknown
	for _, argv := range [][]string{{"nft", "list", "ruleset"}, {"iptables", "-S", "INPUT"}} {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err != nil {
			continue
		}
		if known = firewallOpen; filters(string(out)) {
			return firewallFilters
		}
	}
	return known
}

// filters reports whether rules of nft or iptables drop or reject incoming packets.
func filters(rules string) bool {
	isInput := false
	for line := range strings.Lines(rules) {
		line = strings.ToLower(strings.TrimSpace(line))
		switch {
		case strings.HasPrefix(line, "type "): // of a chain of nft
			isInput = strings.Contains(line, "hook input")
		case strings.HasPrefix(line, "chain "):
			isInput = false
		}
		isOfInput := isInput || strings.HasPrefix(line, "-a input ") || strings.HasPrefix(line, "-p input ")
		if isOfInput && (strings.Contains(line, "drop") || strings.Contains(line, "reject")) {
			return true
		}
	}
	return false
}
