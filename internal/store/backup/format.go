// Package backup reads and writes backups of a store. A backup is a tar archive that gzip has compressed and that age
// may have encrypted, so that it can be read without this program:
//
//	glowplug-backup.json          what it is a backup of (Manifest)
//	files/pki/ca.key …            files of the data directory
//	objects/secrets/0001.jsonl …  the objects of a kind, one a line (Line)
//	SHA256SUMS                    the sums of all other entries, as sha256sum writes them
//
// The sums are the last entry: a backup without them is not whole.
package backup

import (
	"encoding/json"
	"fmt"
	"time"

	"glowplug/internal/store/kvstore"
)

const (
	manifestName = "glowplug-backup.json"
	sumsName     = "SHA256SUMS"
	objectsDir   = "objects/"
	filesDir     = "files/"

	// version is the version of the format.
	version = 1
	// chunkBytes is from which size on the lines of a kind go on in another entry.
	chunkBytes = 4 << 20
	// maxLine bounds a line, and maxEntry an entry, in bytes: more is damage, or an attack.
	maxLine, maxEntry = 64 << 20, 128 << 20
	// maxSums bounds the sums, which are kept in memory, in bytes: those of more than 100,000 entries.
	maxSums = 16 << 20
	// maxRevision bounds the resourceVersion of a kind, which goes on from there.
	maxRevision = 1 << 62
)

// Manifest says what a backup is of.
type Manifest struct {
	// Version is that of the format, and Program that of the glowplug that has written it.
	Version int    `json:"version"`
	Program string `json:"program"`
	// Created is the moment of which the backup has the store.
	Created time.Time `json:"created"`
	// Store is the identity of the store.
	Store string `json:"store"`
	// Settled is false where other servers wrote without a pause: each kind is as it was within some seconds of
	// Created then, not all of them at one moment.
	Settled bool `json:"settled"`
	// Kinds are the objects, in the order of the entries.
	Kinds []Kind `json:"kinds"`
}

// Kind is what a backup has of one kind of objects.
type Kind struct {
	// Resource is the plural name, such as baremetalhosts.
	Resource string `json:"resource"`
	// Revision is the newest resourceVersion of the kind.
	Revision uint64 `json:"revision"`
	Objects  int    `json:"objects"`
}

// Objects counts the objects of all kinds.
func (m *Manifest) Objects() (n int) {
	for _, k := range m.Kinds {
		n += k.Objects
	}
	return n
}

// Line is one object.
type Line struct {
	// Key is NAMESPACE/NAME, or NAME where the kind has no namespaces.
	Key string `json:"key"`
	UID string `json:"uid,omitempty"`
	// Expires is when the object expires; nil: never.
	Expires *time.Time `json:"expires,omitempty"`
	// Object is the object as the store has it: with its status, and with the values of Secrets.
	Object json.RawMessage `json:"object"`
}

func lineOf(r kvstore.Record, value []byte) Line {
	l := Line{Key: r.Key, UID: r.UID, Object: value}
	if !r.Expires.IsZero() {
		l.Expires = &r.Expires
	}
	return l
}

func (l *Line) record() kvstore.Record {
	r := kvstore.Record{Key: l.Key, UID: l.UID, Value: l.Object}
	if l.Expires != nil {
		r.Expires = *l.Expires
	}
	return r
}

// File is a file of the data directory.
type File struct {
	// Name is its path in the data directory, such as pki/ca.key.
	Name    string
	Content []byte
}

// DamagedError says that a file is no backup, or not a whole one.
type DamagedError struct{ Reason string }

func (e *DamagedError) Error() string { return "this is no whole backup: " + e.Reason }

// Hint is what to do about it.
func (*DamagedError) Hint() string { return "take another backup, or copy the file again" }

func damaged(format string, args ...any) error { return &DamagedError{fmt.Sprintf(format, args...)} }
