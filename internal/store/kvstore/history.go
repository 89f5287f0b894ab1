package kvstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A bucket that is not the one which this server knows is neither followed nor
// written, until an operator says that it is right.
var (
	errRefused = errors.New("the store is not used")

	errBucketLost = fmt.Errorf(
		"%w: the bucket existed and is missing. Restore it from a backup, or accept what NATS has now with glowplug store "+
			"adopt", errRefused)
	errReplaced = fmt.Errorf(
		"%w: the bucket was deleted and made anew by somebody else. Restore it from a backup, or accept what NATS has now "+
			"with glowplug store adopt", errRefused)
	errOlder = fmt.Errorf("%w: the bucket is older than what this server has seen. Restore the newer data, or accept "+
		"what NATS has now with glowplug store adopt", errRefused)

	errNoLeader = errors.New("the bucket has no leader at the moment")
	errDoubted  = errors.New("the bucket looks older than what this server has seen; asking again")
)

func isRefused(err error) bool { return errors.Is(err, errRefused) }

// checkHistory returns an error unless the bucket is the one that this server
// knows, from this process's life or from its files, and has all of its revisions.
func (f *follower) checkHistory(info *jetstream.StreamInfo) error {
	reached := f.keys.Revision()
	if f.Loaded() {
		reached = max(reached, f.mirror.revision())
	}
	if ledger, ok := f.opts.Ledger.(RevisionLedger); ok {
		reached = max(reached, ledger.Reached(f.kind.Bucket))
	}
	// Of an embedded bucket the description may have been restored by hand; its keys
	// are verified all the same.
	var err error
	switch {
	case replaced(f.created, info.Created) || !f.opts.Exclusive && replaced(f.keys.Created(), info.Created):
		err = errReplaced
	case info.State.LastSeq < reached:
		err = fmt.Errorf("%w (revision %d, and this server has seen %d)", errOlder, info.State.LastSeq, reached)
	default:
		f.history.Clear()
		f.metrics.lost.Store(0)
		return nil
	}
	if confirmed := f.history.Confirmed(); !confirmed && !f.opts.Exclusive {
		return errDoubted
	}
	f.metrics.lost.Store(reached - min(reached, info.State.LastSeq))
	return err
}

// replaced reports whether a bucket that was made at a known time is another one.
func replaced(known, created time.Time) bool { return !known.IsZero() && !known.Equal(created) }
