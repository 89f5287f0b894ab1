package ledger

import (
	"fmt"
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

// lock takes the directory for this process and writes down who holds it. The
// kernel drops the lock with the process, so a stale file does no harm.
func lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, "store.lock")
	fl := flock.New(path, flock.SetPermissions(0o600))
	ok, err := fl.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if !ok {
		holder, _ := os.ReadFile(path) // who holds it is a courtesy; that it is held is the error
		return nil, &LockedError{Dir: dir, Holder: strings.TrimSpace(string(holder))}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	holder := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(holder), 0o600); err != nil {
		_ = fl.Unlock()
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return func() { _ = fl.Unlock() }, nil
}
