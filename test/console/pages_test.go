package console

import (
	"fmt"
	"testing"
	"time"
)

// pages are the pages that a user can open, with what they show.
var pages = []struct{ name, path, selector, text string }{
	{"fleet", "/console/", "h1", "Fleet"},
	{"fleet-by-label", "/console/?group=row&state=attention", "h1", "Fleet"},
	{"host", "/console/hosts/rack-a/node-0", "h1", "node-0"},
	{"host-change", "/console/hosts/rack-a/node-0/labels", "main", "node-0"},
	{"unknown", "/console/unknown", "main", "52:54:00:aa:bb:cc"},
	{"adopt", "/console/unknown/52-54-00-aa-bb-cc/adopt", "main", "52-54-00-aa-bb-cc"},
	{"find", "/console/find?q=node-1", "main", "node-1"},
	{"configs", "/console/configs", "main", "rack-b/db"},
	{"config", "/console/configs/rack-b/db", "#compile-state", "1 error"},
	{"config-new", "/console/configs/new", "h1", "New config"},
	{"config-rendered", "/console/configs/rack-a/worker/rendered", "pre", "podman.socket"},
	{"config-delete", "/console/configs/rack-a/worker/delete", "pre", "no config any more"},
	{"boots", "/console/boots", "main", "node-0"},
	{"events", "/console/events", "main", "node-0"},
	{"server", "/console/server", "main", "ready"},
	{"images", "/console/images", "#images", "rack-b/coreos"},
	{"images-none", "/console/images?state=Ready&ns=none", "#images", "hidden: clear"},
	{"image", "/console/images/rack-b/coreos", "h1", "coreos"},
	{"image-new", "/console/images/new", "h1", "New image"},
	{"image-delete", "/console/images/rack-b/coreos/delete", "h1", "rack-b/coreos"},
}

// TestPages: each page loads without an entry in the console, is live, can be read by everybody, light and dark, and
// fits a phone. make screenshots takes their pictures here.
func TestPages(t *testing.T) {
	s := rack(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			tab := browser(t, s.admin)
			began := time.Now()
			tab.open(p.path)
			tab.waitFor(p.selector, p.text)
			tab.waitFor(live, "")
			t.Logf("shown and live after %s", time.Since(began).Round(time.Millisecond))
			tab.axe()
			tab.screenshot(p.name)
			tab.phone()
			if width := evaluate[int](tab, "document.documentElement.scrollWidth"); width > phoneWidth {
				t.Errorf("on a phone, %d wide, the page is %d wide and scrolls to the side", phoneWidth, width)
			}
		})
	}
}

// TestNavigation: each link at the top of a page leads to a page, and from the boots to that of one boot.
func TestNavigation(t *testing.T) {
	s := rack(t)
	tab := browser(t, s.admin)
	tab.open("/console/")
	links := evaluate[[]string](tab, "[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
	for _, link := range append(links, "/console/boots") {
		tab.click(fmt.Sprintf("nav a[href=%q]", link))
		tab.waitUntil(link+" is shown", fmt.Sprintf("location.pathname == %q && !!document.querySelector('%s')", link, live))
	}
	tab.click("main a[href^='/console/boots/rack-a/']")
	tab.waitFor(live, "")
	tab.waitFor("main", "BootComplete")
	tab.axe()
	tab.screenshot("boot")
}

// TestSignInWithAToken: over HTTPS a page leads to the sign-in page, which can be read by everybody, refuses a token
// that is not valid, and leads on with one that is.
func TestSignInWithAToken(t *testing.T) {
	s := start(t)
	tab := browser(t, s.secure)
	tab.expect("status of 401") // of the page for people who are not signed in
	tab.open("/console/")
	tab.waitFor("h1", "Sign in")
	tab.axe()
	tab.screenshot("sign-in")
	tab.fill("input[name=token]", "wrong")
	tab.click("#sign-in button:not([type])")
	tab.waitFor("[role=alert]", "")
	tab.fill("input[name=token]", s.token("admin"))
	tab.click("#sign-in button:not([type])")
	tab.waitFor("h1", "Fleet")
}
