// Package iso reads bootable ISO images and sets kernel arguments in them
// without writing to them: the outcome is an Overlay, a few replaced ranges and
// a tail over the untouched image.
//
// An image is read from an io.ReaderAt that may hold anything: every offset,
// length, depth and loop in it is bounded, and what cannot be patched whole is
// refused with the name of the file. The package knows no clock, no network and
// no disk.
package iso

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxConfig bounds the files of an image that are read whole.
const maxConfig = 1 << 20

// Image is an ISO image that was read by Open. It is safe for concurrent use, and keeps
// no more than its volume descriptors and what boots.
type Image struct {
	src    source
	volume *volume
	// names is the tree whose names are used: Rock Ridge, else Joliet.
	names  *tree
	boots  []BootImage
	distro string
	files  int

	architectures []string
}

// File is a file of the image. Its content is its extents, one after another.
type File struct {
	// Path is absolute. A file inside an EFI boot image is named
	// /images/efiboot.img:/EFI/BOOT/grub.cfg.
	Path    string
	Size    int64
	Extents []Extent
}

// Open reads the descriptors and directories of an image of size bytes, and finds what
// boots. Its errors are ErrNotISO, ErrTruncated, or say what is damaged.
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
	joliet := slices.IndexFunc(img.volume.trees, func(t *tree) bool { return t.joliet })
	if !img.names.rockRidge && joliet > 0 {
		img.names = img.volume.trees[joliet]
	}
	if img.boots, err = findBootImages(img.src, img.volume); err != nil {
		return nil, err
	}
	if err := img.survey(); err != nil {
		return nil, err
	}
	img.distro, img.architectures = detectDistro(img), findArchitectures(img)
	return img, nil
}

// survey walks the tree once. It returns an error for a file beyond the end of the image.
func (img *Image) survey() error {
	return walk(img.names.reader(img.src), func(e *entry) error {
		for _, p := range e.places {
			if p.data.Len > 0 && p.data.end() > img.src.size {
				return fmt.Errorf("%w: %s ends at %d, the image at %d", ErrTruncated, e.path, p.data.end(), img.src.size)
			}
		}
		if e.dir {
			return nil
		}
		img.files++
		i := startsAt(img.boots, e.places[0].data.Off)
		if i >= 0 && len(e.places) == 1 && e.size > 0 && img.boots[i].Path == "" {
			img.boots[i].Path, img.boots[i].Len = e.path, max(img.boots[i].Len, e.size)
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

// Architectures returns the architectures of the machines that can boot the image, in
// order; none if the image does not name them.
func (img *Image) Architectures() []string { return img.architectures }

// FileCount is the number of files of the image.
func (img *Image) FileCount() int { return img.files }

// BootImages returns what firmware can load from the image.
func (img *Image) BootImages() []BootImage { return slices.Clone(img.boots) }

// part is a file system of an image: the tree of the volume, or a FAT file system.
type part struct {
	fileSystem
	src  reader
	boot *BootImage // that has the file system, nil: the volume
}

// parts returns the file systems of the image, whose content is read from src. They are
// for one walk each.
func (img *Image) parts(src reader) []part {
	parts := []part{{img.names.reader(src), src, nil}}
	for i := range img.boots {
		if b := &img.boots[i]; b.FAT {
			parts = append(parts, part{b.fs.on(src), src, b})
		}
	}
	return parts
}

// name returns the name of a file for messages and for File.Path.
func (p part) name(path string) string {
	if p.boot == nil {
		return path
	}
	return p.boot.inside(path)
}

// file returns the public form of an entry.
func (p part) file(e *entry) (File, error) {
	extents, err := p.extents(e)
	if err != nil {
		err = refuse(p.name(e.path), "%v", err)
	}
	return File{Path: p.name(e.path), Size: e.size, Extents: extents}, err
}

// readEntry reads a small file.
func (p part) readEntry(e *entry) ([]byte, error) {
	f, err := p.file(e)
	if err != nil {
		return nil, err
	}
	if f.Size > maxConfig {
		return nil, refuse(f.Path, "it has %d bytes, more than the %d that are read", f.Size, maxConfig)
	}
	buf := make([]byte, f.Size)
	rest := buf
	for _, e := range f.Extents {
		if err := p.src.read(rest[:e.Len], e.Off); err != nil {
			return nil, err
		}
		rest = rest[e.Len:]
	}
	return buf, nil
}

// readFile reads a small file by its path.
func (p part) readFile(name string) ([]byte, error) {
	e, err := find(p, name)
	if err != nil {
		return nil, err
	}
	return p.readEntry(e)
}

// tree returns the tree of the volume.
func (img *Image) tree() part { return part{img.names.reader(img.src), img.src, nil} }

// Lookup finds a regular file. Upper and lower case are distinguished only where
// the image has both; the 8.3 names of an image without longer ones count too.
func (img *Image) Lookup(name string) (File, error) {
	tree := img.tree()
	e, err := find(tree, name)
	if err != nil {
		return File{}, err
	}
	return tree.file(e)
}

func (img *Image) exists(name string) bool {
	_, err := find(img.tree(), name)
	return !errors.Is(err, ErrNotFound)
}

// Reader reads the content of the file from r, the image that it is part of.
func (f File) Reader(r io.ReaderAt) *io.SectionReader {
	return io.NewSectionReader(&pieces{r, f.Extents}, 0, f.Size)
}

// At returns where the image has the byte at off of the file, and how many of the n bytes from there are together.
func (f File) At(off, n int64) (at, together int64) {
	for _, e := range f.Extents {
		if off < e.Len {
			return e.Off + off, min(n, e.Len-off)
		}
		off -= e.Len
	}
	return 0, 0
}

// pieces joins the extents of a file.
type pieces struct {
	r       io.ReaderAt
	extents []Extent
}

func (p *pieces) ReadAt(buf []byte, off int64) (done int, err error) {
	for _, e := range p.extents {
		if off >= e.Len {
			off -= e.Len
			continue
		}
		n := int(min(int64(len(buf)-done), e.Len-off))
		m, err := p.r.ReadAt(buf[done:done+n], e.Off+off)
		if done += m; m < n || done == len(buf) {
			return done, err
		}
		off = 0
	}
	return done, io.EOF
}
