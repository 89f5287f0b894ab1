package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"glowplug/internal/store/kvstore"
)

// Source is what a store has of one kind.
type Source struct {
	Kind
	// Records calls its argument with each object, until that returns false.
	Records func(func(kvstore.Record) bool)
	// Portable returns what another store needs of a stored object.
	Portable func(value []byte) ([]byte, error)
}

// writer writes the entries of an archive.
type writer struct {
	tar  *tar.Writer
	time time.Time
	sums bytes.Buffer
}

// Write writes a backup, and calls pause often. m.Kinds are set from the sources. It returns once all bytes were given
// to w, or with the first error: what was written is no whole backup then, and says so to Read.
func Write(ctx context.Context, w io.Writer, m Manifest, files []File, sources []Source, pause func()) error {
	compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	out := &writer{tar: tar.NewWriter(compressed), time: m.Created}
	m.Version, m.Kinds = version, nil
	for _, s := range sources {
		m.Kinds = append(m.Kinds, s.Kind)
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := out.entry(manifestName, append(manifest, '\n')); err != nil {
		return err
	}
	for _, f := range files {
		if err := out.entry(filesDir+f.Name, f.Content); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := out.objects(ctx, s, pause); err != nil {
			return fmt.Errorf("%s: %w", s.Resource, err)
		}
	}
	if err := out.entry(sumsName, bytes.Clone(out.sums.Bytes())); err != nil {
		return err
	}
	if err := out.tar.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// objects writes the objects of a kind.
func (w *writer) objects(ctx context.Context, s Source, pause func()) (err error) {
	var chunk bytes.Buffer
	lines := json.NewEncoder(&chunk)
	lines.SetEscapeHTML(false)
	entries, objects := 0, 0
	flush := func() error {
		entries++
		err := w.entry(fmt.Sprintf("%s%s/%04d.jsonl", objectsDir, s.Resource, entries), chunk.Bytes())
		chunk.Reset()
		return err
	}
	s.Records(func(r kvstore.Record) bool {
		if err = ctx.Err(); err != nil {
			return false
		}
		var value []byte
		if value, err = s.Portable(r.Value); err == nil {
			err = lines.Encode(lineOf(r, value))
		}
		if err != nil {
			err = fmt.Errorf("the object %s cannot be read: %w", r.Key, err)
			return false
		}
		if objects++; chunk.Len() >= chunkBytes {
			err = flush()
		}
		pause()
		return err == nil
	})
	if err == nil && chunk.Len() > 0 {
		err = flush()
	}
	if err == nil && objects != s.Objects {
		err = fmt.Errorf("there are %d objects, and %d were announced", objects, s.Objects)
	}
	return err
}

// entry writes one entry, and its sum.
func (w *writer) entry(name string, content []byte) error {
	fmt.Fprintf(&w.sums, "%x  %s\n", sha256.Sum256(content), name)
	header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: w.time, Format: tar.FormatPAX}
	header.ModTime = header.ModTime.Truncate(time.Second)
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}
