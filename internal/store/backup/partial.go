package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// partialSuffix ends the name of a file that is being written.
const partialSuffix = ".partial"

// partial is a file that is being written. Nobody else writes it: its name is new, and so nobody could have put another
// file or a link there. It is locked meanwhile, which tells it from one that a process has left when it was killed.
type partial struct {
	file *os.File
	lock *flock.Flock
}

// newPartial makes the file that becomes the one of a name, and removes those that killed processes have left.
func newPartial(dir, name string) (*partial, error) {
	removePartials(dir, name)
	f, err := os.CreateTemp(dir, "."+name+".*"+partialSuffix)
	if err != nil {
		return nil, err
	}
	p := &partial{f, lockOf(f.Name())}
	_, _ = p.lock.TryLock() // a file system without locks has no killed process's file removed
	own, err := f.Stat()
	if now, gone := os.Lstat(f.Name()); err == nil && (gone != nil || !os.SameFile(own, now)) {
		err = fmt.Errorf("%s was removed: is another backup being written there?", f.Name())
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// lockOf is the lock of a file. To NFS, a lock is for who may write.
func lockOf(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_RDWR)) }

// close closes the file, and removes it unless it was renamed.
func (p *partial) close() {
	_ = os.Remove(p.file.Name())
	_ = p.file.Close()
	_ = p.lock.Close()
}

// removePartials removes the files that became none of a name, as far as that is possible.
func removePartials(dir, name string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		isPartial := strings.HasPrefix(entry.Name(), "."+name+".") && strings.HasSuffix(entry.Name(), partialSuffix)
		if !isPartial || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		lock := lockOf(path)
		if free, err := lock.TryLock(); free && err == nil {
			_ = os.Remove(path)
		}
		_ = lock.Close()
	}
}
