package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"glowplug/internal/budget"
)

type clientKey struct{}

// clientOf returns whom a request is counted for; "": for nobody.
func clientOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// clientOfUser returns whom the requests of a user are counted for: the user. The ServiceAccounts of a namespace
// are one client: who may make one there can make any number.
func clientOfUser(name string) string {
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return name
}

// withTurns has requests that read, and those that write, executed in turns: no more than reads and writes have
// room for at a time, and of each client no more than its share. The server's own requests and those that last
// (watches and uploads) take no turn. Without a turn in time a request is answered 429.
func withTurns(
	h http.Handler, reads, writes *budget.Budget, longRunning request.LongRunningRequestCheck,
) http.Handler {
	if reads == nil || writes == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		info, ok := request.RequestInfoFrom(ctx)
		user, known := request.UserFrom(ctx)
		if !ok || !known || isInternal(ctx) {
			h.ServeHTTP(w, r)
			return
		}
		client := clientOfUser(user.GetName())
		r = r.WithContext(context.WithValue(ctx, clientKey{}, client))
		if longRunning(r, info) {
			h.ServeHTTP(w, r)
			return
		}
		turns := writes
		if isReading(r.Method) {
			turns = reads
		}
		account := turns.Open(client)
		defer account.Close()
		switch err := account.Hold(ctx, 1); {
		case errors.Is(err, budget.ErrBusy):
			w.Header().Set("Connection", "close") // a body was not read
			fail(w, r, apierrors.NewTooManyRequests("too many requests are under way, of "+client+
				" or of all clients: come again", 1))
		case err != nil:
			fail(w, r, busy(err))
		default:
			t := &turn{account: account, deadline: func(time.Time) {}}
			if r.ProtoMajor == 2 { // whose connection goes on while one answer of it does not
				control := http.NewResponseController(w)
				t.deadline = func(at time.Time) { _ = control.SetWriteDeadline(at) }
			}
			h.ServeHTTP(responsewriter.WrapForHTTP1Or2(paced{w, t.during}), r)
		}
	})
}

const (
	// maxPause is how long a client may take for a part of an answer before its turn ends: turns are for computing.
	maxPause = 100 * time.Millisecond
	// maxStall is how long it may take before the answer is broken off.
	maxStall = time.Minute
)

// turn is that of a request.
type turn struct {
	account  *budget.Account
	deadline func(time.Time) // of a write
}

// during writes a part of the answer. The turn ends where the client does not read it.
func (t *turn) during(write func() error) error {
	pause := time.AfterFunc(maxPause, t.account.Close)
	defer pause.Stop()
	t.deadline(time.Now().Add(maxStall))
	defer t.deadline(time.Time{})
	return write()
}

func isReading(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
