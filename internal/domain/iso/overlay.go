package iso

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"
)

// Overlay is an image with patches on it: an io.ReaderAt over the untouched
// image that was given to Open, with ranges replaced and maybe a tail after its
// end. It is safe for concurrent use as far as that image is.
type Overlay struct {
	// segments are all of the patched image, in order.
	segments []Segment
	size     int64
	patched  []string
	args     []string
	ownArgs  []string
	image    *Image
}

// Segment is a piece of a disk: Len bytes of Source at Off or, where Data is not nil,
// these bytes, which never change.
type Segment struct {
	// Source is the untouched image as it was given to Open, such as a file.
	Source   io.ReaderAt
	Off, Len int64
	Data     []byte
}

// isPadding reports whether the segment is all of the padding behind moved files.
func (s *Segment) isPadding() bool { return len(s.Data) == len(padding) && &s.Data[0] == &padding[0] }

// Split returns the first n bytes of the segment, or all of it, and the rest.
func (s Segment) Split(n int64) (first, rest Segment) {
	first, rest = s, s
	first.Len = min(n, s.Len)
	rest.Off += first.Len
	rest.Len -= first.Len
	if s.Data != nil {
		first.Data, rest.Data = s.Data[:first.Len], s.Data[first.Len:]
	}
	return first, rest
}

// Size is the number of bytes of the patched image.
func (o *Overlay) Size() int64 { return o.size }

// Patched names the files whose content differs, in the order in which they
// were found. Files inside an EFI boot image are named as File.Path says.
func (o *Overlay) Patched() []string { return append([]string(nil), o.patched...) }

// Args returns the kernel arguments that are set, with ${glowplug} replaced.
func (o *Overlay) Args() []string { return append([]string(nil), o.args...) }

// OwnArgs returns the kernel arguments of the image itself that stay in its boot entries, in the order of
// their names. Some entries may lack one of them. It is empty where no arguments are set.
func (o *Overlay) OwnArgs() []string { return slices.Clone(o.ownArgs) }

// Image is the patched image: what it finds lies in the overlay, not in the
// untouched image.
func (o *Overlay) Image() *Image { return o.image }

// Replace returns the overlay with another text of the same length in place of one in its patches.
// That costs much less than to customize the image again.
func (o *Overlay) Replace(old, text string) *Overlay {
	replaced := *o
	replaced.segments = slices.Clone(o.segments)
	for i := range replaced.segments {
		if s := &replaced.segments[i]; bytes.Contains(s.Data, []byte(old)) {
			s.Data = bytes.ReplaceAll(s.Data, []byte(old), []byte(text))
		}
	}
	replaced.args = slices.Clone(o.args)
	for i, arg := range replaced.args {
		replaced.args[i] = strings.ReplaceAll(arg, old, text)
	}
	return &replaced
}

// CanReplace reports whether Replace finds each occurrence of a text. The pieces of a file may be apart, and
// a text that lies in two of them is not found; one of its halves is then.
func (o *Overlay) CanReplace(old string) bool {
	count := func(text string) (n int) {
		for _, s := range o.segments {
			n += bytes.Count(s.Data, []byte(text))
		}
		return n
	}
	half := len(old) / 2
	whole := count(old)
	return count(old[:half]) == whole && count(old[half:]) == whole
}

// Kept is the number of bytes that the overlay keeps in memory, without the padding that all share.
func (o *Overlay) Kept() int64 {
	var n int64
	for _, s := range o.segments {
		if !s.isPadding() {
			n += int64(len(s.Data))
		}
	}
	return n
}

// AppendSegments adds the segments of the n bytes at off to dst. It leaves out bytes
// beyond the end, and does not allocate where dst has room.
func (o *Overlay) AppendSegments(dst []Segment, off, n int64) []Segment {
	if off < 0 {
		return dst
	}
	i := sort.Search(len(o.segments), func(i int) bool { return o.segments[i].Off+o.segments[i].Len > off })
	for ; n > 0 && i < len(o.segments); i++ {
		_, s := o.segments[i].Split(off - o.segments[i].Off)
		s, _ = s.Split(n)
		dst = append(dst, s)
		off += s.Len
		n -= s.Len
	}
	return dst
}

// ReadAt reads the patched image.
func (o *Overlay) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("iso: a negative offset")
	}
	if off >= o.size {
		return 0, io.EOF
	}
	done := 0
	var few [8]Segment
	for _, s := range o.AppendSegments(few[:0], off, int64(len(p))) {
		if s.Data != nil {
			done += copy(p[done:], s.Data)
			continue
		}
		n, err := s.Source.ReadAt(p[done:done+int(s.Len)], s.Off)
		if done += n; int64(n) < s.Len {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the image has shrunk since
			}
			return done, err
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}
