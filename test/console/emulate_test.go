package console

import (
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// The sizes of a page in a window, and on a phone.
const (
	windowWidth, windowHeight = 1280, 800
	phoneWidth, phoneHeight   = 390, 844
)

// scheme is what the user's system prefers: light or dark.
func (tab *tab) scheme(name string) {
	tab.t.Helper()
	_, err := chromedp.Call(tab.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		tab.t.Fatalf("preferring %s: %v", name, err)
	}
}

// phone makes the tab a phone's, and desktop makes it a window again.
func (tab *tab) phone() {
	tab.t.Helper()
	tab.do("emulating a phone", chromedp.EmulateViewport(phoneWidth, phoneHeight, chromedp.EmulateMobile, chromedp.EmulateTouch,
		chromedp.EmulateScale(2)))
}

func (tab *tab) desktop() {
	tab.t.Helper()
	tab.do("emulating a window", chromedp.EmulateViewport(windowWidth, windowHeight))
}

// freeze puts the page to sleep as browsers do with tabs that nobody looks at, and thaw wakes it.
func (tab *tab) freeze() { tab.t.Helper(); tab.lifecycle(page.SetWebLifecycleStateStateFrozen, false) }
func (tab *tab) thaw()   { tab.t.Helper(); tab.lifecycle(page.SetWebLifecycleStateStateActive, true) }

// lifecycle changes the state of the page. An active page stays hidden, as one that was frozen is, without the focus.
func (tab *tab) lifecycle(state page.SetWebLifecycleStateState, focus bool) {
	tab.t.Helper()
	_, err := chromedp.Call(tab.ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: focus})
	if err == nil {
		_, err = chromedp.Call(tab.ctx, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state})
	}
	if err != nil {
		tab.t.Fatalf("making the page %s: %v", state, err)
	}
}

// screenshot writes the page, light, dark and on a phone, into the folder that GLOWPLUG_SCREENSHOTS names, which
// make screenshots sets.
func (tab *tab) screenshot(name string) {
	tab.t.Helper()
	dir := os.Getenv("GLOWPLUG_SCREENSHOTS")
	if dir == "" {
		return
	}
	tab.scheme("light")
	tab.picture(filepath.Join(dir, "console-"+name+".png"))
	tab.scheme("dark")
	tab.picture(filepath.Join(dir, "console-"+name+"-dark.png"))
	tab.scheme("light")
	tab.phone()
	tab.picture(filepath.Join(dir, "console-"+name+"-phone.png"))
	tab.desktop()
}

func (tab *tab) picture(path string) {
	tab.t.Helper()
	// Two frames later the page is drawn as it was asked for.
	evaluate[bool](tab, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
	png, err := chromedp.Run(tab.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		tab.t.Fatalf("the screenshot %s: %v", path, err)
	}
}
