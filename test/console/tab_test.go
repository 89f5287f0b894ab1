package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/testkit"
	"glowplug/test/launch"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a tab waits for what a page is to show.
const patience = 10 * time.Second

// tab is a tab of the browser with cookies and storage of its own.
type tab struct {
	t         *testing.T
	ctx       context.Context
	origin    string
	watch     *watcher
	following *sync.WaitGroup
}

// in returns the tab for a subtest.
func (tab *tab) in(t *testing.T) *tab {
	sub := *tab
	sub.t = t
	return &sub
}

// browser opens a tab for the pages of an origin, such as a server's admin or secure. The test fails if anything
// happens in it that a user's browser must not report.
func browser(t *testing.T, origin string) *tab {
	t.Helper()
	needs(t)
	w := &watcher{origins: []string{origin}}
	proxy := outside(t, w)
	tab := newTab(t, theBrowser, origin, w, chromedp.WithNewBrowserContext(func(p *target.CreateBrowserContextParams) {
		p.ProxyServer = proxy
	}))
	tab.follow()
	return tab
}

// sibling opens a further tab that shares cookies, storage, workers and the watcher with this one.
func (tab *tab) sibling() *tab {
	tab.t.Helper()
	return newTab(tab.t, tab.ctx, tab.origin, tab.watch)
}

func newTab(t *testing.T, parent context.Context, origin string, w *watcher, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(w.event))...)
	tab := &tab{t: t, ctx: ctx, origin: origin, watch: w, following: &sync.WaitGroup{}}
	t.Cleanup(func() {
		tab.check()
		cancel()
		tab.following.Wait()
	})
	tab.desktop()
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		t.Fatalf("watching the tab: %v", err)
	}
	return tab
}

// expect says that entries with this text are no failure: a test of a refused request expects its status, say.
func (tab *tab) expect(part string) {
	tab.watch.mu.Lock()
	defer tab.watch.mu.Unlock()
	tab.watch.expected = append(tab.watch.expected, part)
}

// trust allows requests to another origin.
func (tab *tab) trust(origin string) {
	tab.watch.mu.Lock()
	defer tab.watch.mu.Unlock()
	tab.watch.origins = append(tab.watch.origins, origin)
}

// reports waits until the watcher has entries with these parts, and lets the test pass with them.
func (tab *tab) reports(parts ...string) {
	tab.t.Helper()
	all := ""
	defer func() {
		if tab.t.Failed() {
			tab.t.Logf("the watcher says:\n%s", all)
		}
	}()
	testkit.Within(tab.t, patience, fmt.Sprintf("the watcher reports %q", parts), func() bool {
		for _, entry := range tab.watch.take() {
			all += entry + "\n"
		}
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(all, part) })
	})
	tab.expect("") // what else comes of these
}

// check fails the test for each entry so far.
func (tab *tab) check() {
	tab.t.Helper()
	// The browser sends what happened before it answers.
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	_, _ = chromedp.Run(ctx, chromedp.Evaluate[int]("1"))
	for _, entry := range tab.watch.take() {
		tab.t.Errorf("in the browser: %s", entry)
	}
}

// do runs steps, within patience.
func (tab *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	err := chromedp.Do(tab.ctx) // the tab lives as long as the context of its first action
	if err == nil {
		ctx, cancel := context.WithTimeout(tab.ctx, patience)
		defer cancel()
		err = chromedp.Do(ctx, steps...)
	}
	if err != nil {
		tab.t.Fatalf("%s: %v\n%s", what, err, tab.shown())
	}
}

// open shows a path of the origin, or a URL, and waits until it is loaded.
func (tab *tab) open(path string) {
	tab.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = tab.origin + path
	}
	tab.do("opening "+path, chromedp.Navigate(path))
}

// text is what an element shows.
func (tab *tab) text(selector string) string {
	tab.t.Helper()
	tab.waitFor(selector, "")
	return evaluate[string](tab, fmt.Sprintf("document.querySelector(%s).innerText", quote(selector)))
}

// waitFor waits until an element is there that shows a text, of which "" is any.
func (tab *tab) waitFor(selector, text string) {
	tab.t.Helper()
	tab.waitUntil(fmt.Sprintf("%s shows %q", selector, text),
		fmt.Sprintf("[...document.querySelectorAll(%s)].some(e => (e.innerText ?? e.textContent).includes(%s))",
			quote(selector), quote(text)))
}

// waitGone waits until no element of a selector is there.
func (tab *tab) waitGone(selector string) {
	tab.t.Helper()
	tab.waitUntil(selector+" is gone", "!document.querySelector("+quote(selector)+")")
}

// waitUntil waits until a JavaScript expression is true. The page itself looks, so it is not asked again and again;
// chromedp's own Poll makes a function of a string, which the Content-Security-Policy refuses.
func (tab *tab) waitUntil(what, expression string) {
	tab.t.Helper()
	const poll = `new Promise(found => {
		const end = performance.now() + %d
		const holds = () => { try { return %s } catch { return false } } // a page that is half loaded
		const look = () => holds() ? found(true) : performance.now() > end ? found(false) : setTimeout(look, 20)
		look()
	})`
	deadline := time.Now().Add(patience)
	for left := patience; left > 0; left = time.Until(deadline) {
		ctx, cancel := context.WithTimeout(tab.ctx, left+time.Second)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(poll, left.Milliseconds(), expression),
			chromedp.EvalAwaitPromise))
		cancel()
		if ok {
			return
		}
		if err != nil && !navigated(err) {
			tab.t.Fatalf("waiting until %s: %v", what, err)
		}
	}
	tab.t.Fatalf("not within %s: %s\nthe page shows:\n%s", patience, what, tab.shown())
}

// navigated reports whether an error says that the page went away during a wait.
func navigated(err error) bool {
	for _, part := range []string{"navigated or closed", "Execution context was destroyed", "Cannot find context",
		"Promise was collected"} {
		if strings.Contains(err.Error(), part) {
			return true
		}
	}
	return false
}

// shown is what the page shows, for messages.
func (tab *tab) shown() string {
	ctx, cancel := context.WithTimeout(tab.ctx, time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body?.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// click clicks with the mouse on the first visible element of a selector, once there is one. A live page may replace
// the element meanwhile, then the click is at the new one.
func (tab *tab) click(selector string) {
	tab.t.Helper()
	visible := fmt.Sprintf("[...document.querySelectorAll(%s)].find(e => e.checkVisibility())", quote(selector))
	for deadline := time.Now().Add(patience); ; {
		tab.waitUntil(selector+" is visible", "!!"+visible)
		ctx, cancel := context.WithTimeout(tab.ctx, patience)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.JSPath(visible)))
		cancel()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") || time.Now().After(deadline) {
			tab.t.Fatalf("clicking %s: %v\n%s", selector, err, tab.shown())
		}
	}
}

// fill replaces the content of a field as a user does who selects all and types, or chooses from a list.
func (tab *tab) fill(selector, value string) {
	tab.t.Helper()
	tab.waitFor(selector, "")
	const script = `(e => {
		e.focus()
		if (e.tagName != "SELECT") { e.select(); return false }
		e.value = %[2]s
		e.dispatchEvent(new Event("input", {bubbles: true}))
		e.dispatchEvent(new Event("change", {bubbles: true}))
		return true
	})(document.querySelector(%[1]s))`
	if evaluate[bool](tab, fmt.Sprintf(script, quote(selector), quote(value))) {
		return
	}
	if value == "" {
		tab.press(kb.Delete)
		return
	}
	if _, err := chromedp.Call(tab.ctx, input.InsertText, input.InsertTextParams{Text: value}); err != nil {
		tab.t.Fatalf("filling %s: %v", selector, err)
	}
}

// press sends keys to the element that has the focus: letters, or those of chromedp's package kb.
func (tab *tab) press(keys string) {
	tab.t.Helper()
	tab.do("pressing "+keys, chromedp.KeyEvent(keys))
}

// evaluate returns the value of a JavaScript expression; a promise is awaited.
func evaluate[T any](tab *tab, expression string) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("%s: %v", launch.Tail(expression, 200), err)
	}
	return value
}

// quote writes a text as JavaScript does.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // no string has that
	}
	return string(quoted)
}
