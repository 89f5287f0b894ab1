package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	firstDescriptor = 16 * sector
	maxDescriptors  = 64
)

// volume is the content of the volume descriptors.
type volume struct {
	id      string
	trees   []*tree // the primary one first
	catalog uint32  // block of the El Torito boot catalogue, 0: none
	end     int64   // the end of the volume, in bytes
	udf     bool    // the image is also UDF
}

// tree is one directory tree: the primary one, or one of the supplementary
// (Joliet, or the long names of ISO 9660:1999). All name the same files.
type tree struct {
	descriptor int64 // offset of its volume descriptor
	root       Extent
	joliet     bool
	// rockRidge is true if its records have POSIX names; skip is the number of bytes
	// before these.
	rockRidge bool
	skip      int
}

// readVolume reads the volume descriptors (ECMA-119, section 8).
func readVolume(src source) (*volume, error) {
	if src.size < firstDescriptor+sector {
		return nil, fmt.Errorf("%w: it has %d bytes, the first volume descriptor stands at %d", ErrNotISO, src.size,
			firstDescriptor)
	}
	v := &volume{}
	buf := make([]byte, sector)
	terminated := false
	end := min(src.size, firstDescriptor+maxDescriptors*sector)
	for off := int64(firstDescriptor); off+sector <= end; off += sector {
		if err := src.read(buf, off); err != nil {
			return nil, err
		}
		switch string(buf[1:6]) { // the standard identifier
		case "NSR02", "NSR03": // UDF
			v.udf = true
		case "BEA01", "TEA01", "BOOT2": // UDF or ECMA-168
		case "CD001":
			if terminated {
				continue // UDF may follow the terminator
			}
			terminated = buf[0] == 255
			if err := v.add(buf, off); err != nil {
				return nil, err
			}
		default:
			if off == firstDescriptor {
				return nil, fmt.Errorf("%w: no volume descriptor at %d", ErrNotISO, off)
			}
			return v, v.check(src)
		}
	}
	return v, v.check(src)
}

// add reads a volume descriptor at off (ECMA-119, sections 8.2 to 8.5; El Torito, section 2.0).
func (v *volume) add(buf []byte, off int64) error {
	switch buf[0] {
	case 0:
		if bytes.HasPrefix(buf[7:], []byte("EL TORITO SPECIFICATION")) {
			v.catalog = binary.LittleEndian.Uint32(buf[71:])
		}
	case 1:
		if len(v.trees) == 0 {
			v.id = printable(strings.TrimRight(string(buf[40:72]), " \x00"))
			v.end = int64(binary.LittleEndian.Uint32(buf[80:])) * sector
			return v.addTree(buf, off, false)
		}
	case 2:
		if len(v.trees) > 0 && len(v.trees) <= 8 {
			escape := string(buf[88:91])
			return v.addTree(buf, off, escape == "%/@" || escape == "%/C" || escape == "%/E")
		}
	}
	return nil
}

// check returns an error unless the descriptors describe a whole ISO 9660 volume.
func (v *volume) check(src source) error {
	if len(v.trees) == 0 {
		return fmt.Errorf("%w: it has no primary volume descriptor", ErrNotISO)
	}
	if v.end > src.size {
		return fmt.Errorf("%w: its volume has %d bytes, the file %d", ErrTruncated, v.end, src.size)
	}
	return nil
}

func (v *volume) addTree(descriptor []byte, off int64, joliet bool) error {
	if size := binary.LittleEndian.Uint16(descriptor[128:]); size != sector {
		return fmt.Errorf("the image has blocks of %d bytes: only %d are read", size, sector)
	}
	root, err := parseRecord(descriptor[156:190], off+156)
	if err != nil {
		return fmt.Errorf("volume descriptor at %d: %w", off, err)
	}
	v.trees = append(v.trees, &tree{descriptor: off, root: root.data, joliet: joliet})
	return nil
}

// printable replaces control characters, which would disturb a terminal or a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

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
