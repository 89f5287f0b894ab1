package download

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
)

const (
	// MaxBytes bounds a file that is received.
	MaxBytes = 64 << 30

	partSuffix  = ".part"
	stateSuffix = ".part.json"
)

var (
	// ErrNoPart says that there is nothing to go on with.
	ErrNoPart = errors.New("nothing was received yet")
	// ErrTooLarge says that a file is larger than is taken.
	ErrTooLarge = fmt.Errorf("a file has at most %d bytes", int64(MaxBytes))
	// ErrTooMuch says that more came than the sender told.
	ErrTooMuch = errors.New("there is more than the length that was told")
	// ErrBusy says that another process is receiving the same file.
	ErrBusy = errors.New("another server receives it now")
)

// State is the progress of a transfer, as it is stored beside its file. It is
// written after the bytes that it speaks of are durable.
type State struct {
	// Origin says where the bytes come from: only the same goes on.
	Origin string `json:"origin"`
	// Validator is the ETag or date that the server gave them, From which server. Of an
	// upload it is the id that the client gave to all its pieces.
	Validator string `json:"validator,omitempty"`
	From      string `json:"from,omitempty"`
	// Offset is how many there are, Total how many there will be, -1: not known.
	Offset int64 `json:"offset"`
	Total  int64 `json:"total"`
	// Hash is the state of the SHA-256 over the bytes up to Offset.
	Hash []byte `json:"hash"`
}

// Part is a file on its way: it grows under another name than its own, and its
// digest with it.
type Part struct {
	folder    Folder
	dir, name string
	file      *os.File
	hash      hash.Hash
	// State is the progress. The caller may set Total and Validator; the Part sets the other fields.
	State State
	// saved is the offset of the last checkpoint, step the bytes between two.
	saved, step int64
}

// ReadState returns the progress of the transfer of the named file from the origin.
func ReadState(root *os.Root, dir, name, origin string) (State, error) {
	var s State
	text, err := root.ReadFile(path.Join(dir, name+stateSuffix))
	if err != nil {
		return s, ErrNoPart
	}
	if json.Unmarshal(text, &s) != nil || s.Origin != origin || s.Offset < 0 {
		return State{}, ErrNoPart
	}
	info, err := root.Stat(path.Join(dir, name+partSuffix))
	if err != nil || info.Size() < s.Offset || restore(s.Hash) == nil {
		return State{}, ErrNoPart
	}
	return s, nil
}

// restore gives a hash back its state; nil where it is none.
func restore(state []byte) hash.Hash {
	h := sha256.New()
	u, ok := h.(encoding.BinaryUnmarshaler)
	if !ok || u.UnmarshalBinary(state) != nil {
		return nil
	}
	return h
}

// Partial is the digest of what the state speaks of, in hex.
func (s *State) Partial() string {
	if h := restore(s.Hash); h != nil {
		return hex.EncodeToString(h.Sum(nil))
	}
	return ""
}

// OpenPart goes on with the transfer of the named file from the origin, or begins
// one. step is how many bytes come between two checkpoints. What was written after the
// last checkpoint is cut off: its digest is not known.
func (f Folder) OpenPart(dir, name, origin string, step int64) (*Part, error) {
	if err := f.mkdir(dir); err != nil {
		return nil, err
	}
	file, err := f.open(path.Join(dir, name+partSuffix), 0)
	if err != nil {
		return nil, err
	}
	if err := own(f.Root, dir, name, file); err != nil {
		_ = file.Close()
		return nil, err
	}
	p := &Part{folder: f, dir: dir, name: name, file: file, step: step, State: State{Origin: origin}}
	if state, stateErr := ReadState(f.Root, dir, name, origin); stateErr != nil {
		err = p.Restart()
	} else {
		p.State, p.hash = state, restore(state.Hash)
		err = p.cut()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return p, nil
}

// own makes an open file this process's to write into, if it is still the unfinished
// one: another may have given it its name meanwhile.
func own(root *os.Root, dir, name string, f *os.File) error {
	if lock(f) != nil {
		return ErrBusy
	}
	here, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := root.Stat(path.Join(dir, name+partSuffix))
	if err != nil || !os.SameFile(here, there) {
		return ErrBusy
	}
	return nil
}

// Restart begins at the first byte. The error is a LocalError.
func (p *Part) Restart() error {
	if err := p.removeState(); err != nil {
		return LocalError{err}
	}
	p.State, p.hash = State{Origin: p.State.Origin, Total: -1}, sha256.New()
	return p.cut()
}

// cut removes what the file has beyond the offset of the state.
func (p *Part) cut() error {
	p.saved = p.State.Offset
	err := p.file.Truncate(p.saved)
	if err == nil {
		_, err = p.file.Seek(p.saved, io.SeekStart)
	}
	if err != nil {
		return LocalError{err}
	}
	return nil
}

func (p *Part) removeState() error {
	err := p.folder.Root.Remove(path.Join(p.dir, p.name+stateSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write adds bytes. They count once they are saved.
func (p *Part) Write(b []byte) (int, error) {
	if p.State.Total >= 0 && p.State.Offset+int64(len(b)) > p.State.Total {
		return 0, ErrTooMuch
	}
	if p.State.Offset+int64(len(b)) > MaxBytes {
		return 0, ErrTooLarge
	}
	n, err := p.file.Write(b)
	p.hash.Write(b[:n])
	p.State.Offset += int64(n)
	if err == nil && p.State.Offset-p.saved >= p.step {
		err = p.Save()
	}
	return n, err
}

// Save makes the received bytes durable, so that a transfer can continue from here.
func (p *Part) Save() error {
	if p.State.Offset == p.saved {
		return nil
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	state, err := p.hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	p.State.Hash = state
	text, err := json.Marshal(&p.State)
	if err != nil {
		return err
	}
	if err := p.folder.Replace(path.Join(p.dir, p.name+stateSuffix), text); err != nil {
		return err
	}
	p.saved = p.State.Offset
	return nil
}

// Whole reports whether the file is complete.
func (p *Part) Whole() bool { return p.State.Total >= 0 && p.State.Offset == p.State.Total }

// Sum is the digest of the received bytes, in hex.
func (p *Part) Sum() string { return hex.EncodeToString(p.hash.Sum(nil)) }

// Commit gives the file its own name, in one step, in the place of what has it.
func (p *Part) Commit(name string) error {
	if err := p.folder.Root.Rename(path.Join(p.dir, p.name+partSuffix), path.Join(p.dir, name)); err != nil {
		return err
	}
	if err := p.removeState(); err != nil {
		return err
	}
	return syncDir(p.folder.Root, p.dir)
}

// Discard removes the received bytes.
func (p *Part) Discard() {
	_ = p.removeState()
	_ = p.folder.Root.Remove(path.Join(p.dir, p.name+partSuffix))
}

// Close ends the use of the file; what was not saved is lost.
func (p *Part) Close() { _ = p.file.Close() }

// Sync makes the bytes durable.
func (p *Part) Sync() error { return p.file.Sync() }

// Stat describes the file.
func (p *Part) Stat() (os.FileInfo, error) { return p.file.Stat() }

// ReadAt reads the received bytes.
func (p *Part) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// copyBuffer is how much is copied between two checks of the context.
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

// Counted is a reader that counts the bytes, and ends with its context.
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
