package natsd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"github.com/minio/highwayhash"

	"glowplug/internal/store/ledger"
)

const (
	metaFile = "meta.inf"
	sumFile  = "meta.sum"
	keyFile  = "meta.key" // there where the store is encrypted
	// copyDir holds, among what the data directory knows of the store, a copy of each
	// stream's meta files. The server replaces the two one after the other whenever a
	// stream is updated, so a kill between leaves a pair that does not agree.
	copyDir = "meta"
)

// errNoCopy says that a stream has no copy of its meta files.
var errNoCopy = errors.New("there is no copy")

// meta is a stream's description and the checksum of it.
type meta struct{ description, sum []byte }

// readMeta reads a stream's meta files and verifies them as the server does.
func readMeta(dir, stream string) (meta, error) {
	var m meta
	var err error
	path := filepath.Join(dir, metaFile)
	if m.description, err = os.ReadFile(path); err != nil {
		return m, fmt.Errorf("its file cannot be read: %w", err)
	}
	if m.sum, err = os.ReadFile(filepath.Join(dir, sumFile)); err != nil {
		return m, fmt.Errorf("the checksum of its file cannot be read: %w", err)
	}
	key := sha256.Sum256([]byte(stream))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return m, err
	}
	_, _ = hash.Write(m.description) // a hash takes all
	if !bytes.Equal(m.sum, []byte(hex.EncodeToString(hash.Sum(nil)))) {
		return m, fmt.Errorf("its file %s does not agree with its checksum in %s", path, sumFile)
	}
	if _, err := os.Stat(filepath.Join(dir, keyFile)); err == nil {
		return m, nil // encrypted: the server alone can read it
	}
	var config struct{ Name string }
	if err := json.Unmarshal(m.description, &config); err != nil || config.Name != stream {
		return m, fmt.Errorf("its file %s does not describe the stream %s", path, stream)
	}
	return m, nil
}

// metadata reads what a bucket's stream has as metadata, from its description or from the copy of that; nil: there
// is no good one.
func (s *Server) metadata(bucket string) map[string]string {
	stream := ledger.StreamOf(bucket)
	m, err := readMeta(filepath.Join(streamsOf(s.storeDir), stream), stream)
	if err != nil {
		if m, err = readMeta(copyOf(s.Ledger, stream), stream); err != nil {
			return nil
		}
	}
	var config struct{ Metadata map[string]string }
	if err := json.Unmarshal(m.description, &config); err != nil {
		return nil
	}
	return config.Metadata
}

// writeMeta replaces the meta files, each in one step.
func writeMeta(dir string, m meta) error {
	if err := ledger.ReplaceFile(filepath.Join(dir, metaFile), m.description); err != nil {
		return err
	}
	return ledger.ReplaceFile(filepath.Join(dir, sumFile), m.sum)
}

// restoreMeta puts the copy of a stream's meta files in their place. It may be older
// than the last update: what that changed is found missing and is done again.
func restoreMeta(dir, from, stream string) error {
	m, err := readMeta(from, stream)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoCopy
	}
	if err != nil {
		return err
	}
	return writeMeta(dir, m)
}

// keepMeta copies a stream's meta files, if they are good and the copy is another.
func keepMeta(dir, into, stream string) error {
	m, err := readMeta(dir, stream)
	if err != nil {
		return err
	}
	if have, err := readMeta(into, stream); err == nil && bytes.Equal(have.description, m.description) {
		return nil
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	return writeMeta(into, m)
}

// copyOf is the folder of the copy of a stream's meta files.
func copyOf(l *ledger.Ledger, stream string) string {
	return filepath.Join(l.KeyDir(), copyDir, stream)
}

// streamsOf is the folder of the streams of a store.
func streamsOf(storeDir string) string {
	return filepath.Join(storeDir, "jetstream", "$G", "streams")
}

// Add records that a bucket exists, durably, and keeps a copy of its description.
func (s *Server) Add(bucket string) error {
	s.keep(ledger.StreamOf(bucket))
	return s.Ledger.Add(bucket)
}

// keepAll keeps copies of the descriptions that the server has started with.
func (s *Server) keepAll() {
	entries, err := os.ReadDir(streamsOf(s.storeDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("there are no new copies of the descriptions of the buckets", "error", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			s.keep(e.Name())
		}
	}
}

// keep keeps a copy of the description of a stream. Without it nothing is missing
// but the way back from a damaged one.
func (s *Server) keep(stream string) {
	s.copying.Lock()
	defer s.copying.Unlock()
	if err := keepMeta(filepath.Join(streamsOf(s.storeDir), stream), copyOf(s.Ledger, stream), stream); err != nil {
		s.log.Warn("there is no new copy of the description of a bucket", "stream", stream, "error", err)
	}
}

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
	// Lost is true where the bucket is missing now, until its folder is put back or is
	// removed and the loss adopted. A transient bucket is made anew instead.
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
		return what + ". Another bucket takes its place; remove that folder, once nothing in it is needed, to end" +
			" this warning"
	}
	return what + fmt.Sprintf(". What needs it is answered 503. To get it back: stop the server; put %s and %s into"+
		" that folder, both from a backup of this data directory or both from the same folder of a new, empty data"+
		" directory of this release; move the folder to %s; start the server",
		metaFile, sumFile, d.Home)
}

// Lasts reports whether the damage is still one: the bucket is missing until the server starts
// again, or the folder is still there.
func (d *Damage) Lasts() bool {
	if d.Lost {
		return true
	}
	_, err := os.Stat(d.Aside)
	return !errors.Is(err, fs.ErrNotExist)
}

// setAside looks at the folders of all streams before the server does: it waits
// for ever for a stream whose meta file is damaged. Where there is a copy of the
// file, it takes its place. Without one the folder is moved away, and is never
// changed or removed. The bucket stays recorded, so that nothing takes its place, unless
// it is among transient. A bucket whose creation has not ended is removed, and made again.
func setAside(dir, storeDir string, l *ledger.Ledger, transient []string, log *slog.Logger) ([]*Damage, error) {
	streams := streamsOf(storeDir)
	damaged, err := damagedStreams(streams)
	if err != nil {
		return nil, err
	}
	unfinished, err := unfinishedStreams(streams, damaged, l)
	if err == nil {
		err = removeUnfinished(streams, unfinished)
	}
	if err != nil {
		return nil, err
	}
	for _, stream := range unfinished {
		delete(damaged, stream)
		log.Info("the server was killed while it made a bucket: the bucket is made again", "bucket", bucketOf(stream))
	}
	reasons := map[string]error{}
	for _, stream := range slices.Sorted(maps.Keys(damaged)) {
		reason, bucket := damaged[stream], bucketOf(stream)
		err := restoreMeta(filepath.Join(streams, stream), copyOf(l, stream), stream)
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
		to, err := moveAside(filepath.Join(streams, stream), filepath.Join(dir, asideDir))
		if err != nil {
			return nil, fmt.Errorf("the bucket %s is damaged: %w; it cannot be set aside: %w", bucket, reason, err)
		}
		reasons[to] = reason
	}
	damages, err := listAside(dir, streams, transient)
	for _, d := range damages {
		d.Reason = reasons[d.Aside]
		log.Error(d.Error(), "bucket", d.Bucket)
		if d.Lost { // an operator who adopts the rest of the store has removed it from the record
			err = errors.Join(err, l.Add(d.Bucket))
		}
	}
	return damages, err
}

// damagedStreams returns the streams whose meta files cannot be used, each with the reason.
func damagedStreams(streams string) (map[string]error, error) {
	entries, err := os.ReadDir(streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for damaged buckets: %w", err)
	}
	damaged := map[string]error{}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") { // a dot marks a folder during its removal
			continue
		}
		if _, err := readMeta(filepath.Join(streams, e.Name()), e.Name()); err != nil {
			damaged[e.Name()] = err
		}
	}
	return damaged, nil
}

// bucketOf is the name of a stream's bucket; of a stream that is none of ours, its own name.
func bucketOf(stream string) string {
	if bucket, ours := ledger.NameOf(stream); ours {
		return bucket
	}
	return stream
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

// listAside returns what was ever set aside and is still there. A bucket that is not
// among transient is lost until it is back at its place.
func listAside(dir, streams string, transient []string) ([]*Damage, error) {
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
			Lost: errors.Is(err, fs.ErrNotExist) && !slices.Contains(transient, bucket),
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
