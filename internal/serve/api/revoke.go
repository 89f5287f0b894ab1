package api

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// withEnd lets Shutdown end watches and uploads, whose clients begin them again, and lets
// RecheckCallers end those of a credential. It precedes the authentication, which removes the
// credential from the request.
func (s *Server) withEnd(h http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && longRunning(r, info) {
			ctx, end := context.WithCancel(r.Context())
			defer end()
			stop := context.AfterFunc(s.ctx, end)
			defer stop()
			r = r.WithContext(ctx)
			if bringsCredential(r) {
				asked := r.Clone(ctx)
				s.lasting.Store(asked, end)
				defer s.lasting.Delete(asked)
			}
		}
		h.ServeHTTP(w, r)
	})
}

// RecheckCallers ends the watches and uploads whose credential is not valid any more.
// Call it when tokens or the CAs of client certificates have changed.
func (s *Server) RecheckCallers() {
	s.lasting.Range(func(r, end any) bool {
		if _, ok, err := s.guard.AuthenticateRequest(r.(*http.Request)); err != nil || !ok {
			end.(context.CancelFunc)()
		}
		return true
	})
}
