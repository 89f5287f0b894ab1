package api

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// watched hides what is confidential in the events of a watch.
func (s *secrecy) watched(ctx context.Context, w watch.Interface) watch.Interface {
	if who, ok := request.UserFrom(ctx); s == nil || !ok || isPrivileged(who) {
		return w
	}
	out := &redactedWatch{Interface: w, events: make(chan watch.Event), ended: make(chan struct{})}
	go out.run(ctx, func(event watch.Event) watch.Event {
		event.Object = s.redact(ctx, event.Object)
		return event
	})
	return out
}

// redactedWatch passes on the events of another watch. The library's watch.Filter would leave a goroutine
// behind if its reader stops while an event waits.
type redactedWatch struct {
	watch.Interface
	events chan watch.Event
	ended  chan struct{}
	once   sync.Once
}

// run ends with the request as well: the library does not stop the watch of a request that it refuses.
func (w *redactedWatch) run(ctx context.Context, change func(watch.Event) watch.Event) {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		select {
		case w.events <- change(event):
		case <-w.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (w *redactedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *redactedWatch) Stop() {
	w.once.Do(func() { close(w.ended) })
	w.Interface.Stop()
}
