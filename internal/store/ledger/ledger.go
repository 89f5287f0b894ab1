// Package ledger remembers which store a server belongs to, and guards against
// every other one.
//
// A store has an identity: a random id, made once. It is written down twice, in
// the store itself (the key "identity" of the bucket GLOWPLUG) and in the data
// directory of each server (store.json), each time with the buckets that exist and
// the revisions that they have reached. Before a server follows, makes or writes
// anything, a Keeper compares the two with what is there. NATS that is empty,
// holds another store, lacks a bucket or is older than it was is refused until an
// operator says which of the two is right: Keeper.Init and Keeper.Adopt.
//
// The data directory belongs to one process at a time: a Ledger holds its lock.
package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Options says which store a data directory is opened for.
type Options struct {
	// Data is the folder of an embedded store; empty for an external one.
	Data string
	// Repair opens a directory whose record is damaged, or does not agree with its
	// data, for an operator who says what is right.
	Repair bool
}

// Ledger is the record in a data directory, and the lock on it.
type Ledger struct {
	dir   string
	place Place
	lock  *lock

	mu    sync.Mutex
	state record
}

// Open locks a data directory, makes it if it is missing, and reads its record.
// A directory that somebody else holds is a *LockedError; one whose record does
// not agree with an embedded store's data is a *Mismatch: an empty store must
// never take the place of a lost one.
func Open(dir string, opts Options) (*Ledger, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := finishReplace(dir); err != nil {
		lock.unlock()
		return nil, err
	}
	l := &Ledger{dir: dir, place: External, lock: lock}
	if opts.Data != "" {
		l.place = Embedded
	}
	if err := l.open(opts); err != nil {
		lock.unlock()
		return nil, err
	}
	return l, nil
}

// keyDir is the folder of the key logs in the data directory.
const keyDir = "ledger"

// Holds reports whether a folder is the data directory of a store.
func Holds(dir string) bool {
	for _, record := range []string{recordFile, filepath.Join(builtDir, recordFile)} { // of a Replace that was broken off
		if _, err := os.Stat(filepath.Join(dir, record)); err == nil {
			return true
		}
	}
	return false
}

func (l *Ledger) path() string { return filepath.Join(l.dir, recordFile) }

func (l *Ledger) open(opts Options) error {
	state, err := readRecord(l.path())
	missing := errors.Is(err, errNoRecord)
	if opts.Repair {
		if err != nil {
			state = newRecord(l.place)
		}
		l.state = state
		return nil
	}
	if err != nil && !missing {
		return err
	}
	if l.place == Embedded {
		if err := l.checkData(opts.Data, state, missing); err != nil {
			return err
		}
	}
	if missing {
		state = newRecord(l.place)
		if err := writeRecord(l.path(), state); err != nil {
			return err
		}
	}
	l.state = state
	return nil
}

// checkData compares the record with the folder of an embedded store.
func (l *Ledger) checkData(data string, state record, missing bool) error {
	holdsData, err := NotEmpty(data)
	switch {
	case err != nil:
		return err
	case missing && holdsData:
		return &Mismatch{
			Reason: fmt.Sprintf("%s holds data but its record %s is missing", data, l.path()),
			Remedy: "restore the record with the data, or choose another data directory; or `glowplug store adopt` takes the " +
				"data as it is",
		}
	case missing || holdsData || state.isNew():
		return nil
	case state.Place == External:
		return &Mismatch{
			Reason: fmt.Sprintf("the data directory %s belongs to the external store %s, and holds no store itself", l.dir,
				state.ID),
			Remedy: "start with the --nats-url of that store, or choose another data directory; or `glowplug store init` " +
				"begins a new, empty store here",
		}
	}
	return &Mismatch{
		Reason: fmt.Sprintf("%s says that %v were stored, but %s is empty or missing", l.path(), state.Buckets, data),
		Remedy: "restore it from a backup; or `glowplug store init` begins a new, empty store",
	}
}

// NotEmpty reports whether a folder exists and has something in it.
func NotEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// Close unlocks the directory.
func (l *Ledger) Close() { l.lock.unlock() }

// Has reports whether a bucket was ever recorded.
func (l *Ledger) Has(bucket string) bool {
	return slices.Contains(l.snapshot().Buckets, bucket)
}

// Add records that a bucket exists, durably.
func (l *Ledger) Add(bucket string) error {
	return l.change(func(next *record) {
		next.Buckets = append(next.Buckets, bucket)
		slices.Sort(next.Buckets)
		next.Buckets = slices.Compact(next.Buckets)
	})
}

// Forget takes a bucket out, durably: an empty one takes its place.
func (l *Ledger) Forget(bucket string) error {
	if err := os.Remove(KeyFile(l.KeyDir(), bucket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key log of %s: %w", bucket, err)
	}
	return l.change(func(next *record) {
		next.Buckets = slices.DeleteFunc(next.Buckets, func(b string) bool { return b == bucket })
		delete(next.Revisions, bucket)
	})
}

// ID returns the identity of the store; "": it was never followed.
func (l *Ledger) ID() string { return l.snapshot().ID }

// Reached returns the revision that was recorded for a bucket; 0 if none was.
func (l *Ledger) Reached(bucket string) uint64 { return l.snapshot().Revisions[bucket] }

// Reach records that a bucket has a revision, durably.
func (l *Ledger) Reach(bucket string, revision uint64) error {
	return l.change(func(next *record) {
		if next.Revisions == nil {
			next.Revisions = map[string]uint64{}
		}
		next.Revisions[bucket] = revision
	})
}

// join records whose store this is, durably.
func (l *Ledger) join(id string) error {
	return l.change(func(next *record) { next.ID, next.Place = id, l.place })
}

// KeyDir is the folder of the key logs, which are of this store alone.
func (l *Ledger) KeyDir() string { return filepath.Join(l.dir, keyDir) }

// replace puts the record of another store, or of another state of it, in the
// place of what was recorded: an operator has said so. The key logs of the former
// one go, so that nothing counts as lost which it had.
func (l *Ledger) replace(next record) error {
	if err := os.RemoveAll(l.KeyDir()); err != nil {
		return fmt.Errorf("removing the key logs: %w", err)
	}
	return l.change(func(r *record) {
		next.Server = r.Server
		*r = next
	})
}

func (l *Ledger) snapshot() record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// change writes a copy of the record that f has changed, unless it is equal. The copy
// replaces the record only once it is on the disk.
func (l *Ledger) change(f func(*record)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.state.clone()
	f(&next)
	if reflect.DeepEqual(next, l.state) {
		return nil
	}
	if err := writeRecord(l.path(), next); err != nil {
		return err
	}
	l.state = next
	return nil
}

// Mismatch says that what is stored is not the store that a data directory belongs
// to, or not all of it. Nothing is followed, made or written until an operator
// mends it.
type Mismatch struct {
	// Reason says what was found, and what was expected.
	Reason string
	// Remedy says what to do.
	Remedy string
}

func (m *Mismatch) Error() string { return m.Reason }

// Hint is what to do about it.
func (m *Mismatch) Hint() string {
	if strings.Contains(m.Remedy, "`glowplug store ") {
		return m.Remedy + " (give the command the --data-dir and --nats-url of the server)"
	}
	return m.Remedy
}
