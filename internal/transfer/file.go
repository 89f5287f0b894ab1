package transfer

import (
	"context"
	"io"
	"os"
	"path"
)

// copyBuffer is how much is copied between looks at the context.
const copyBuffer = 1 << 20

// ReplaceFile writes a small file so that it is there whole, or as it was.
func ReplaceFile(root *os.Root, name string, text []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(name+".new", name)
	}
	if err != nil {
		_ = root.Remove(name + ".new")
		return err
	}
	return SyncDir(root, path.Dir(name))
}

// SyncDir makes the names in a directory durable.
func SyncDir(root *os.Root, name string) error {
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
