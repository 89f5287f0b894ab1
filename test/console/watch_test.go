package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// watcher collects what must not happen in a tab, its workers and its frames.
type watcher struct {
	mu       sync.Mutex
	origins  []string // to which requests may go
	expected []string // parts of entries that are no failure
	entries  []string
}

// event takes an event of a page, a worker or a frame. It runs in the goroutine that reads from the browser, so it
// only notes.
func (w *watcher) event(ev any) {
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		switch ev.Type {
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert:
			w.note("console.%s: %s", ev.Type, arguments(ev.Args))
		}
	case *runtime.EventExceptionThrown:
		w.note("exception: %s", exception(ev.ExceptionDetails))
	case *log.EventEntryAdded:
		if e := ev.Entry; e.Level == log.EntryLevelError || e.Level == log.EntryLevelWarning {
			w.note("log, %s of %s: %s %s", e.Level, e.Source, e.Text, e.URL)
		}
	case *audits.EventIssueAdded:
		if d := ev.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			w.note("violation of the Content-Security-Policy: %s by %s %s", d.ViolatedDirective,
				d.ContentSecurityPolicyViolationType, d.BlockedURL)
		}
	case *network.EventRequestWillBeSent:
		w.request(ev.Request.URL)
	case *network.EventWebSocketCreated:
		w.request(ev.URL)
	case *page.EventJavascriptDialogOpening:
		w.note("dialog: %s", ev.Message)
	case *inspector.EventTargetCrashed:
		w.note("the page crashed")
	}
}

// request notes a request to another origin.
func (w *watcher) request(address string) {
	u, err := url.Parse(address)
	if err != nil {
		w.note("request to %q: %v", address, err)
		return
	}
	switch u.Scheme {
	case "data", "blob", "about": // these ask nobody
		return
	}
	w.mu.Lock()
	own := slices.Contains(w.origins, u.Scheme+"://"+u.Host)
	w.mu.Unlock()
	if !own {
		w.note("request to another origin: %s", address)
	}
}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, fmt.Sprintf(format, args...))
}

// take returns the entries that were not expected, since the last call.
func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.entries
	w.entries = nil
	return slices.DeleteFunc(entries, func(entry string) bool {
		return slices.ContainsFunc(w.expected, func(part string) bool { return strings.Contains(entry, part) })
	})
}

func arguments(args []*runtime.RemoteObject) string {
	var texts []string
	for _, a := range args {
		if a.Description != "" {
			texts = append(texts, a.Description)
		} else {
			texts = append(texts, string(a.Value))
		}
	}
	return strings.Join(texts, " ")
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", d.Text, d.URL, d.LineNumber+1)
}
