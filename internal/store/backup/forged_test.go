package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"glowplug/internal/store/kvstore"
)

// TestForgedBackupIsRefused: its sums are right, and it would fail while it is restored, or have no end.
func TestForgedBackupIsRefused(t *testing.T) {
	for name, kinds := range map[string][]Kind{
		"a kind twice":         {{Resource: "secrets"}, {Resource: "secrets"}},
		"a revision at an end": {{Resource: "secrets", Revision: 1<<64 - 1}},
	} {
		var sources []Source
		for _, kind := range kinds {
			sources = append(sources, Source{Kind: kind, Records: func(func(kvstore.Record) bool) {}})
		}
		var out bytes.Buffer
		if err := Write(context.Background(), &out, Manifest{}, nil, sources, func() {}); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&out, Visitor{}); !errors.As(err, new(*DamagedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	manifest := `{"version":1,"kinds":[]}`
	twice := forged(func(add func(name, content string)) {
		add(manifestName, manifest)
		add(manifestName, manifest)
	})
	defer twice.Close()
	if _, err := Read(twice, Visitor{}); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two manifests: %v", err)
	}
	long := strings.Repeat("x", 1<<18)
	endless := forged(func(add func(name, content string)) {
		add(manifestName, manifest)
		for n := range 2 * maxSums / len(long) {
			add(fmt.Sprint(long, n), "")
		}
	})
	defer endless.Close()
	if _, err := Read(endless, Visitor{}); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), "entries") {
		t.Errorf("too many entries: %v", err)
	}
}

// forged returns a backup without its sums.
func forged(entries func(add func(name, content string))) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		compressed, _ := gzip.NewWriterLevel(in, gzip.BestSpeed)
		archive := tar.NewWriter(compressed)
		entries(func(name, content string) {
			_ = archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Format: tar.FormatPAX})
			_, _ = io.WriteString(archive, content)
		})
		in.CloseWithError(errors.Join(archive.Close(), compressed.Close()))
	}()
	return out
}
