package iso

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// maxConfig bounds the files of an image that are read whole.
const maxConfig = 1 << 20

// Image is an ISO image that has been looked over. It is safe for concurrent
// use, and it keeps no more than its volume descriptors.
type Image struct {
	src    source
	volume *volume
	// names is the tree whose names are used: Rock Ridge, else Joliet.
	names  *tree
	boots  []BootImage
	distro string
	files  int
}

// Extent is a range of the image.
type Extent struct{ Off, Len int64 }

// File is a file of the image. Its content is its extents, one after another.
type File struct {
	// Path is absolute. A file inside an EFI boot image is named
	// /images/efiboot.img:/EFI/BOOT/grub.cfg.
	Path    string
	Size    int64
	Extents []Extent
}

// Open looks over an image of size bytes: its descriptors, its directories and
// what boots. It fails with ErrNotISO, ErrTruncated, or with what is damaged.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	img := &Image{src: source{r, size}}
	var err error
	if img.volume, err = readVolume(img.src); err != nil {
		return nil, err
	}
	for _, t := range img.volume.trees {
		if err := t.findRockRidge(img.src); err != nil {
			return nil, err
		}
	}
	img.names = img.volume.trees[0]
	if !img.names.rockRidge {
		for _, t := range img.volume.trees[1:] {
			if t.joliet {
				img.names = t
				break
			}
		}
	}
	if img.boots, err = findBootImages(img.src, img.volume); err != nil {
		return nil, err
	}
	if err := img.survey(); err != nil {
		return nil, err
	}
	img.distro = detectDistro(img)
	return img, nil
}

// survey walks the tree once: every file has to lie within the image.
func (img *Image) survey() error {
	return newWalker(img.src, img.names).walk(func(e *entry) error {
		for _, p := range e.places {
			if p.data.size > 0 && p.data.end() > img.src.size {
				return fmt.Errorf("%w: %s ends at %d, the image at %d", ErrTruncated, e.path, p.data.end(), img.src.size)
			}
		}
		if e.dir {
			return nil
		}
		img.files++
		for i := range img.boots {
			if b := &img.boots[i]; len(e.places) == 1 && e.size > 0 && e.places[0].data.off == b.Off && b.Path == "" {
				b.Path, b.Len = e.path, max(b.Len, e.size)
			}
		}
		return nil
	})
}

// Size is the number of bytes of the image.
func (img *Image) Size() int64 { return img.src.size }

// VolumeID is the label of the volume.
func (img *Image) VolumeID() string { return img.volume.id }

// Distro is what the image installs: coreos, fedora, rhel, centos, rocky,
// almalinux, ol, debian, ubuntu, or generic.
func (img *Image) Distro() string { return img.distro }

// FileCount is the number of files of the image.
func (img *Image) FileCount() int { return img.files }

// BootImages returns what firmware can load from the image.
func (img *Image) BootImages() []BootImage { return append([]BootImage(nil), img.boots...) }

// Lookup finds a regular file. Upper and lower case are told apart only where
// the image has both; the 8.3 names of an image without longer ones count too.
func (img *Image) Lookup(name string) (File, error) {
	e, err := img.find(name)
	if err != nil {
		return File{}, err
	}
	return e.file(), nil
}

// file returns the public form of an entry.
func (e *entry) file() File {
	f := File{Path: e.path, Size: e.size}
	for _, p := range e.places {
		if n := len(f.Extents); n > 0 && f.Extents[n-1].Off+f.Extents[n-1].Len == p.data.off {
			f.Extents[n-1].Len += p.data.size
		} else {
			f.Extents = append(f.Extents, Extent{p.data.off, p.data.size})
		}
	}
	return f
}

// find looks a path up, component by component.
func (img *Image) find(name string) (*entry, error) {
	w := newWalker(img.src, img.names)
	at, parent := img.names.root, ""
	parts := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	for i, part := range parts {
		var found *entry
		exact := false
		err := w.list(at, func(e *entry) error {
			same := e.name == part
			if exact || !same && !strings.EqualFold(e.name, part) && !strings.EqualFold(e.plain, part) {
				return nil
			}
			if found != nil && !same {
				return nil
			}
			exact = same
			kept := *e
			kept.places = append([]place(nil), e.places...)
			kept.path = parent + "/" + kept.name
			found = &kept
			return nil
		})
		if err != nil {
			return nil, err
		}
		last := i == len(parts)-1
		if found == nil || found.dir == last || last && found.symlink {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
		}
		if last {
			return found, nil
		}
		at, parent = found.places[0].data, found.path
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
}

// readFile reads a small file whole.
func (img *Image) readFile(name string) ([]byte, error) {
	e, err := img.find(name)
	if err != nil {
		return nil, err
	}
	return img.content(e)
}

func (img *Image) content(e *entry) ([]byte, error) {
	if e.size > maxConfig {
		return nil, refuse(e.path, "it has %d bytes, more than the %d that are read", e.size, maxConfig)
	}
	buf := make([]byte, e.size)
	rest := buf
	for _, p := range e.places {
		n := p.data.size
		if n == 0 {
			continue
		}
		if err := img.src.read(rest[:n], p.data.off); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return buf, nil
}

func (img *Image) exists(name string) bool {
	_, err := img.find(name)
	return !errors.Is(err, ErrNotFound)
}

// Reader reads the content of the file from r, the image that it is part of.
func (f File) Reader(r io.ReaderAt) *io.SectionReader {
	if len(f.Extents) == 1 {
		return io.NewSectionReader(r, f.Extents[0].Off, f.Size)
	}
	return io.NewSectionReader(&pieces{r, f.Extents}, 0, f.Size)
}

// pieces joins the extents of a file.
type pieces struct {
	r       io.ReaderAt
	extents []Extent
}

func (p *pieces) ReadAt(buf []byte, off int64) (int, error) {
	done := 0
	for _, e := range p.extents {
		if off >= e.Len {
			off -= e.Len
			continue
		}
		n := int(min(int64(len(buf)-done), e.Len-off))
		m, err := p.r.ReadAt(buf[done:done+n], e.Off+off)
		if done += m; m < n {
			return done, err
		}
		if done == len(buf) {
			return done, nil
		}
		off = 0
	}
	return done, io.EOF
}
