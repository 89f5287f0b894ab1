package download

import (
	"os"
	"syscall"
)

// lock keeps other processes, on other machines too where the folder is shared,
// from writing into a file until it is closed. It does not wait.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
