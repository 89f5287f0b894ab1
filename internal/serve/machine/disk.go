package machine

import (
	"io"
	"sync"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/image"
	"glowplug/internal/store/snapshot"
)

// ServedImages are the images of a library, whose reads are recorded in a journal as the
// progress of boots. It implements Images.
type ServedImages struct {
	Library *image.Library
	Journal image.Journal
}

// Open implements Images.
func (s ServedImages) Open(ref snapshot.Ref, version string, args []string, host *snapshot.Host) (Image, error) {
	if s.Library.IsSet(ref) {
		files, err := s.Library.Files(ref, version)
		if err != nil {
			return nil, err
		}
		return &fileSet{files, host, s.Journal}, nil
	}
	disk, err := s.Library.DiskOf(ref, version, args)
	if err != nil {
		return nil, err
	}
	return &disc{disk, disk.Progress(host, s.Journal)}, nil
}

// disc is an ISO image whose reads count as progress of a boot.
type disc struct {
	*image.Disk
	progress *image.Progress
}

// ReadAt implements io.ReaderAt.
func (d *disc) ReadAt(b []byte, off int64) (int, error) {
	d.progress.Read(off, int64(len(b)))
	return d.Disk.ReadAt(b, off)
}

// File implements Image.
func (d *disc) File(path string) (io.ReadSeeker, bool) {
	file, err := d.Lookup(path)
	if err != nil {
		return nil, false
	}
	return file.Reader(d), true
}

// fileSet is an image of several files.
type fileSet struct {
	*image.Files
	host    *snapshot.Host // nil: unknown
	journal image.Journal
}

// Size implements Image.
func (s *fileSet) Size() int64 { return -1 }

// ReadAt implements io.ReaderAt. Only the files of a set can be read.
func (s *fileSet) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// File implements Image.
func (s *fileSet) File(role string) (io.ReadSeeker, bool) {
	file, size, ok := s.Open(role)
	if !ok {
		return nil, false
	}
	content := &firstRead{SectionReader: io.NewSectionReader(file, 0, size), record: func() {}}
	if s.host != nil {
		switch role {
		case coreos.Kernel:
			content.record = sync.OnceFunc(func() { s.journal.KernelRead(s.host, s.Ref(), "/"+role) })
		case coreos.Initramfs:
			content.record = sync.OnceFunc(func() { s.journal.InitrdRead(s.host, s.Ref(), "/"+role) })
		}
	}
	return content, true
}

// firstRead is a file whose first read is recorded.
type firstRead struct {
	*io.SectionReader
	record func()
}

func (f *firstRead) Read(b []byte) (int, error) {
	f.record()
	return f.SectionReader.Read(b)
}
