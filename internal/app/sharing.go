package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/backend"
	"glowplug/internal/credentials"
)

// shareInterval is how often the record of the credentials in the store is read.
const shareInterval = 2 * time.Second

// sharing lets the servers of an external store accept each other's admin tokens.
type sharing struct {
	backend *backend.Backend
	creds   *credentials.Credentials
	log     *slog.Logger
	recheck func() // the callers, after other tokens are valid
	server  string // the id of this server

	mu      sync.Mutex
	problem error // why a credential of the other servers is refused here; nil: it is not
}

// newSharing returns the sharing of credentials; nil where no other server has this store.
func newSharing(a *App) (*sharing, error) {
	if a.backend.Exclusive() {
		return nil, nil
	}
	id, err := a.backend.Server()
	return &sharing{
		backend: a.backend, creds: a.creds, log: a.log, recheck: func() { a.api.RecheckCallers() }, server: id,
		problem: errors.New("the store has not been asked yet"),
	}, err
}

// run takes over the tokens of the other servers, and records the own one, until ctx ends.
func (s *sharing) run(ctx context.Context) {
	wait.UntilWithContext(ctx, s.share, shareInterval)
}

// share takes over the tokens of the other servers once. While the store does not answer,
// those that it had before are valid.
func (s *sharing) share(ctx context.Context) {
	err := s.backend.Share(ctx, func(record []byte) ([]byte, error) {
		next, changed, err := s.creds.Merge(s.server, record)
		if changed {
			s.recheck()
		}
		return next, err
	})
	var problem *credentials.SharingError
	switch {
	case errors.As(err, &problem):
		if s.note(problem) {
			s.log.Error(problem.Problem, "hint", problem.Remedy)
		}
	case err == nil:
		s.note(nil)
	default:
		s.log.Debug("the credentials are not shared with the other servers", "error", err)
	}
}

// note records the result and reports whether it is another one.
func (s *sharing) note(problem error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = problem == nil != (s.problem == nil) || problem != nil && problem.Error() != s.problem.Error()
	s.problem = problem
	return changed
}

// check is a part of /readyz.
func (s *sharing) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}
