package download

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
)

// copyBuffer is how much is copied between looks at the context.
const copyBuffer = 1 << 20

// Folder is where files are received.
type Folder struct {
	Root *os.Root
	// Shared lets other users of this machine read what is received.
	Shared bool
}

// mkdir makes a folder and those that it lies in.
func (f Folder) mkdir(dir string) error {
	if f.Shared {
		return f.Root.MkdirAll(dir, 0o755)
	}
	return f.Root.MkdirAll(dir, 0o700)
}

// open opens a file to write, which need not be there.
func (f Folder) open(name string, flag int) (*os.File, error) {
	flag |= os.O_RDWR | os.O_CREATE
	if f.Shared {
		return f.Root.OpenFile(name, flag, 0o644)
	}
	file, err := f.Root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o600); err != nil { // it was there with another mode
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// Replace writes a small file so that it is there whole, or as it was.
func (f Folder) Replace(name string, text []byte) error {
	if err := f.mkdir(path.Dir(name)); err != nil {
		return err
	}
	file, err := f.open(name+".new", os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = f.Root.Rename(name+".new", name)
	}
	if err != nil {
		_ = f.Root.Remove(name + ".new")
		return err
	}
	return syncDir(f.Root, path.Dir(name))
}

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Counted is a reader that tells how much was read, and ends with its context.
type Counted struct {
	Context context.Context
	Reader  io.Reader
	// Count may be nil.
	Count func(bytes float64)
}

func (c *Counted) Read(p []byte) (int, error) {
	if err := c.Context.Err(); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p)
	if c.Count != nil {
		c.Count(float64(n))
	}
	return n, err
}

// WriterOnly hides ReadFrom, so that io.CopyBuffer uses its buffer.
type WriterOnly struct{ io.Writer }
