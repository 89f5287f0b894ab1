package machine

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"

	"glowplug/internal/domain/iso"
	"glowplug/internal/image"
)

// The kernel sends what an answer has of files (sendfile), where the connection can do that: io.Copy asks the writer of
// the answer to read the file by itself, and net/http asks the connection.

const (
	// minSent is the shortest content of an image that the kernel sends, and maxPart how much it sends between two
	// checks of the image. checkedEnd is the end of each content, which is copied: it is checked before it is sent, so
	// that no answer with bytes of a file that has changed is complete.
	minSent    = 64 << 10
	maxPart    = 1 << 20
	checkedEnd = 4 << 10
)

// ReadFrom writes a part of the body. It implements io.ReaderFrom.
func (w *response) ReadFrom(src io.Reader) (n int64, err error) {
	to, can := w.ResponseWriter.(io.ReaderFrom)
	part, bounded := src.(*io.LimitedReader)
	if !can || !bounded {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if c, ok := part.R.(*imageContent); ok && part.N >= minSent {
		n, err = c.send(to, part.N)
	} else {
		n, err = to.ReadFrom(part)
	}
	w.bytes += int(n)
	if err != nil {
		w.broken = err
	}
	return n, err
}

// imageContent is an image or a file of it.
type imageContent struct {
	*io.SectionReader
	// next returns where the first of the n bytes at off are, and counts these as read.
	next func(off, n int64) (iso.Segment, error)
	// file is a handle of its own of the sent file: other handles share their position with other readers.
	file, own *os.File
}

// send sends the next n bytes.
func (c *imageContent) send(to io.ReaderFrom, n int64) (sent int64, err error) {
	defer func() { _ = c.own.Close() }() // of nil as well
	for sent < n-checkedEnd {
		off, _ := c.Seek(0, io.SeekCurrent)
		segment, err := c.next(off, min(maxPart, n-checkedEnd-sent))
		if err != nil {
			return sent, err
		}
		done, err := to.ReadFrom(c.reader(segment))
		sent += done
		if err == nil && done < segment.Len {
			err = io.ErrUnexpectedEOF // the file has become shorter
		}
		if err != nil {
			return sent, err
		}
		_, _ = c.Seek(done, io.SeekCurrent)
	}
	done, err := to.ReadFrom(io.LimitReader(c, n-sent))
	return sent + done, err
}

// reader returns a segment as the connection takes it: of a file, if it can be opened again, as a part of the file.
func (c *imageContent) reader(s iso.Segment) io.Reader {
	if s.Data != nil {
		return bytes.NewReader(s.Data)
	}
	if file, ok := s.Source.(*os.File); ok {
		var err error
		if c.file != file {
			c.file = file
			c.own, err = image.Reopen(file)
		}
		if _, failure := c.own.Seek(s.Off, io.SeekStart); errors.Join(err, failure) == nil {
			return io.LimitReader(c.own, s.Len)
		}
	}
	return io.NewSectionReader(s.Source, s.Off, s.Len)
}
