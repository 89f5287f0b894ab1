package keylog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var born = time.Unix(1_800_000_000, 42)

func open(t testing.TB, path string) *Log {
	t.Helper()
	l := New(path)
	if err := l.Read(); err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Write(true); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger", "HOSTS.keys")
	l := open(t, path)
	if !l.Created().IsZero() || len(l.Keys()) > 0 {
		t.Error("a file that is not there is known")
	}
	write(t, l) // nothing is known, and nothing is written
	l.Replace(born, map[string]Record{"a/1": {Revision: 3}, "a/2": {Revision: 4, Deleted: true}}, 9)
	write(t, l)
	l.Put("a/3", 10)
	l.Delete("a/1", 11)
	l.Put("a/2", 12)
	l.Reach(20)
	write(t, l)
	l.Delete("a/3", 21)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	want := map[string]Record{"a/1": {Revision: 11, Deleted: true}, "a/2": {Revision: 12},
		"a/3": {Revision: 21, Deleted: true}}
	if got := again.Keys(); !maps.Equal(got, want) || again.Revision() != 21 || again.Deleted() != 2 ||
		!again.Created().Equal(born) {
		t.Errorf("%v at %d, %d deleted, of %v", got, again.Revision(), again.Deleted(), again.Created())
	}
	again.Forget(15)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	delete(want, "a/1")
	if last := open(t, path); !maps.Equal(last.Keys(), want) || last.Deleted() != 1 {
		t.Errorf("%v after forgetting", last.Keys())
	}
}

// Whatever a crash leaves of the file is the state at some earlier moment.
func TestCutAnywhereIsAnEarlierState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "HOSTS.keys")
	l := open(t, path)
	l.Replace(born, map[string]Record{}, 1)
	write(t, l)
	states := []map[string]Record{{}}
	for i := range 20 {
		l.Put(fmt.Sprint("a/", i%7), uint64(i+2))
		states = append(states, l.Keys())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		for name, content := range map[string][]byte{"cut": whole[:n], "flipped": flipped(whole, n)} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			got := open(t, path)
			if got.Created().IsZero() {
				if n >= headerSize {
					t.Errorf("%s at %d: nothing is known", name, n)
				}
				continue
			}
			known := false
			for _, state := range states {
				known = known || maps.Equal(state, got.Keys())
			}
			if !known {
				t.Errorf("%s at %d: %v was never so", name, n, got.Keys())
			}
		}
	}
}

func flipped(content []byte, at int) []byte {
	c := append([]byte(nil), content...)
	c[at] ^= 4
	return c
}

// The file stays within a few records for each key.
func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "HOSTS.keys")
	l := open(t, path)
	l.Replace(born, map[string]Record{}, 1)
	for i := range 5 * slack {
		l.Put(fmt.Sprint("a/", i%10), uint64(i+2))
		if i%1000 == 0 {
			if err := l.Write(false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 2*slack*(recordSize+10) {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	if got := open(t, path); len(got.Keys()) != 10 || got.Revision() != 5*slack+1 {
		t.Errorf("%d keys at %d", len(got.Keys()), got.Revision())
	}
}

// withNote gives the only record of a file a note, as earlier releases did.
func withNote(file []byte, note string) []byte {
	record := file[headerSize:]
	binary.BigEndian.PutUint16(record[recordSize-2:], uint16(len(note)))
	record = append(record, note...)
	binary.BigEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
	return append(file[:headerSize:headerSize], record...)
}

// TestNotesOfEarlierReleasesAreLeftOut: a file of an earlier release is read, and what follows a note as well.
func TestNotesOfEarlierReleasesAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "HOSTS.keys")
	file := withNote(appendRecord(appendHeader(nil, born), kindPut, 7, "a/b"), `{"spec":{"selector":{"default":true}}}`)
	if err := os.WriteFile(path, appendRecord(file, kindDelete, 8, "a/c"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]Record{"a/b": {Revision: 7}, "a/c": {Revision: 8, Deleted: true}}
	if got := open(t, path).Keys(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(appendRecord(appendHeader(nil, born), kindPut, 7, "a/b"))
	f.Add(withNote(appendRecord(appendHeader(nil, born), kindPut, 7, "a/b"), "note"))
	f.Add(appendRecord(appendRecord(appendHeader(nil, born), kindPut, 7, "a/b"), kindForget, 8, ""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := &Log{keys: map[string]Record{}}
		l.read(raw)
		content := appendHeader(nil, l.created)
		for key, r := range l.keys {
			content = appendRecord(content, kindOf(r), r.Revision, key)
		}
		again := &Log{keys: map[string]Record{}}
		again.read(content)
		if !maps.Equal(again.keys, l.keys) || again.deleted != l.deleted {
			t.Errorf("%v is read as %v", l.keys, again.keys)
		}
	})
}
