package iso

import (
	"errors"
	"fmt"
	"io"
)

// sector is the block size of a CD (ECMA-119, section 6.1.2), and of every image that is read here.
const sector = 2048

var (
	// ErrNotISO is returned by Open for bytes that are no ISO 9660 image.
	ErrNotISO = errors.New("no ISO 9660 image")
	// ErrTruncated is an image that ends before its content does.
	ErrTruncated = errors.New("the image is truncated")
	// ErrNotFound is a path that the image does not have.
	ErrNotFound = errors.New("no such file in the image")
	// ErrNoBaseURL is an argument with ${glowplug} where Options have no BaseURL.
	ErrNoBaseURL = errors.New("the server's URL for ${glowplug} is not known")
)

// A PatchError names the file of the image that cannot be patched.
type PatchError struct {
	Path   string
	Reason string
}

func (e *PatchError) Error() string { return e.Path + ": " + e.Reason }

func refuse(path, format string, args ...any) error {
	return &PatchError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// reader returns whole ranges: an image, or an image with patches on it.
type reader interface {
	// read fills buf from off, or fails.
	read(buf []byte, off int64) error
}

// source is an image as it was given.
type source struct {
	r    io.ReaderAt
	size int64
}

func (s source) read(buf []byte, off int64) error {
	if off < 0 || off > s.size-int64(len(buf)) {
		return fmt.Errorf("%w: %d bytes at %d are missing, it has %d", ErrTruncated, len(buf), off, s.size)
	}
	n, err := s.r.ReadAt(buf, off)
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %d bytes at %d cannot be read", ErrTruncated, len(buf), off)
	}
	return err
}

// Extent is a range of the image.
type Extent struct{ Off, Len int64 }

func (e Extent) end() int64 { return e.Off + e.Len }

func (e Extent) overlaps(o Extent) bool { return e.Off < o.end() && o.Off < e.end() }

// appendExtent adds a range to a list, where an adjacent one becomes part of the last.
func appendExtent(list []Extent, e Extent) []Extent {
	if n := len(list); n > 0 && list[n-1].end() == e.Off {
		list[n-1].Len += e.Len
		return list
	}
	return append(list, e)
}

// align rounds n up to whole blocks.
func align(n int64) int64 { return (n + sector - 1) / sector * sector }
