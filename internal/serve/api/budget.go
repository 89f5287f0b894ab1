package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"glowplug/internal/budget"
)

const (
	// bodyFactor is what a request takes in memory for each byte of its body: the
	// body itself, the object read from it, the one that is stored already, what the
	// two differ in, the compiled config, the stored value and the answer.
	bodyFactor = 16
	// smallBody is a body that is not accounted for, in bytes: the bound on requests
	// in flight bounds these.
	smallBody = 16 << 10
	// watchBytes is what a watch takes while nothing happens.
	watchBytes = 64 << 10
)

// withBudget bounds the memory of the requests under way: a request has an account,
// from which a body is taken here, and what is read in the stores. A request whose
// turn does not come is answered 429. The server's own requests are not bounded.
func withBudget(
	h http.Handler, requests, watches *budget.Budget, longRunning request.LongRunningRequestCheck,
) http.Handler {
	if requests == nil || watches == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		switch {
		case !ok || r.Context().Value(internalKey{}) != nil:
			h.ServeHTTP(w, r)
		case longRunning(r, info):
			serveWatch(h, w, r, watches)
		default:
			serveWithin(h, w, r, requests)
		}
	})
}

// serveWithin serves a request that is soon over.
func serveWithin(h http.Handler, w http.ResponseWriter, r *http.Request, requests *budget.Budget) {
	account := requests.Open()
	defer account.Close()
	body := r.ContentLength
	if body < 0 {
		body = MaxBodyBytes
	}
	if body > smallBody {
		if err := account.Hold(r.Context(), body*bodyFactor); err != nil {
			w.Header().Set("Connection", "close") // the body was not read
			fail(w, r, busy(err))
			return
		}
	}
	h.ServeHTTP(w, r.WithContext(budget.With(r.Context(), account)))
}

// serveWatch serves a request that lasts. It is ended where its client does not
// read, or has nothing to read, and others need what it holds.
func serveWatch(h http.Handler, w http.ResponseWriter, r *http.Request, watches *budget.Budget) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream := &stream{ResponseWriter: w}
	account, err := watches.OpenEndable(watchBytes, func() {
		cancel()
		stream.end()
	})
	if err != nil {
		fail(w, r, busy(err))
		return
	}
	defer account.Close()
	stream.account = account
	h.ServeHTTP(responsewriter.WrapForHTTP1Or2(stream), r.WithContext(budget.With(ctx, account)))
}

// busy is the answer to a request whose turn did not come.
func busy(err error) error {
	if errors.Is(err, budget.ErrBusy) {
		return apierrors.NewTooManyRequests(err.Error()+": come again", 1)
	}
	return apierrors.NewTimeoutError("the request ended before its turn came", 1)
}

// errEnded is what a watch that was ended gets for what it writes.
var errEnded = errors.New("the watch was ended to make room for others")

// stream is the answer to a watch. It tells the watch's account when there is
// something to write, and can be ended while a write waits for its client.
type stream struct {
	http.ResponseWriter
	account *budget.Account

	mu      sync.Mutex
	writing bool
	ended   bool
}

// Unwrap returns the writer of the connection.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes p, unless the watch was ended.
func (s *stream) Write(p []byte) (n int, err error) {
	s.during(func() { n, err = s.ResponseWriter.Write(p) }, func() { err = errEnded })
	return n, err
}

// Flush sends what was written.
func (s *stream) Flush() {
	s.during(func() { _ = http.NewResponseController(s.ResponseWriter).Flush() }, func() {})
}

func (s *stream) during(write, refuse func()) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		refuse()
		return
	}
	s.writing = true
	s.mu.Unlock()
	s.account.Busy()
	write()
	s.account.Idle()
	s.mu.Lock()
	s.writing = false
	s.mu.Unlock()
}

// end breaks off a write that is under way, and with it the connection.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.writing {
		_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now())
	}
}
