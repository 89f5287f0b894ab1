package api

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// lasting are the requests under way that may last for hours, watches and uploads,
// with what ends each. There are no more of them than requests that are served.
type lasting struct {
	mu       sync.Mutex
	requests map[*http.Request]context.CancelFunc
}

func (l *lasting) add(r *http.Request, end context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil {
		l.requests = map[*http.Request]context.CancelFunc{}
	}
	l.requests[r] = end
}

func (l *lasting) remove(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.requests, r)
}

func (l *lasting) all() map[*http.Request]context.CancelFunc {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.requests)
}

// withRevocation lets RecheckCallers end watches and uploads. It stands before the
// authentication, which takes the credential out of a request.
func (s *Server) withRevocation(h http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && longRunning(r, info) && bringsCredential(r) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			r = r.WithContext(ctx)
			asked := *r
			asked.Header = r.Header.Clone()
			s.lasting.add(&asked, cancel)
			defer s.lasting.remove(&asked)
		}
		h.ServeHTTP(w, r)
	})
}

// RecheckCallers ends the watches and uploads whose credential is not valid any more.
// Call it when tokens or the CAs of client certificates have changed.
func (s *Server) RecheckCallers() {
	for r, end := range s.lasting.all() {
		if _, ok, err := s.guard.AuthenticateRequest(r); err != nil || !ok {
			end()
		}
	}
}
