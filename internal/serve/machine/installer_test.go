package machine

import (
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
)

// TestInstallerConfig: the live system of a host that is to be installed gets a config that installs, and nothing of
// the host's own; that does not count as served. The URL in it is that of the host's config, with what identifies the
// boot.
func TestInstallerConfig(t *testing.T) {
	const query = "?install=true&mac=52-54-00-00-00-01&token=x"
	for _, c := range []struct {
		name, device string
		decision     decide.ConfigDecision
		status       int
		body         string
	}{
		{"a disk", "/dev/sda", found(testConfig), 200, `ignition?mac=52-54-00-00-00-01&token=x\"`},
		{"no disk any more", "", found(testConfig), 403, "there is no disk to install config g10/coreos-builder on"},
		{"an unknown machine", "/dev/sda", decide.ConfigDecision{Config: testConfig}, 403, "there is no disk"},
		{"a refusal", "/dev/sda", failing(fault.Refused, "not yours"), 403, "not yours\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.decision, overHTTPS, func(o *Options) { o.Boot = &Boot{} })
			r.decider.device = c.device
			status, body, _ := r.do(t, http.MethodGet, PathIgnition+query, "Accept", "*/*")
			body = strings.ReplaceAll(body, `\u0026`, "&")
			if status != c.status || !strings.Contains(body, c.body) || strings.Contains(body, testBody) {
				t.Errorf("got %d %s", status, body)
			}
			if len(r.journal.served) > 0 {
				t.Errorf("it counts as served: %v", r.journal.served)
			}
			if last := r.decider.last; last.Reveal {
				t.Error("the content of the config was asked for")
			}
		})
	}
}
