package natsd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"glowplug/internal/store/ledger"
)

// look takes the place of setAside for an operator who only looks. The server starts on the store itself where a
// start would change nothing, else on a copy of it; and where nothing is stored on an empty folder of its own, since
// it makes folders where it starts. A damaged bucket is an error here, where a start sets it aside, but for a
// bucket that the caller puts back.
func (s *Server) look(ctx context.Context, dir string, opts *Options, transient []string) error {
	streams := streamsOf(s.storeDir)
	unfinished, err := unfinishedStreams(streams, s.Ledger)
	if err != nil {
		return err
	}
	damaged, err := damagedStreams(streams, s.Ledger)
	if err != nil {
		return err
	}
	for _, stream := range unfinished {
		delete(damaged, stream)
	}
	if len(damaged) > 0 && opts.PutBack == nil {
		first := slices.Min(slices.Collect(maps.Keys(damaged)))
		return &damagedError{bucket: bucketOf(first), reason: damaged[first]}
	}
	if s.damages, err = listAside(dir, streams, s.Ledger, transient); err != nil {
		return err
	}
	isLost := slices.ContainsFunc(s.damages, func(d *Damage) bool { return d.Lost })
	if len(damaged) > 0 || len(unfinished) > 0 || opts.PutBack != nil && isLost {
		return s.lookAtCopy(ctx, opts, transient, unfinished)
	}
	holdsData, err := ledger.NotEmpty(s.storeDir)
	if err != nil {
		return fmt.Errorf("embedded store: %w", err)
	}
	if holdsData {
		return nil
	}
	s.scratch, err = os.MkdirTemp("", "glowplug-store-")
	s.storeDir = s.scratch
	return err
}

// lookAtCopy does to a copy of the store what a start does to the store itself.
func (s *Server) lookAtCopy(ctx context.Context, opts *Options, transient, unfinished []string) (err error) {
	from := streamsOf(s.storeDir)
	if s.scratch, err = os.MkdirTemp("", "glowplug-store-"); err != nil {
		return err
	}
	if err := os.CopyFS(s.scratch, os.DirFS(s.storeDir)); err != nil {
		return fmt.Errorf("copying the store, which a start would change, to look at it: %w. Name a folder with more room in "+
			"TMPDIR", err)
	}
	s.storeDir = s.scratch
	streams := streamsOf(s.scratch)
	if err := removeUnfinished(streams, unfinished); err != nil || opts.PutBack == nil {
		return err
	}
	if err := restoreMetas(streams, s.Ledger, s.log); err != nil {
		return err
	}
	damaged, err := damagedStreams(streams, s.Ledger)
	if err != nil {
		return err
	}
	for _, d := range s.damages {
		d.Home = filepath.Join(streams, ledger.StreamOf(d.Bucket))
	}
	for stream, reason := range damaged {
		home, bucket := filepath.Join(streams, stream), bucketOf(stream)
		if err := os.RemoveAll(home); err != nil {
			return err
		}
		s.damages = append(s.damages, &Damage{
			Bucket: bucket, Reason: reason, Aside: filepath.Join(from, stream), Home: home,
			Lost: !slices.Contains(transient, bucket),
		})
	}
	return s.accept(ctx, opts, filepath.Join(s.scratch, stagingDir))
}

// removeScratch removes the folder that look has made, and the one of a store that was not
// begun: an operator was refused where nothing was stored. One with a stream stays.
func (s *Server) removeScratch() {
	if s.unbegun {
		if holdsStreams, err := ledger.NotEmpty(streamsOf(s.storeDir)); err == nil && !holdsStreams {
			s.scratch = s.storeDir
		}
	}
	if s.scratch == "" {
		return
	}
	if err := os.RemoveAll(s.scratch); err != nil {
		s.log.Warn("removing an empty store", "error", err)
	}
}

// damagedError says that a store has a damaged bucket, and was therefore not opened.
type damagedError struct {
	bucket string
	reason error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("the bucket %s is damaged: %v", e.bucket, e.reason)
}

// Damaged names the bucket.
func (e *damagedError) Damaged() string { return e.bucket }

// Hint is what to do about it.
func (e *damagedError) Hint() string {
	return "nothing was changed; restore the data directory from a backup, or see with `glowplug store accept-loss " +
		"--dry-run` what can still be read of the bucket"
}
