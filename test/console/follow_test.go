package console

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// apart are what the browser runs for a page outside of it: workers, and frames of other sites.
var apart = []string{"shared_worker", "service_worker", "worker", "iframe"}

// follow watches what runs apart from the tab's pages.
func (tab *tab) follow() {
	own := chromedp.FromContext(tab.ctx).BrowserContextID
	err := chromedp.ListenBrowser(tab.ctx, func(ev any) {
		made, ok := ev.(*target.EventTargetCreated)
		if ok && slices.Contains(apart, made.TargetInfo.Type) && made.TargetInfo.BrowserContextID == own {
			tab.following.Go(func() { tab.watchApart(made.TargetInfo.TargetID) })
		}
	})
	if err != nil {
		tab.t.Fatalf("watching its workers: %v", err)
	}
}

// watchApart watches one of them until the end of the test. A shared worker ends with its last page, and the next page
// starts it again; one that is watched then waits for a word of the debugger.
func (tab *tab) watchApart(id target.ID) {
	restarted := make(chan struct{}, 1)
	ctx, cancel := chromedp.NewContext(tab.ctx, chromedp.WithTargetID(id), chromedp.WithDetachOnCancel(),
		chromedp.WithListener(func(ev any) {
			switch ev.(type) {
			case *inspector.EventTargetCrashed: // so a worker's end is called
			case *inspector.EventTargetReloadedAfterCrash:
				select {
				case restarted <- struct{}{}:
				default:
				}
			default:
				tab.watch.event(ev)
			}
		}))
	defer cancel()
	if chromedp.Do(ctx) != nil {
		return // it has ended already
	}
	for {
		select {
		case <-restarted:
			tab.release(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// release lets a worker begin.
func (tab *tab) release(worker context.Context) {
	if _, err := chromedp.Call(worker, runtime.RunIfWaitingForDebugger, cdp.Empty{}); err != nil && worker.Err() == nil {
		tab.watch.note("a worker that is watched did not start: %v", err)
	}
}
