package kvstore

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/budget"
)

const (
	// smallValue is a value that is not accounted for, in bytes: the bound on
	// requests in flight bounds these.
	smallValue = 16 << 10
	// readFactor is what a value takes in memory while it is read, changed or
	// answered with, for each of its bytes: decoded, and encoded again.
	readFactor = 6
	// smallEvent is an event that is not accounted for: watchBuffer of these are what
	// any watch may take.
	smallEvent = 4 << 10
	// drainInterval is how often a watch looks whether its client has taken all.
	drainInterval = 10 * time.Millisecond
	// itemBytes is what an item of a list takes however small its value is.
	itemBytes = 3 << 10
	// watchFactor is readFactor for an event: the next one is decoded while it is
	// sent, and the library keeps two buffers that are as large as the largest
	// event that a watch has had.
	watchFactor = 8
)

// hold takes the bytes of a value from the request's budget. Its error is for the
// client: 429, which says when to come again.
func hold(ctx context.Context, bytes int64) error {
	err := budget.Hold(ctx, bytes)
	if errors.Is(err, budget.ErrBusy) {
		return apierrors.NewTooManyRequests(err.Error()+": come again, or ask for less at a time (limit)", 1)
	}
	return err
}

// holdValue takes what one value needs to be read.
func holdValue(ctx context.Context, e *entry) error {
	if e == nil || len(e.Value) <= smallValue {
		return nil
	}
	return hold(ctx, int64(len(e.Value))*readFactor)
}

// holdList takes what a list needs, before it is made.
func holdList(ctx context.Context, snap snapshot, prefix, start string, opts storage.ListOptions) error {
	var items, bytes int64
	snap.tree.AscendGreaterOrEqual(&entry{Item: Item{Key: start}}, func(e *entry) bool {
		if !strings.HasPrefix(e.Key, prefix) || opts.Predicate.Limit > 0 && items == opts.Predicate.Limit {
			return false
		}
		items++
		bytes += int64(len(e.Value))
		return true
	})
	if bytes <= smallValue {
		return nil
	}
	return hold(ctx, bytes*readFactor+items*itemBytes)
}

// hold takes what the watch needs for an event, of which it may decode the former
// value as well. Large events are decoded one at a time, when the client has taken
// those before: it may not read at all.
func (w *watcher) hold(e *event, former bool) error {
	var bytes int64
	if e.put != nil {
		bytes += int64(len(e.put.Value))
	}
	if former {
		bytes += int64(len(e.prev.Value))
	}
	if bytes <= smallEvent {
		return nil
	}
	if err := hold(w.ctx, bytes*watchFactor); err != nil {
		return err
	}
	for len(w.result) > 0 {
		select {
		case <-w.ctx.Done():
			return w.ctx.Err()
		case <-time.After(drainInterval):
		}
	}
	return nil
}
