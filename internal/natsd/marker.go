package natsd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// marker is the file "store.json": it proves that a directory is ours, and lists
// the buckets that hold, or held, data in it.
type marker struct {
	path string

	mu    sync.Mutex
	state markerState
}

type markerState struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	Buckets []string  `json:"buckets"`
	// Revisions are the revisions that buckets had reached when it was last asked.
	Revisions map[string]uint64 `json:"revisions,omitempty"`
}

const markerVersion = 1

// openMarker reads the marker, or writes one into a directory that is provably
// new. Data without its marker, and a marker without its data, are errors: an
// empty store must never take the place of a lost one.
func openMarker(dir, storeDir string) (*marker, error) {
	m := &marker{path: filepath.Join(dir, "store.json")}
	holdsData, err := notEmpty(storeDir)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && holdsData:
		return nil, fmt.Errorf("%s holds data but its marker %s is missing: restore the marker with the data, or choose another data directory", storeDir, m.path)
	case errors.Is(err, fs.ErrNotExist):
		m.state = markerState{Version: markerVersion, Created: time.Now().UTC(), Buckets: []string{}}
		return m, m.write(m.state)
	case err != nil:
		return nil, fmt.Errorf("store marker: %w", err)
	}
	if err := json.Unmarshal(raw, &m.state); err != nil {
		return nil, fmt.Errorf("store marker %s is damaged: restore it, or the whole directory, from a backup: %w", m.path, err)
	}
	if m.state.Version != markerVersion {
		return nil, fmt.Errorf("store marker %s has version %d, this program knows %d: it was written by another release", m.path, m.state.Version, markerVersion)
	}
	if len(m.state.Buckets) > 0 && !holdsData {
		return nil, fmt.Errorf("%s says that %v were stored, but %s is empty: restore it from a backup, or remove the marker to start empty", m.path, m.state.Buckets, storeDir)
	}
	return m, nil
}

func notEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

func (m *marker) has(bucket string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.state.Buckets, bucket)
}

func (m *marker) add(bucket string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.state.Buckets, bucket) {
		return nil
	}
	next := m.state
	next.Buckets = append(slices.Clone(next.Buckets), bucket)
	slices.Sort(next.Buckets)
	if err := m.write(next); err != nil {
		return err
	}
	m.state = next
	return nil
}

func (m *marker) reached(bucket string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Revisions[bucket]
}

func (m *marker) reach(bucket string, revision uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Revisions[bucket] == revision {
		return nil
	}
	next := m.state
	next.Revisions = map[string]uint64{bucket: revision}
	for b, r := range m.state.Revisions {
		if b != bucket {
			next.Revisions[b] = r
		}
	}
	if err := m.write(next); err != nil {
		return err
	}
	m.state = next
	return nil
}

// write replaces the file in one step and waits until it is on the disk.
func (m *marker) write(state markerState) error {
	raw, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("store marker: %w", err)
	}
	if err := replaceFile(m.path, append(raw, '\n')); err != nil {
		return fmt.Errorf("store marker: %w", err)
	}
	return nil
}

func replaceFile(path string, content []byte) error {
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
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
