package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// durableWithin is the promise of docs/internals/reliability.md for what decides the next boot: kill -9
// can lose only what was served within the last second.
const durableWithin = time.Second

// TestOnceSurvivesKill kills the server once the state of a machine that was given its config
// has to be durable: the machine must not install again.
func TestOnceSurvivesKill(t *testing.T) {
	needs(t, "root", "ip", "curl")
	r := newRack(t)
	objects := `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: router, namespace: rack}
spec: {external: {portal: 192.168.10.1, iqn: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: all, namespace: rack}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"}}'
  selector: {default: true}
`
	const machines = 4
	var all []machine
	for n := range machines {
		mac, addr := fmt.Sprintf("52:54:00:00:01:%02x", n), fmt.Sprintf("192.0.2.%d", 20+n)
		objects += fmt.Sprintf("---\napiVersion: v1\nkind: BareMetalHost\nmetadata: {name: h%d, namespace: rack}\nspec: "+
			"{bootMACAddress: %q, ip: %s, image: router}\n", n, mac, addr)
		all = append(all, r.machine(n, mac, addr))
	}
	r.apply(objects)
	boots := func(m machine, want string) {
		t.Helper()
		if status, body := m.curl("/ipxe"); status != "200" || !strings.Contains(body, "\n"+want) {
			t.Fatalf("%s: want %s:\n%s", status, want, body)
		}
	}
	for _, m := range all {
		boots(m, "sanboot ")
		boots(m, "sanboot ") // it asks again in the same boot
		if status, body := m.curl("/api/v1/ignition"); status != "200" {
			t.Fatalf("%s: %s", status, body)
		}
		time.Sleep(durableWithin)
		r.server.kill()
		r.server.restart()
		boots(m, "exit")
		boots(m, "exit")
	}
	testkit.Until(t, "all are provisioned after two boots", func() bool {
		for n := range machines {
			if host := fmt.Sprint("h", n); r.status(host, "state") != "Provisioned" || r.status(host, "bootCount") != "2" {
				return false
			}
		}
		return true
	})
	if status, body := all[0].curl("/api/v1/boot-complete", "-X", "POST"); status != "200" {
		t.Errorf("%s: %s", status, body)
	}
	r.kubectl("annotate", "bmh", "-n", "rack", "h0", "glowplug.dev/rearm=1")
	boots(all[0], "sanboot ")
	boots(all[1], "exit")
}
