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
	// bodyFactor is the memory of a request in bytes for each byte of its body: the body,
	// the object, the stored object, their difference, the compiled config, the stored value
	// and the answer.
	bodyFactor = 16
	// smallBody is the size in bytes below which the bound on requests in flight suffices.
	smallBody = 16 << 10
	// watchBytes is the memory of an idle watch.
	watchBytes = 64 << 10
)

// withBudget bounds the memory of requests, except the server's own. A request has an
// account, which is charged for its body here and for reads in the stores. A request that
// does not get its memory in time is answered 429.
func withBudget(
	h http.Handler, requests, watches *budget.Budget, longRunning request.LongRunningRequestCheck,
) http.Handler {
	if requests == nil || watches == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		switch {
		case !ok || isInternal(r.Context()):
			h.ServeHTTP(w, r)
		case longRunning(r, info):
			serveWatch(h, w, r, watches)
		default:
			serveWithin(h, w, r, requests)
		}
	})
}

// serveWithin serves a request that is not a watch.
func serveWithin(h http.Handler, w http.ResponseWriter, r *http.Request, requests *budget.Budget) {
	account := requests.Open(clientOf(r.Context()))
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

// serveWatch serves a watch. The budget ends it when others need its memory while its client
// does not read, or has nothing to read.
func serveWatch(h http.Handler, w http.ResponseWriter, r *http.Request, watches *budget.Budget) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream := &stream{control: http.NewResponseController(w)}
	account, err := watches.OpenEndable(clientOf(r.Context()), watchBytes, func() {
		cancel()
		stream.end()
	})
	if err != nil {
		fail(w, r, busy(err))
		return
	}
	defer account.Close()
	stream.account = account
	h.ServeHTTP(responsewriter.WrapForHTTP1Or2(paced{w, stream.during}), r.WithContext(budget.With(ctx, account)))
}

// busy returns the answer to a request that did not get its memory.
func busy(err error) error {
	if errors.Is(err, budget.ErrBusy) {
		return apierrors.NewTooManyRequests(err.Error()+": come again", 1)
	}
	return apierrors.NewTimeoutError("the request ended before its turn came", 1)
}

// errEnded is the error of a write to a watch that was ended.
var errEnded = errors.New("the watch was ended to make room for others")

// stream is the answer to a watch. The account of the watch is busy during a write, which
// end can interrupt.
type stream struct {
	control *http.ResponseController
	account *budget.Account

	mu      sync.Mutex
	writing bool
	ended   bool
}

// during calls write, unless the watch was ended.
func (s *stream) during(write func() error) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errEnded
	}
	s.writing = true
	s.mu.Unlock()
	s.account.Busy()
	err := write()
	s.account.Idle()
	s.mu.Lock()
	s.writing = false
	s.mu.Unlock()
	return err
}

// end interrupts a write, and with it the connection.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.writing {
		_ = s.control.SetWriteDeadline(time.Now())
	}
}

// paced is an answer whose writes and flushes go through a function.
type paced struct {
	http.ResponseWriter
	during func(write func() error) error
}

// Unwrap returns the writer of the connection.
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements http.ResponseWriter.
func (p paced) Write(content []byte) (n int, err error) {
	err = p.during(func() error {
		n, err = p.ResponseWriter.Write(content)
		return err
	})
	return n, err
}

// Flush sends what was written. Write has the error.
func (p paced) Flush() { _ = p.during(http.NewResponseController(p.ResponseWriter).Flush) }
