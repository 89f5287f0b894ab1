package api

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// watched hides what is confidential in the events of a watch.
func (s *secrecy) watched(ctx context.Context, w watch.Interface) watch.Interface {
	if who, ok := request.UserFrom(ctx); s == nil || !ok || isPrivileged(who) {
		return w
	}
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer w.Stop()
		s.pass(ctx, w.ResultChan(), events, out.StopChan())
	}()
	return out
}

// pass passes events on without what is confidential in them. The library's watch.Filter would leave a goroutine
// behind if its reader stops while an event waits. This ends with the request as well: the library does not stop the
// watch of a request that it refuses.
func (s *secrecy) pass(ctx context.Context, from <-chan watch.Event, to chan<- watch.Event, stop <-chan struct{}) {
	for {
		select {
		case event, ok := <-from:
			if !ok {
				return
			}
			event.Object = s.redact(ctx, event.Object)
			select {
			case to <- event:
			case <-stop:
				return
			case <-ctx.Done():
				return
			}
		case <-stop:
			return
		}
	}
}
