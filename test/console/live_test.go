package console

import (
	"fmt"
	"testing"
	"time"
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
