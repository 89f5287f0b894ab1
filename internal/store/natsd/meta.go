package natsd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/ledger"
)

const (
	metaFile = "meta.inf"
	sumFile  = "meta.sum"
	keyFile  = "meta.key" // there where the store is encrypted
	// copyDir holds, among what the data directory knows of the store, a copy of each
	// stream's meta files.
	copyDir = "meta"
)

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
	sum, err := hashOf(stream)
	if err != nil {
		return m, err
	}
	_, _ = sum.Write(m.description) // a hash takes all
	if !bytes.Equal(m.sum, []byte(hex.EncodeToString(sum.Sum(nil)))) {
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

// hashOf is the checksum of what the NATS server stores under a name.
func hashOf(name string) (hash.Hash, error) {
	key := sha256.Sum256([]byte(name))
	return highwayhash.NewDigest64(key[:])
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

// restoreMetas puts the copies of damaged meta files in their place, byte by byte as the NATS server has written
// them: it replaces the two one after the other whenever a stream is updated, so a kill between leaves a pair that
// does not agree. A copy may be older than the last update: what that changed is found missing and is done again.
func restoreMetas(streams string, l *ledger.Ledger, log *slog.Logger) error {
	found, err := listStreams(streams)
	if err != nil {
		return err
	}
	for _, stream := range found {
		folder := filepath.Join(streams, stream)
		_, reason := readMeta(folder, stream)
		if reason == nil {
			continue
		}
		m, err := readMeta(copyOf(l, stream), stream)
		if err != nil {
			continue // the bucket is set aside
		}
		if err := writeMeta(folder, m); err != nil {
			return fmt.Errorf("restoring the description of %s from its copy: %w", bucketOf(stream), err)
		}
		log.Error("the description of a bucket was damaged, or half written when the server was killed. "+
			"It was restored from a copy, and nothing is lost. If this comes again without a kill, look at the disk", "bucket",
			bucketOf(stream), "reason", reason)
	}
	return nil
}

// describe returns meta files as the NATS server writes them for a stream: those of a new one elsewhere.
func describe(ctx context.Context, config jetstream.StreamConfig) (m meta, err error) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	if s.storeDir, err = os.MkdirTemp("", "glowplug-store-"); err != nil {
		return m, err
	}
	defer os.RemoveAll(s.storeDir)
	if err := s.start(ctx, true); err != nil {
		return m, err
	}
	defer s.stop()
	conn, err := s.Connect()
	if err != nil {
		return m, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return m, err
	}
	if _, err := js.CreateStream(ctx, config); err != nil {
		return m, err
	}
	return readMeta(filepath.Join(streamsOf(s.storeDir), config.Name), config.Name)
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
	streams, err := listStreams(streamsOf(s.storeDir))
	if err != nil {
		s.log.Warn("there are no new copies of the descriptions of the buckets", "error", err)
	}
	for _, stream := range streams {
		s.keep(stream)
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
