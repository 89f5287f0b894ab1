package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/image/imagetest"
	"glowplug/internal/testkit"
)

// live is there once the page is told of changes.
const live = `#live[data-state="live"]`

// count is the number that the fleet page shows of the hosts that are provisioned.
const count = `[data-count="d"]`

// TestPageThatSlept: a page that was frozen while machines booted shows all of it within two seconds.
func TestPageThatSlept(t *testing.T) {
	s := rack(t)
	tab := openFleet(t, s)
	tab.freeze()
	for i := hostsOfRack - 4; i < hostsOfRack; i++ {
		s.boots(fmt.Sprintf("192.0.2.%d", 100+i), true)
	}
	tab.thaw()
	began := time.Now()
	tab.waitFor(count, fmt.Sprint(bootedOfRack+4))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the page is current after %s", took)
	}
	tab.isStillTheSame()
}

// TestPageOverARestart: a page says that it lost the server, and shows what happens after the restart.
func TestPageOverARestart(t *testing.T) {
	s := rack(t)
	tab := openFleet(t, s)
	tab.expect("net::ERR_")
	s.kill()
	tab.waitFor(`#live[data-state="lost"]`, "connection lost")
	s.restart()
	began := time.Now()
	tab.waitFor(live, "")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the page is live again after %s", took)
	}
	before := tab.text(count)
	s.boots(fmt.Sprintf("192.0.2.%d", 100+hostsOfRack-1), true)
	tab.waitUntil("the page counts the boot", fmt.Sprintf("document.querySelector('%s').innerText != '%s'", count, before))
	tab.isStillTheSame()
}

// openFleet opens the fleet page, which is live and counts the machines that have booted.
func openFleet(t *testing.T, s *server) *tab {
	t.Helper()
	tab := browser(t, s.admin)
	tab.open("/console/")
	tab.waitFor(live, "")
	tab.waitFor(count, fmt.Sprint(bootedOfRack))
	evaluate[bool](tab, "window.isTheSame = true")
	return tab
}

// isStillTheSame fails the test if the page was loaded again.
func (tab *tab) isStillTheSame() {
	tab.t.Helper()
	if !evaluate[bool](tab, "window.isTheSame ?? false") {
		tab.t.Error("the page was loaded again")
	}
}

// TestLateBoot: the page of a host whose machine waits longer than its peers did says so and where to look, without an
// event or a reload, and its fleet names the machine that is left. The machine goes on, and is not late any more.
func TestLateBoot(t *testing.T) {
	isos := t.TempDir()
	if err := os.WriteFile(filepath.Join(isos, "linux.iso"), imagetest.ISO("LINUX", 1<<20, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--trusted-proxies", "127.0.0.0/8", "--iso-dir", isos, "--iscsi-listen", freeAddress(t), "--neighbors", "off")
	objects := `apiVersion: v1
kind: ISCSICdrom
metadata: {name: linux, namespace: rack-a}
spec: {isoFile: linux.iso, defaultKernelArgs: false}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: all, namespace: rack-a}
spec: {type: ignition, format: ignition, config: '{"ignition": {"version": "3.4.0"}}', selector: {default: true}}
`
	for i := range 4 {
		objects += hostObject("rack-a", i, "worker", ", image: linux")
	}
	s.apply(objects)
	testkit.Until(t, "the image is served", func() bool {
		_, script := s.machine(http.MethodGet, "192.0.2.100", "/ipxe")
		return strings.Contains(script, "sanboot")
	})
	for i := range 3 {
		s.boots(fmt.Sprintf("192.0.2.%d", 100+i), true)
	}
	s.machine(http.MethodGet, "192.0.2.103", "/ipxe")
	tab := browser(t, s.admin)
	tab.open("/console/?state=Booting")
	tab.waitFor(`.c[data-name="node-3"]`, "")
	tab.click(".c")
	tab.waitFor("#head", "The machine has waited for the step Config")
	tab.waitFor("#attention", "Nothing needs attention.")
	evaluate[bool](tab, "window.isTheSame = true")
	tab.waitFor("#head .problem", "It has not asked for its config: look at its console")
	tab.waitFor("#attention", "No warning is raised yet")
	tab.waitFor("#boot .failing", "waits")
	tab.axe()
	s.machine(http.MethodGet, "192.0.2.103", "/api/v1/ignition")
	tab.waitFor("#head .lead", "The machine has waited for the step BootComplete")
	tab.isStillTheSame()
}
