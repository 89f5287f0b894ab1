package natsd

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"glowplug/internal/store/ledger"
)

// look takes the place of setAside for an operator who only looks. A damaged bucket, which
// a start mends or sets aside, is an error. Where single records are damaged, or the creation of a
// bucket has not ended, the server starts on a mended copy. Where nothing is stored, it starts on an
// empty folder of its own, since it makes folders where it starts.
func (s *Server) look(dir string, transient []string) error {
	damaged, err := damagedStreams(streamsOf(s.storeDir))
	if err != nil {
		return err
	}
	if s.damages, err = listAside(dir, streamsOf(s.storeDir), transient); err != nil {
		return err
	}
	unfinished, err := unfinishedStreams(streamsOf(s.storeDir), damaged, s.Ledger)
	if err != nil {
		return err
	}
	for _, stream := range unfinished {
		delete(damaged, stream)
	}
	if len(damaged) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(damaged)))
		return &damagedError{bucket: bucketOf(first), reason: damaged[first]}
	}
	blocks, err := damagedBlocks(s.storeDir)
	if err != nil {
		return err
	}
	if len(blocks) > 0 || len(unfinished) > 0 {
		return s.lookAtCopy(unfinished)
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

// lookAtCopy mends a copy of the store: the NATS server would cut the files themselves off at
// the damage, and would wait for an unfinished stream.
func (s *Server) lookAtCopy(unfinished []string) (err error) {
	if s.scratch, err = os.MkdirTemp("", "glowplug-store-"); err != nil {
		return err
	}
	if err := os.CopyFS(s.scratch, os.DirFS(s.storeDir)); err != nil {
		return fmt.Errorf("copying the store, which has to be mended, to look at it: %w. Name a folder with more room in "+
			"TMPDIR", err)
	}
	s.storeDir = s.scratch
	if err := removeUnfinished(streamsOf(s.storeDir), unfinished); err != nil {
		return err
	}
	s.erased, err = mendBlocks(s.storeDir, s.log)
	return err
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

// Hint is what to do about it.
func (e *damagedError) Hint() string {
	return "nothing was changed; the next start of the server, and this command without --dry-run, restores the files" +
		" of the bucket from their copy or, without a good copy, moves its folder unchanged to damaged/"
}
