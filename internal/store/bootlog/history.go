package bootlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
)

const (
	// floorKey is the key in that file whose revision is the floor.
	floorKey = "trimmed"

	remedy = "restore it and the other streams from one backup; or stop the server, " +
		"accept what is there with glowplug store adopt, and look at the state of hosts that booted last"
)

// A stream that is not the one which this server knows is neither read nor written,
// until an operator says that it is right.
var (
	errReplaced = errors.New("the stream " + Stream + " is another one, or an older one, " +
		"than this server has read: " + remedy)
	errLost = errors.New("the stream " + Stream + " existed and is missing: " + remedy)
	errCut  = errors.New("the newest messages of the stream " + Stream + " are missing: " + remedy)

	errNoLeader = errors.New("the stream " + Stream + " has no leader at the moment")
	errDoubted  = errors.New("the stream " + Stream + " looks older than what this server has read; asking again")
)

// isRefused reports whether an error ends only once an operator does something.
func isRefused(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errReplaced) || errors.Is(err, errCut)
}

// newKeys makes the file that remembers the newest sequence and the floor.
func newKeys(dir string) *keylog.Log {
	if dir == "" {
		return keylog.New("")
	}
	return keylog.New(ledger.KeyFile(dir, Stream))
}

// Former returns what the file in a folder says of the stream.
func Former(dir string) (ledger.Former, error) {
	keys := newKeys(dir)
	err := keys.Read()
	return ledger.Former{Created: keys.Created(), Revision: keys.Revision(), Floor: keys.Get(floorKey).Revision}, err
}

// existed reports whether this server has used the stream before.
func (l *Log) existed() bool {
	return l.Loaded() || !l.keys.Created().IsZero() || l.opts.Ledger != nil && l.opts.Ledger.Has(Stream)
}

// checkHistory returns an error unless the stream is the one that this server knows,
// from this process's life or from its file, and is as new as it was.
func (l *Log) checkHistory(info *jetstream.StreamInfo) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.created
	if known.IsZero() && !l.opts.Exclusive { // an embedded one may have been restored by hand
		known = l.keys.Created()
	}
	reached := max(l.last, l.keys.Revision())
	if (known.IsZero() || known.Equal(info.Created)) && info.State.LastSeq >= reached {
		l.doubt.Clear()
		return nil
	}
	if confirmed := l.doubt.Confirmed(); !confirmed && !l.opts.Exclusive {
		return errDoubted
	}
	return fmt.Errorf("%w (its newest message is %d, and this server knows of %d)",
		errReplaced, info.State.LastSeq, reached)
}

// begin takes over what is known of the stream before it is read.
func (l *Log) begin(js jetstream.JetStream, info *jetstream.StreamInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.js, l.created, l.last = js, info.Created, max(l.last, info.State.LastSeq)
	l.floor = max(l.floor, l.keys.Get(floorKey).Revision)
	// Only this server trims an exclusive log, so its file shows whether messages were
	// trimmed or lost. Without a file, and where others trim, the stream's own first
	// sequence counts.
	if !l.opts.Exclusive || l.keys.Created().IsZero() {
		l.floor = max(l.floor, max(info.State.FirstSeq, 1)-1)
	}
}

// finish ends the reading of what the log had. The newest messages that this server
// knows of have to be among them, or to have been trimmed: without them machines
// that are done would be installed again.
func (l *Log) finish(last uint64) error {
	l.mu.Lock()
	have, created, floor := max(l.taken, l.floor), l.created, l.floor
	l.mu.Unlock()
	if reached := l.keys.Revision(); have < reached {
		return fmt.Errorf("%w (this server knows of %d, and can read up to %d)", errCut, reached, have)
	}
	l.miss(last + 1)
	if l.keys.Created().Equal(created) {
		l.keys.Reach(have)
	} else {
		l.keys.Replace(created, map[string]keylog.Record{floorKey: {Revision: floor}}, have)
	}
	l.stalls = 0
	l.setLoaded(last)
	return nil
}

// writeKeys keeps the file of the newest sequence up to date until ctx ends.
func (l *Log) writeKeys(ctx context.Context) {
	l.keys.Keep(ctx, func() {}, func(err error) {
		l.opts.Logger.Warn("the newest sequence of the boot log cannot be recorded: "+
			"what the log loses meanwhile is not noticed at the next start", "error", err)
	})
}

// recordFloor brings to the disk up to where the log is trimmed, before it is: after
// a crash what was trimmed is not taken for lost.
func (l *Log) recordFloor(floor uint64) error {
	if floor > l.keys.Get(floorKey).Revision {
		l.keys.Put(floorKey, floor)
	}
	return l.keys.Write(true)
}

// lost is the error of a stream that is missing: why, where the ledger knows.
func (l *Log) lost() error {
	if ledger, ok := l.opts.Ledger.(kvstore.LossLedger); ok {
		if err := ledger.Lost(Stream); err != nil {
			return err
		}
	}
	return errLost
}
