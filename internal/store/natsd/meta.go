package natsd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
