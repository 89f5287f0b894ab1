package controller

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// writeBurst may be written at once.
	writeBurst = 20
	// writeTimeout ends a write that takes too long; it is tried again.
	writeTimeout = 10 * time.Second
	// AwayMin and AwayMax are the bounds of the pause between two attempts while the
	// store is away.
	AwayMin = 250 * time.Millisecond
	AwayMax = 10 * time.Second
)

// Store is the part of the store of a resource that a reconciler needs to write.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error
}

// Writer bounds the rate of what a reconciler with one worker writes into the store,
// and waits for a store that is away: what is wrong with the store is no failure of a
// key.
type Writer struct {
	opts    WriterOptions
	limiter *rate.Limiter
}

// WriterOptions are the parts of a Writer.
type WriterOptions struct {
	// Name says in the log what is written.
	Name string
	// PerSecond bounds the writes, InStorm those while Storm reports a storm of boots.
	PerSecond, InStorm rate.Limit
	Storm              func() bool
	// Logger takes when the store goes and comes back.
	Logger *slog.Logger
}

// NewWriter returns a Writer.
func NewWriter(opts WriterOptions) *Writer {
	return &Writer{opts: opts, limiter: rate.NewLimiter(opts.PerSecond, writeBurst)}
}

// Write calls write as soon as the rate allows, and again for as long as the store is
// away and ctx lasts. It returns the error of the last attempt.
func (w *Writer) Write(ctx context.Context, write func(context.Context) error) error {
	if w.opts.Storm() {
		w.limiter.SetLimit(w.opts.InStorm)
	} else {
		w.limiter.SetLimit(w.opts.PerSecond)
	}
	if err := w.limiter.Wait(ctx); err != nil {
		return err
	}
	for pause := AwayMin; ; pause = min(2*pause, AwayMax) {
		err := WriteNow(ctx, write)
		if ctx.Err() != nil || !IsAway(err) {
			if pause > AwayMin {
				w.opts.Logger.Info("the store takes " + w.opts.Name + " again")
			}
			return err
		}
		if pause == AwayMin {
			w.opts.Logger.Warn("the store takes no "+w.opts.Name+"; they are kept and written later", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// WriteNow calls write once, with a time limit.
func WriteNow(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

// IsAway reports whether an error says that the store cannot be reached, or not in
// time, or is full, and nothing about what was to be written.
func IsAway(err error) bool {
	var status apierrors.APIStatus
	isFull := errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || isFull
}
