package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	recordFile    = "store.json"
	recordVersion = 2
	// unnamedVersion had no identity, and was written for embedded stores alone.
	unnamedVersion = 1
)

// StreamPrefix begins the name of a stream that is recorded as it is. Any other
// name is that of a KV bucket.
const StreamPrefix = "GLOWPLUG_"

// kvPrefix begins the name of the stream of a KV bucket.
const kvPrefix = "KV_"

// IsBucket reports whether a name, or the name of a stream, is that of a KV bucket.
func IsBucket(name string) bool { return !strings.HasPrefix(name, StreamPrefix) }

// KeyFile is the file in a folder of key logs that belongs to a name.
func KeyFile(dir, name string) string { return filepath.Join(dir, name+".keys") }

// StreamOf is the name of the stream of what is recorded under a name.
func StreamOf(name string) string {
	if !IsBucket(name) {
		return name
	}
	return kvPrefix + name
}

// NameOf is the inverse of StreamOf; ok is false for a stream that is none of ours.
func NameOf(stream string) (name string, ok bool) {
	if !IsBucket(stream) {
		return stream, true
	}
	return strings.CutPrefix(stream, kvPrefix)
}

// Place is where a store lies.
type Place string

const (
	// Embedded is a store in the data directory itself.
	Embedded Place = "embedded"
	// External is a store in somebody else's NATS.
	External Place = "external"
)

// record is what a data directory knows about its store: the file store.json.
type record struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	// Place is the place of the store when it was last followed.
	Place Place `json:"store"`
	// ID is the store's identity; empty until it was followed once.
	ID string `json:"id,omitempty"`
	// Server is the id of the server that has this directory; empty until it was needed.
	Server string `json:"server,omitempty"`
	// Buckets hold, or held, data.
	Buckets []string `json:"buckets"`
	// Revisions are the revisions that buckets had reached when they were last asked.
	Revisions map[string]uint64 `json:"revisions,omitempty"`
}

// isNew reports whether nothing was ever stored with this record.
func (r record) isNew() bool { return r.ID == "" && len(r.Buckets) == 0 }

// clone returns a copy that can be changed.
func (r record) clone() record {
	r.Buckets = slices.Clone(r.Buckets)
	r.Revisions = maps.Clone(r.Revisions)
	return r
}

func newRecord(place Place) record {
	return record{Version: recordVersion, Created: time.Now().UTC(), Place: place, Buckets: []string{}}
}

// errNoRecord says that the directory has no record.
var errNoRecord = errors.New("there is no record")

func readRecord(path string) (record, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, errNoRecord
	}
	if err != nil {
		return record{}, fmt.Errorf("store record: %w", err)
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return record{}, &Mismatch{
			Reason: fmt.Sprintf("the store record %s is damaged: %v", path, err),
			Remedy: "restore it, or the whole directory, from a backup; or `glowplug store adopt` makes it anew from what is " +
				"stored",
		}
	}
	switch r.Version {
	case unnamedVersion:
		r.Version, r.Place = recordVersion, Embedded
	case recordVersion:
	default:
		return record{}, fmt.Errorf(
			"store record %s has version %d, this program knows %d: it was written by another release",
			path, r.Version, recordVersion)
	}
	return r, nil
}

// writeRecord replaces the file in one step and waits until it is on the disk.
func writeRecord(path string, r record) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("store record: %w", err)
	}
	if err := ReplaceFile(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("store record: %w", err)
	}
	return nil
}

// ReplaceFile writes a file in one step and waits until it is on the disk.
func ReplaceFile(path string, content []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir waits until the entries of a folder are on the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
