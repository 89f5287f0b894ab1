package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"filippo.io/age"

	"glowplug/internal/store/ledger"
)

// Copy passes what write writes on to w, encrypted for recipients, and verifies it meanwhile. It returns what the
// backup has; w has a whole backup if there is no error.
func Copy(w io.Writer, recipients []age.Recipient, write func(io.Writer) error) (Manifest, error) {
	sealed, err := Seal(w, recipients)
	if err != nil {
		return Manifest{}, err
	}
	type result struct {
		manifest Manifest
		err      error
	}
	verified := make(chan result, 1)
	out, in := io.Pipe()
	go func() {
		m, err := Read(out, Visitor{})
		out.CloseWithError(err)
		verified <- result{m, err}
	}()
	err = write(io.MultiWriter(sealed, in))
	in.CloseWithError(err)
	read := <-verified
	switch {
	case err != nil && !errors.As(err, new(*DamagedError)):
		return Manifest{}, err
	case read.err != nil:
		return Manifest{}, read.err
	}
	return read.manifest, sealed.Close()
}

// Save writes a backup into a file of a folder that does not exist until it is whole, verified and on the disk. name
// returns the name of the file; one of that name is replaced.
func Save(dir string, name func(Manifest) string, recipients []age.Recipient, write func(io.Writer) error) (
	Manifest, error) {
	if at := filepath.Join(dir, name(Manifest{})); isOther(at) {
		return Manifest{}, fmt.Errorf("%s is no file that a backup could replace: name another one", at)
	}
	p, err := newPartial(dir, name(Manifest{}))
	if err != nil {
		return Manifest{}, err
	}
	defer p.close()
	m, err := Copy(p.file, recipients, write)
	if err == nil {
		err = p.file.Sync()
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return Manifest{}, err
	}
	if err := os.Rename(p.file.Name(), filepath.Join(dir, name(m))); err != nil {
		return Manifest{}, err
	}
	return m, ledger.SyncDir(dir)
}

// isOther reports whether something is there that is no file, such as /dev/null.
func isOther(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// Name is the name of the file of a backup that is one of many, among them those of other stores.
func Name(m Manifest, sealed bool) string {
	name := fmt.Sprintf("glowplug-%s-%s.tar.gz", m.Created.UTC().Format("20060102T150405Z"), ShortID(m.Store))
	if sealed {
		name += ".age"
	}
	return name
}

// ShortID is the part of the identity of a store that is in the names of its backups.
func ShortID(store string) string { return store[:min(len(store), 8)] }
