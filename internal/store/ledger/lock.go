package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// LockedError says that another process holds the data directory.
type LockedError struct {
	Dir string
	// Holder describes the process, as it wrote it down itself: "pid 4711 on
	// node1 since 2025-01-31T12:00:00Z". It is empty if the file does not say.
	Holder string
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("the data directory %s is in use by %s", e.Dir, holder)
}

// Hint is what to do about it.
func (e *LockedError) Hint() string {
	return "stop that process, or choose another directory with --data-dir"
}

// lock is what keeps other processes out of a data directory: a lock on the folder itself, which
// nobody can remove by mistake, and one on a file in it, which names the holder, and which is all that
// a file system without locks on folders has (NFS), and that earlier releases know.
type lock struct {
	folder, file *flock.Flock
}

// lockDir takes the directory for this process and writes down who holds it. The
// kernel drops the locks with the process, so a stale file does no harm.
func lockDir(dir string) (*lock, error) {
	path := filepath.Join(dir, "store.lock")
	l := &lock{folder: flock.New(dir, flock.SetFlag(os.O_RDONLY)), file: flock.New(path, flock.SetPermissions(0o600))}
	free, unsupported := l.folder.TryLock()
	if free || unsupported != nil {
		var err error
		if free, err = l.file.TryLock(); err != nil {
			l.unlock()
			return nil, fmt.Errorf("locking the data directory: %w", err)
		}
	}
	if !free {
		l.unlock()
		holder, _ := os.ReadFile(path) // who holds it is a courtesy; that it is held is the error
		return nil, &LockedError{Dir: dir, Holder: strings.TrimSpace(string(holder))}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	holder := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(holder), 0o600); err != nil {
		l.unlock()
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return l, nil
}

func (l *lock) unlock() {
	_ = l.file.Unlock() // the kernel drops what is left
	_ = l.folder.Unlock()
}

// check opens the file of the lock as a write to the folder would. A file system that has turned
// read-only refuses that; no flag of it has to say so.
func (l *lock) check() (readOnly, lost error) {
	f, err := os.OpenFile(l.file.Path(), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it was removed")
	}
	if err != nil {
		return err, nil
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err, nil
	}
	if locked, err := l.file.Stat(); err != nil || !os.SameFile(now, locked) {
		return nil, errors.New("another file is in its place")
	}
	return nil, nil
}

// Writable says why nothing must be written into the store now; nil: it may be. It is cheap
// enough to be asked before each write.
func (l *Ledger) Writable() error {
	readOnly, lost := l.lock.check()
	switch {
	case lost != nil:
		return fmt.Errorf("the lock %s does not keep other servers out any more: %w; see that no other server uses the data "+
			"directory, and restart this one", l.lock.file.Path(), lost)
	case readOnly != nil && l.place == Embedded:
		return fmt.Errorf("the data directory %s cannot be written: %w; look at its file system and its disk", l.dir, readOnly)
	}
	return nil
}
