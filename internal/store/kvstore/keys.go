package kvstore

import (
	"context"
	"path/filepath"
)

// maxNamed is how many lost objects the log names.
const maxNamed = 20

// keyPath is the file of the key log; "" for none.
func (s *contents) keyPath() string {
	if s.opts.KeyDir == "" {
		return ""
	}
	return filepath.Join(s.opts.KeyDir, s.kind.Bucket+".keys")
}

// remember brings a change into the key log.
func (s *contents) remember(c change) {
	switch {
	case c.skip:
	case c.put != nil:
		s.keys.Put(c.key, c.rev, s.noteOf(c.put))
	case c.corrupt:
		s.keys.Put(c.key, c.rev, s.keys.Get(c.key).Note) // of the value before it
	default:
		s.keys.Delete(c.key, c.rev)
	}
}

// writeKeys keeps the file of the key log up to date until ctx ends.
func (s *contents) writeKeys(ctx context.Context) {
	s.keys.Keep(ctx, func() { s.keys.Reach(s.mirror.revision()) }, func(err error) {
		s.opts.Logger.Warn("the key log cannot be written; what the bucket loses meanwhile is not noticed at the next start",
			"error", err)
	})
}
