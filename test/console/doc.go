// Package console tests the web console of the built program in a real browser, Debian's Chromium. It runs where
// TEST_CONSOLE is set; make test-console sets it.
//
// A test starts a server and opens a tab. The tab watches what happens in it, and the test fails on each entry of
// the console, each violation of the Content-Security-Policy, each exception and each request to another origin,
// unless it said that it expects them:
//
//	s := start(t)
//	tab := browser(t, s.admin)
//	tab.open("/console/")
//	tab.waitFor("h1", "Fleet")
//	tab.click("a[href='/console/images']")
//	tab.axe()
package console
