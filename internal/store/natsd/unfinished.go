package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"glowplug/internal/store/ledger"
)

// unfinishedStreams returns the streams whose creation has not ended, because the
// server was killed: it makes a stream's folder first and its meta files last.
func unfinishedStreams(streams string, l *ledger.Ledger) ([]string, error) {
	found, err := listStreams(streams)
	if err != nil {
		return nil, err
	}
	var unfinished []string
	for _, stream := range found {
		if _, err := readMeta(filepath.Join(streams, stream), stream); err == nil {
			continue
		}
		used, err := wasUsed(filepath.Join(streams, stream), stream, l)
		if err != nil {
			return nil, fmt.Errorf("looking for buckets whose creation has not ended: %w", err)
		}
		if !used {
			unfinished = append(unfinished, stream)
		}
	}
	return unfinished, nil
}

// wasUsed reports whether a stream may have held something: the record or a key log knows it, or one
// of its blocks has a message. A creation writes a tombstone at most, which has no subject and no data.
func wasUsed(folder, stream string, l *ledger.Ledger) (used bool, err error) {
	bucket, ours := ledger.NameOf(stream)
	if !ours || l.Has(bucket) {
		return true, nil
	}
	for _, trace := range []string{ledger.KeyFile(l.KeyDir(), bucket), copyOf(l, stream)} {
		if _, err := os.Stat(trace); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != blockSuffix {
			return err
		}
		info, err := e.Info()
		used = used || err == nil && info.Size() > recordHeader+recordChecksum
		return err
	})
	return used, err
}

// removeUnfinished removes the folders of streams whose creation has not ended. What a kill leaves of a
// removal is one of these again.
func removeUnfinished(streams string, unfinished []string) error {
	for _, stream := range unfinished {
		if err := os.RemoveAll(filepath.Join(streams, stream)); err != nil {
			return fmt.Errorf("removing the bucket %s, whose creation has not ended: %w", bucketOf(stream), err)
		}
	}
	if len(unfinished) == 0 {
		return nil
	}
	return ledger.SyncDir(streams)
}
