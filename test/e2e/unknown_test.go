package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestUnknownMachines: 200 machines that nobody knows are 200 objects, which outlast a kill,
// and one of them goes with the host that adopt makes of it.
func TestUnknownMachines(t *testing.T) {
	needs(t)
	s := start(t, "--trusted-proxies", "127.0.0.0/8")
	for i := range 200 {
		path := fmt.Sprintf("/ipxe?mac=52-54-00-00-01-%02x&serial=S%d&product=R640", i, i)
		if a := get(t, s.url(path), "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i+1)); a.status != 200 {
			t.Fatalf("%d: %s", a.status, a.body)
		}
	}
	if a := get(t, s.url("/api/v1/ignition"), "X-Forwarded-For", "192.0.2.7"); a.status != 404 {
		t.Errorf("%d: %s", a.status, a.body)
	}
	lines := func() int { return strings.Count(s.kubectl("", "get", "um", "-o", "json"), `"product": "R640"`) }
	testkit.Until(t, "each machine is an object", func() bool { return lines() == 200 })
	testkit.Until(t, "a request without a hardware address joins its machine", func() bool {
		return strings.Contains(s.kubectl("", "get", "um", "52-54-00-00-01-06", "-o", "wide"), "ipxe,ignition")
	})
	testkit.Until(t, "describe shows its events", func() bool {
		return strings.Contains(s.kubectl("", "describe", "um", "52-54-00-00-01-06"), "UnknownHost")
	})
	s.kill()
	s.restart()
	if n := lines(); n != 200 {
		t.Errorf("%d objects after a restart", n)
	}
	out, err := exec.Command(program, "adopt", "--kubeconfig", s.kubeconfig(), "um/52-54-00-00-01-07", "-n", "rack-a",
		"--name", "node-7").CombinedOutput()
	if err != nil || string(out) != "baremetalhost/node-7 created\n" {
		t.Errorf("%v: %s", err, out)
	}
	testkit.Until(t, "it is gone", func() bool { return lines() == 199 })
	if body := string(get(t, s.admin("/metrics")).body); !strings.Contains(body, "\nglowplug_unknown_machines 199\n") {
		t.Error("the metric does not count them")
	}
}
