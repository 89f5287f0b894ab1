package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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
)

// Damage is a bucket whose folder was set aside, now or at a former start.
type Damage struct {
	Bucket string
	// Reason says what is the matter with which file; nil for a former start.
	Reason error
	// Aside is where the folder is now, and Home where it belongs.
	Aside, Home string
	// Lost is true where the bucket is missing now. A bucket that holds nothing
	// lasting is made anew instead.
	Lost bool
}

func (d *Damage) Error() string {
	what := "the bucket " + d.Bucket + " is damaged and was set aside"
	if d.Reason != nil {
		what = fmt.Sprintf("the bucket %s is damaged: %v. Its folder was set aside, unchanged, as %s",
			d.Bucket, d.Reason, d.Aside)
	} else {
		what += " at a former start; its folder is " + d.Aside
	}
	if !d.Lost {
		return what + ". The bucket holds nothing lasting and is made anew; remove that folder to end this warning"
	}
	return what + fmt.Sprintf(". What needs it is answered 503. To get it back: stop the server; put %s and %s into"+
		" that folder, both from a backup of this data directory or both from the same folder of a new, empty data"+
		" directory of this release; move the folder to %s; start the server",
		metaFile, sumFile, d.Home)
}

// setAside looks at the folders of all streams before the server does: it waits
// for ever for a stream whose meta file is damaged. Where there is a copy of the
// file, it takes its place. Without one the folder is moved away, and is never
// changed or removed. A bucket that was recorded stays recorded, so
// that nothing takes its place, unless it is among transient.
func setAside(dir, storeDir string, l *ledger.Ledger, transient []string, log *slog.Logger) ([]*Damage, error) {
	streams := streamsOf(storeDir)
	entries, err := os.ReadDir(streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for damaged buckets: %w", err)
	}
	reasons := map[string]error{}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") { // a dot marks one that is being removed
			continue
		}
		_, reason := readMeta(filepath.Join(streams, e.Name()), e.Name())
		if reason == nil {
			continue
		}
		bucket, ours := ledger.NameOf(e.Name())
		if !ours {
			bucket = e.Name()
		}
		err := restoreMeta(filepath.Join(streams, e.Name()), copyOf(l, e.Name()), e.Name())
		if err == nil {
			log.Error("the description of a bucket was damaged, or half written when the server was killed. "+
				"It was restored from a copy, and nothing is lost. If this comes again without a kill, look at the disk", "bucket",
				bucket, "reason", reason)
			continue
		}
		if !errors.Is(err, errNoCopy) {
			reason = fmt.Errorf("%w; restoring it from the copy failed: %w", reason, err)
		}
		if slices.Contains(transient, bucket) {
			if err := l.Forget(bucket); err != nil {
				return nil, err
			}
		}
		to, err := moveAside(filepath.Join(streams, e.Name()), filepath.Join(dir, asideDir))
		if err != nil {
			return nil, fmt.Errorf("the bucket %s is damaged: %w; it cannot be set aside: %w", bucket, reason, err)
		}
		reasons[to] = reason
	}
	damages, err := listAside(dir, streams, l)
	for _, d := range damages {
		d.Reason = reasons[d.Aside]
		log.Error(d.Error(), "bucket", d.Bucket)
	}
	return damages, err
}

// moveAside moves a folder into another under a name that nothing has there.
func moveAside(from, into string) (to string, err error) {
	if err := os.MkdirAll(into, 0o700); err != nil {
		return "", err
	}
	name := filepath.Base(from) + "-" + time.Now().UTC().Format(asideFormat)
	to = filepath.Join(into, name)
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		to = filepath.Join(into, fmt.Sprintf("%s-%d", name, n))
	}
	if err := os.Rename(from, to); err != nil {
		return "", err
	}
	return to, errors.Join(ledger.SyncDir(into), ledger.SyncDir(filepath.Dir(from)))
}

// listAside returns what was ever set aside and is still there.
func listAside(dir, streams string, l *ledger.Ledger) ([]*Damage, error) {
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
		home := filepath.Join(streams, stream)
		_, err := os.Stat(home)
		damages = append(damages, &Damage{
			Bucket: bucket, Aside: filepath.Join(dir, asideDir, e.Name()), Home: home,
			Lost: l.Has(bucket) && errors.Is(err, fs.ErrNotExist),
		})
	}
	return damages, nil
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
