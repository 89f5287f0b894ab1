package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"glowplug/internal/store/kvstore"
)

var created = time.Date(2026, 11, 30, 8, 15, 0, 0, time.UTC)

// contents are the parts of a backup.
type contents struct {
	files   []File
	records map[string][]kvstore.Record // by resource
}

// write writes a backup of two kinds.
func (c contents) write(w io.Writer) error {
	var sources []Source
	for _, resource := range []string{"secrets", "baremetalhosts"} {
		records := c.records[resource]
		sources = append(sources, Source{
			Kind: Kind{Resource: resource, Revision: 7, Objects: len(records)},
			Records: func(f func(kvstore.Record) bool) {
				for _, r := range records {
					if !f(r) {
						return
					}
				}
			},
			Portable: func(value []byte) ([]byte, error) { return value, nil },
		})
	}
	return Write(context.Background(), w, Manifest{Created: created, Store: "S", Settled: true}, c.files, sources, func() {})
}

func (c contents) bytes(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := c.write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read returns what a backup has.
func read(r io.Reader) (c contents, m Manifest, err error) {
	c.records = map[string][]kvstore.Record{}
	m, err = Read(r, Visitor{
		File: func(f File) error { c.files = append(c.files, f); return nil },
		Record: func(resource string, r kvstore.Record) error {
			c.records[resource] = append(c.records[resource], r)
			return nil
		},
	})
	return c, m, err
}

func sample(objects int) contents {
	c := contents{files: []File{{"pki/ca.key", []byte("key\x00")}}, records: map[string][]kvstore.Record{}}
	for i := range objects {
		c.records["secrets"] = append(c.records["secrets"], kvstore.Record{
			Key: fmt.Sprintf("rack-a/s%d", i), UID: fmt.Sprint(i), Expires: created.Add(time.Duration(i) * time.Hour),
			Value: fmt.Appendf(nil, `{"data":{"a":"%d"},"text":"<\u2028>"}`, i),
		})
	}
	c.records["baremetalhosts"] = []kvstore.Record{{Key: "n", Value: []byte(`{}`)}}
	return c
}

// TestBackupIsReadAsItWasWritten: files, keys, UIDs, times of expiry and values are the same.
func TestBackupIsReadAsItWasWritten(t *testing.T) {
	for _, objects := range []int{0, 1, 3} {
		want := sample(objects)
		got, m, err := read(bytes.NewReader(want.bytes(t)))
		if objects == 0 {
			delete(want.records, "secrets")
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d objects: %v\n%+v\n%+v", objects, err, got, want)
		}
		if m.Store != "S" || !m.Settled || !m.Created.Equal(created) || m.Objects() != objects+1 || m.Kinds[0].Revision != 7 {
			t.Errorf("%+v", m)
		}
	}
}

// TestLargeKindsHaveSeveralEntries: the memory that a backup needs does not grow with a kind.
func TestLargeKindsHaveSeveralEntries(t *testing.T) {
	c := contents{records: map[string][]kvstore.Record{}}
	value := []byte(`"` + strings.Repeat("x", chunkBytes/2) + `"`)
	for i := range 5 {
		c.records["secrets"] = append(c.records["secrets"], kvstore.Record{Key: fmt.Sprint(i), Value: value})
	}
	whole := c.bytes(t)
	got, _, err := read(bytes.NewReader(whole))
	if err != nil || !reflect.DeepEqual(got.records, c.records) {
		t.Errorf("%v %d", err, len(got.records["secrets"]))
	}
}

// TestDamagedBackupIsRefused: a backup that was cut off anywhere, or in which a byte differs, is none.
func TestDamagedBackupIsRefused(t *testing.T) {
	whole := sample(3).bytes(t)
	for n := range whole {
		if _, _, err := read(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("the first %d of %d bytes are a backup", n, len(whole))
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		got, _, err := read(bytes.NewReader(flipped))
		if err == nil && !reflect.DeepEqual(got, sample(3)) {
			t.Fatalf("with another byte %d it is a backup of something else", n)
		}
	}
	if _, _, err := read(strings.NewReader("apiVersion: v1\n")); !errors.As(err, new(*DamagedError)) ||
		err.Error() != "this is no whole backup: it is not compressed by gzip (gzip: invalid header)" {
		t.Error(err)
	}
}

// TestSavedBackupIsWhole: a file appears once the backup is whole, and an error leaves the former file and no other.
func TestSavedBackupIsWhole(t *testing.T) {
	dir := t.TempDir()
	name := func(m Manifest) string { return "b.tar.gz" }
	if _, err := Save(dir, name, nil, sample(2).write); err != nil {
		t.Fatal(err)
	}
	former, err := os.ReadFile(filepath.Join(dir, "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("the store is away")
	for what, write := range map[string]func(io.Writer) error{
		"an error in the middle": func(w io.Writer) error {
			_, err := w.Write(former[:len(former)/2])
			return errors.Join(err, failure)
		},
		"no error and half of it": func(w io.Writer) error { _, err := w.Write(former[:len(former)/2]); return err },
		"more than a backup": func(w io.Writer) error {
			_, err := w.Write(append(bytes.Clone(former), former...))
			return err
		},
	} {
		if _, err := Save(dir, name, nil, write); err == nil {
			t.Errorf("%s is a backup", what)
		} else if what == "an error in the middle" && !errors.Is(err, failure) {
			t.Errorf("%s: %v", what, err)
		}
		after, err := os.ReadFile(filepath.Join(dir, "b.tar.gz"))
		files, _ := os.ReadDir(dir)
		if err != nil || !bytes.Equal(after, former) || len(files) != 1 {
			t.Errorf("after %s: %v, %d files", what, err, len(files))
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "b.tar.gz")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestTwoBackupsIntoOneFile: each writes a file of its own, so the one that ends last is there and whole; what a killed
// process has left is removed, and a link that somebody has put there is not followed.
func TestTwoBackupsIntoOneFile(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	name := func(m Manifest) string { return "b.tar.gz" }
	for _, left := range []string{".b.tar.gz.partial", ".b.tar.gz.123.partial"} {
		if err := os.WriteFile(filepath.Join(dir, left), []byte("half"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(other, nil, 0o666), os.Symlink(other, filepath.Join(dir, ".b.tar.gz.7.partial"))); err != nil {
		t.Fatal(err)
	}
	save := func(c contents, meanwhile func()) {
		t.Helper()
		if _, err := Save(dir, name, nil, func(w io.Writer) error { meanwhile(); return c.write(w) }); err != nil {
			t.Error(err)
		}
		f, err := os.Open(filepath.Join(dir, "b.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := Read(f, Visitor{}); err != nil {
			t.Error(err)
		}
	}
	save(sample(400), func() { save(sample(2), func() {}) })
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 { // with the link
		t.Errorf("%v %v", files, err)
	}
	if content, err := os.ReadFile(other); err != nil || len(content) > 0 {
		t.Errorf("a link was followed: %d bytes, %v", len(content), err)
	}
}

// TestNoBackupReplacesADevice: nor a folder.
func TestNoBackupReplacesADevice(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		os.Symlink(os.DevNull, filepath.Join(dir, "null"))); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"folder", "null"} {
		_, err := Save(dir, func(Manifest) string { return at }, nil, sample(2).write)
		if files, _ := os.ReadDir(dir); err == nil || len(files) != 2 {
			t.Errorf("%s: %v, %v", at, err, files)
		}
	}
}

// TestSealedBackup: it is read with its key, and neither without one nor with another.
func TestSealedBackup(t *testing.T) {
	key, other := newKey(t), newKey(t)
	recipients, err := ParseRecipients([]string{key.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	if _, err := Copy(&sealed, recipients, sample(2).write); err != nil {
		t.Fatal(err)
	}
	file := func(k *age.X25519Identity) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(k.String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, err := Unseal(bytes.NewReader(sealed.Bytes()), file(key))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(plain); err != nil || !reflect.DeepEqual(got, sample(2)) {
		t.Error(err)
	}
	if _, err := Unseal(bytes.NewReader(sealed.Bytes()), ""); !errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	if _, err := Unseal(bytes.NewReader(sealed.Bytes()), file(other)); err == nil {
		t.Error("another key reads it")
	}
	if plain, err = Unseal(bytes.NewReader(sealed.Bytes()[:sealed.Len()-1]), file(key)); err == nil {
		_, _, err = read(plain)
	}
	if err == nil {
		t.Error("it was cut off")
	}
	if _, err := ParseRecipients([]string{"age1none"}); err == nil || !strings.Contains(err.Error(), "age1none") {
		t.Error(err)
	}
}

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// FuzzRead: no file makes the reader fail in another way than by an error.
func FuzzRead(f *testing.F) {
	f.Add(sample(2).bytes(f))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, m, err := read(bytes.NewReader(content))
		n := 0
		for _, records := range got.records {
			n += len(records)
		}
		if err == nil && n != m.Objects() {
			t.Errorf("%d objects, and %d are announced", n, m.Objects())
		}
	})
}
