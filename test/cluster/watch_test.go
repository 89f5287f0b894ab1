package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// watcher holds a watch on a server's objects open for the whole test. What it was
// told has to add up to what a list says in the end, without a 410 on the way.
type watcher struct {
	server *server

	mu       sync.Mutex
	versions map[string]string // of the objects that are there
	last     uint64
	values   map[string]bool // each object and value that it was told, "object value"
	faults   []string
}

// list begins with what is there.
func (w *watcher) list(ctx context.Context) error {
	versions, last, err := w.server.list(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions, w.last = versions, last
	return nil
}

// follow watches until ctx ends. A connection that breaks is resumed.
func (w *watcher) follow(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		path := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&resourceVersion=%d", objects, w.last)
		w.mu.Unlock()
		if err := w.watch(ctx, path); errors.Is(err, errExpired) {
			_ = w.list(ctx) // as clients do; the fault is recorded
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

var errExpired = errors.New("410")

func (w *watcher) watch(ctx context.Context, path string) error {
	resp, err := w.server.request(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		if resp.StatusCode < 500 {
			w.fault("the watch is answered %d %s", resp.StatusCode, text)
		}
		return fmt.Errorf("%d", resp.StatusCode)
	}
	decoder := json.NewDecoder(resp.Body)
	for {
		var event struct {
			Type   string `json:"type"`
			Object struct {
				object
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			w.fault("the watch at version %d ends with %d %s", w.last, event.Object.Code, event.Object.Message)
			return errExpired
		}
		w.take(event.Type, event.Object.object)
	}
}

// take adds an event, which has to follow from those before it.
func (w *watcher) take(kind string, o object) {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	w.mu.Lock()
	_, there := w.versions[o.Metadata.Name]
	before := w.last
	switch kind {
	case "ADDED", "MODIFIED":
		w.versions[o.Metadata.Name] = o.Metadata.ResourceVersion
	case "DELETED":
		delete(w.versions, o.Metadata.Name)
	}
	w.last = max(w.last, version)
	w.values[o.Metadata.Name+" "+o.Data["value"]] = true
	w.mu.Unlock()
	switch {
	case err != nil:
		w.fault("%s %s has the version %q", kind, o.Metadata.Name, o.Metadata.ResourceVersion)
	// An object that was deleted and made again while the server was cut off is told
	// as both; the deletion then has the version before that of the new object.
	case version < before, version == before && (kind == "ADDED" || kind == "MODIFIED"):
		w.fault("%s %s at %d comes after %d", kind, o.Metadata.Name, version, before)
	case kind == "ADDED" && there, kind == "MODIFIED" && !there, kind == "DELETED" && !there:
		w.fault("%s %s at %d, but the object was there: %v", kind, o.Metadata.Name, version, there)
	}
}

func (w *watcher) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// differs says where the watch has not led to these objects and versions.
func (w *watcher) differs(versions map[string]string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, version := range versions {
		if w.versions[name] != version {
			return fmt.Sprintf("%s is at %q, the watch says %q", name, version, w.versions[name])
		}
	}
	for name, version := range w.versions {
		if _, ok := versions[name]; !ok {
			return fmt.Sprintf("%s is gone, the watch says %q", name, version)
		}
	}
	return ""
}
