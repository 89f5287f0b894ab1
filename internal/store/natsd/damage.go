package natsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glowplug/internal/store/ledger"
)

const (
	// asideDir holds, beside the store, the folders of buckets that cannot be used.
	asideDir    = "damaged"
	asideFormat = "20060102T150405Z"
	// stagingDir is where a folder is copied to before it is put into service.
	stagingDir = ".accepted"
	// indexFile is what the NATS server knows of all blocks of a stream; it makes it anew from them.
	indexFile = "index.db"
)

// Damage is a bucket whose folder was set aside, now or at a former start.
type Damage struct {
	Bucket string
	// Reason says what is the matter with which file; nil where nothing is.
	Reason error
	// Aside is where the folder is now, and Home where it belongs.
	Aside, Home string
	// Lost is true where the bucket is missing now, until it is restored from a backup or an operator accepts
	// the loss. A transient bucket is made anew instead.
	Lost bool
	// Accepted is true where a copy of the folder was put into service now, see Options.PutBack.
	Accepted bool
}

func (d *Damage) Error() string {
	reason, kept := "", ". Its folder is kept, unchanged, as "+d.Aside
	if d.Reason != nil {
		reason = ": " + d.Reason.Error()
	}
	switch {
	case d.Accepted:
		return "the bucket " + d.Bucket + " is damaged" + reason + kept + ". What can still be read of it is put into service"
	case !d.Lost:
		return "the bucket " + d.Bucket + " was damaged" + reason + kept + ". Another bucket takes its place; remove that " +
			"folder, once nothing in it is needed, to end this warning"
	}
	return "the bucket " + d.Bucket + " is damaged" + reason + kept + ". What needs it is answered 503. " +
		"Stop the server and restore the data directory from a backup (`glowplug restore FILE --replace`), or run " +
		"`glowplug store accept-loss`, which puts into service what can still be read of the bucket"
}

// Lasts reports whether the damage is still one: the bucket is missing until the server starts
// again, or the folder is still there.
func (d *Damage) Lasts() bool { return d.Lost || !isMissing(d.Aside) }

// setAside looks at the folders of all streams before the server does: it waits for ever for a stream
// whose meta file is damaged, and cuts damaged block files off. Where there is a copy of a meta file,
// it takes its place. The folder of any other damaged bucket is moved away, and is never
// changed or removed. The bucket stays recorded, so that nothing takes its place, unless
// it is among transient. A bucket whose creation has not ended is removed, and made again.
func setAside(dir, storeDir string, l *ledger.Ledger, transient []string, log *slog.Logger) ([]*Damage, error) {
	streams := streamsOf(storeDir)
	unfinished, err := unfinishedStreams(streams, l)
	if err == nil {
		err = removeUnfinished(streams, unfinished)
	}
	if err != nil {
		return nil, err
	}
	for _, stream := range unfinished {
		log.Info("the server was killed while it made a bucket: the bucket is made again", "bucket", bucketOf(stream))
	}
	if err := restoreMetas(streams, l, log); err != nil {
		return nil, err
	}
	damaged, err := damagedStreams(streams, l)
	if err != nil {
		return nil, err
	}
	for _, stream := range slices.Sorted(maps.Keys(damaged)) {
		bucket := bucketOf(stream)
		if slices.Contains(transient, bucket) {
			if err := l.Forget(bucket); err != nil {
				return nil, err
			}
		}
		if err := moveAside(filepath.Join(streams, stream), filepath.Join(dir, asideDir)); err != nil {
			return nil, fmt.Errorf("the bucket %s is damaged: %w; it cannot be set aside: %w", bucket, damaged[stream], err)
		}
	}
	damages, err := listAside(dir, streams, l, transient)
	for _, d := range damages {
		log.Error(d.Error(), "bucket", d.Bucket)
		if d.Lost { // an operator who adopts the rest of the store has removed it from the record
			err = errors.Join(err, l.Add(d.Bucket))
		}
	}
	return damages, err
}

// damagedStreams returns the streams whose files cannot be used, each with the reason.
func damagedStreams(streams string, l *ledger.Ledger) (map[string]error, error) {
	found, err := listStreams(streams)
	if err != nil {
		return nil, err
	}
	damaged := map[string]error{}
	for _, stream := range found {
		if reason := checkStream(filepath.Join(streams, stream), stream, l); reason != nil {
			damaged[stream] = reason
		}
	}
	return damaged, nil
}

// listStreams lists the streams of a store.
func listStreams(streams string) (found []string, err error) {
	entries, err := os.ReadDir(streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for damaged buckets: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") { // a dot marks a folder during its removal
			found = append(found, e.Name())
		}
	}
	return found, nil
}

// checkStream returns the reason why the files of a stream cannot be used; nil: they can.
func checkStream(folder, stream string, l *ledger.Ledger) error {
	if _, err := readMeta(folder, stream); err != nil {
		return err
	}
	if _, ours := ledger.NameOf(stream); !ours {
		return nil
	}
	return checkBlocks(folder, stream, l)
}

// bucketOf is the name of a stream's bucket; of a stream that is none of ours, its own name.
func bucketOf(stream string) string {
	if bucket, ours := ledger.NameOf(stream); ours {
		return bucket
	}
	return stream
}

// moveAside moves a folder into another under a name that nothing has there.
func moveAside(from, into string) error {
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	name := filepath.Base(from) + "-" + time.Now().UTC().Format(asideFormat)
	to := filepath.Join(into, name)
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		to = filepath.Join(into, fmt.Sprintf("%s-%d", name, n))
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(ledger.SyncDir(into), ledger.SyncDir(filepath.Dir(from)))
}

// listAside returns what was ever set aside and is still there, the newest of a bucket last. A bucket that is not
// among transient is lost until it is back at its place.
func listAside(dir, streams string, l *ledger.Ledger, transient []string) ([]*Damage, error) {
	entries, err := os.ReadDir(filepath.Join(dir, asideDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for damaged buckets: %w", err)
	}
	var damages []*Damage
	for _, e := range entries {
		stream, _, found := strings.Cut(e.Name(), "-")
		bucket, ours := ledger.NameOf(stream)
		if !e.IsDir() || !found || !ours {
			continue
		}
		home, aside := filepath.Join(streams, stream), filepath.Join(dir, asideDir, e.Name())
		damages = append(damages, &Damage{
			Bucket: bucket, Aside: aside, Home: home, Reason: checkStream(aside, stream, l),
			Lost: isMissing(home) && !slices.Contains(transient, bucket),
		})
	}
	return damages, nil
}

// accept puts copies of the buckets that are lost into service. The NATS server reads each block file of them up
// to the first damage. What was set aside stays as it is. Until the record of the store says that the loss is
// accepted, the next start finds the same damage, or that objects are lost.
func (s *Server) accept(ctx context.Context, opts *Options, staging string) error {
	newest := map[string]*Damage{}
	for _, d := range s.damages {
		if d.Lost {
			newest[d.Bucket] = d
		}
	}
	for _, d := range newest {
		if err := s.putBack(ctx, opts, d, staging); err != nil {
			return fmt.Errorf("putting what is left of the bucket %s into service: %w", d.Bucket, err)
		}
	}
	for _, d := range s.damages {
		d.Accepted = newest[d.Bucket] == d
		d.Lost = d.Lost && isMissing(d.Home)
	}
	return os.RemoveAll(staging)
}

func (s *Server) putBack(ctx context.Context, opts *Options, d *Damage, staging string) error {
	stream := ledger.StreamOf(d.Bucket)
	if err := os.RemoveAll(staging); err != nil { // of a command that was killed
		return err
	}
	if err := copyFolder(d.Aside, staging); err != nil {
		return err
	}
	// With its index the NATS server would not look for the damage, and would believe damaged lengths and sequences.
	if err := os.Remove(filepath.Join(staging, "msgs", indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := readMeta(staging, stream); err != nil {
		m, err := describe(ctx, opts.PutBack(d.Bucket))
		if err != nil {
			return err
		}
		if err := writeMeta(staging, m); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(d.Home), 0o700); err != nil {
		return err
	}
	if err := os.Rename(staging, d.Home); err != nil {
		return err
	}
	return ledger.SyncDir(filepath.Dir(d.Home))
}

// copyFolder copies a folder, and waits until it is on the disk.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return ledger.ReplaceFile(target, content)
	})
}

// Damages are the buckets whose folders were set aside and are still there.
func (s *Server) Damages() []*Damage { return s.damages }

// Lost says why a bucket is missing, where it is damaged and was set aside; nil:
// it is not.
func (s *Server) Lost(bucket string) error {
	for _, d := range s.damages {
		if d.Bucket == bucket && d.Lost {
			return d
		}
	}
	return nil
}
