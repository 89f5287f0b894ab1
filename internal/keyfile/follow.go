package keyfile

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"
)

// followInterval is how often a followed file is read. A change counts once it has
// been seen twice, since it may be seen half written.
const followInterval = 2 * time.Second

// Follower keeps the content of a file, and reads it again when it has changed. If it
// cannot be read or parsed then, the former content stays.
type Follower struct {
	kind Kind
	path string
	take func(content []byte) error
	log  *slog.Logger

	taken, seen [sha256.Size]byte
	failure     string // what was logged last; "" while all is well
}

// Follow reads a file for the first time. take is given its content, then and after
// each change; its error says why that is no good.
func Follow(kind Kind, path string, logger *slog.Logger, take func(content []byte) error) (*Follower, error) {
	f := &Follower{kind: kind, path: path, take: take, log: logger}
	content, err := Read(kind, path)
	if err == nil {
		err = take(content)
	}
	if err != nil {
		return nil, err
	}
	f.taken = sha256.Sum256(content)
	return f, nil
}

// Run checks the file every few seconds, until ctx ends, and calls changed after
// each change that was taken.
func (f *Follower) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f.readAgain() {
				changed()
			}
		}
	}
}

// readAgain reads the file and reports whether a change was taken.
func (f *Follower) readAgain() bool {
	content, err := Read(f.kind, f.path)
	if err != nil {
		f.seen = [sha256.Size]byte{}
		f.fail(err)
		return false
	}
	sum := sha256.Sum256(content)
	if sum == f.taken {
		f.seen, f.failure = sum, ""
		return false
	}
	if sum != f.seen {
		f.seen = sum
		return false
	}
	if err := f.take(content); err != nil {
		f.fail(err)
		return false
	}
	f.taken, f.failure = sum, ""
	f.log.Info("a file has changed and was read again", "file", f.path)
	return true
}

// fail logs why the file is of no use, once for each reason.
func (f *Follower) fail(err error) {
	if f.failure == err.Error() {
		return
	}
	f.failure = err.Error()
	args := []any{"file", f.path, "error", err}
	if hint, ok := err.(interface{ Hint() string }); ok {
		args = append(args, "hint", hint.Hint())
	}
	f.log.Error("a file cannot be used: what it said before stays in force", args...)
}
