package iso

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// maxKept bounds what an overlay keeps in memory.
const maxKept = 16 << 20

// padding are the zero bytes between moved files and the end of the image. Readers that do not know
// the size of a CD read beyond the end of a file: GRUB on BIOS whole blocks of 32 KiB. mkisofs and xorriso
// pad their images by as much for the same reason. The patches of all images share the bytes.
var padding [300 << 10]byte

// patch gathers changes to an image, block by block.
type patch struct {
	src    source
	blocks map[int64][]byte // by number
	tail   []byte           // from the first whole block after the image
	backup []byte           // the copy of a partition table, behind the tail and its padding
	// claims are the ranges that belong to the content of one file each.
	claims []claim
}

type claim struct {
	Extent
	path string
}

func newPatch(src source) *patch { return &patch{src: src, blocks: map[int64][]byte{}} }

// read fills buf from the image with the patches so far, but not from the tail.
func (p *patch) read(buf []byte, off int64) error {
	if err := p.src.read(buf, off); err != nil {
		return err
	}
	for n := off / sector; n*sector < off+int64(len(buf)); n++ {
		if b := p.blocks[n]; b != nil {
			if at := n*sector - off; at >= 0 {
				copy(buf[at:], b)
			} else {
				copy(buf, b[-at:])
			}
		}
	}
	return nil
}

// write puts data at off, within the image.
func (p *patch) write(data []byte, off int64) error {
	for len(data) > 0 {
		n := off / sector
		b := p.blocks[n]
		if b == nil {
			b = make([]byte, min(sector, p.src.size-n*sector))
			if err := p.src.read(b, n*sector); err != nil {
				return err
			}
			p.blocks[n] = b
		}
		done := copy(b[off-n*sector:], data)
		if done == 0 {
			return ErrTruncated
		}
		data, off = data[done:], off+int64(done)
	}
	return nil
}

// claim reserves a range for the content of a file. No two files share one.
func (p *patch) claim(path string, e Extent) error {
	for _, c := range p.claims {
		if c.overlaps(e) {
			return refuse(path, "it shares its blocks with %s", c.path)
		}
	}
	p.claims = append(p.claims, claim{e, path})
	return nil
}

// add puts content behind the image and returns its offset.
func (p *patch) add(content []byte) int64 {
	at := p.tailStart() + int64(len(p.tail))
	p.tail = append(p.tail, content...)
	p.tail = append(p.tail, make([]byte, align(int64(len(p.tail)))-int64(len(p.tail)))...)
	return at
}

func (p *patch) tailStart() int64 { return align(p.src.size) }

// size is that of the patched image.
func (p *patch) size() int64 {
	if len(p.tail) == 0 {
		return p.src.size
	}
	return p.backupStart() + int64(len(p.backup))
}

// backupStart is the end of the padding behind the tail.
func (p *patch) backupStart() int64 { return p.tailStart() + int64(len(p.tail)+len(padding)) }

// overlay returns the patched image. Neighbouring blocks are joined.
func (p *patch) overlay() *Overlay {
	o := &Overlay{size: p.size()}
	at := int64(0) // the end of the segments so far
	untouched := func(end int64) {
		if end > at {
			o.segments = append(o.segments, Segment{Source: p.src.r, Off: at, Len: end - at})
			at = end
		}
	}
	replace := func(off int64, data []byte) {
		untouched(off)
		at += int64(len(data))
		if n := len(o.segments); n > 0 && o.segments[n-1].Data != nil {
			last := &o.segments[n-1]
			last.Data = append(last.Data, data...)
			last.Len = int64(len(last.Data))
			return
		}
		o.segments = append(o.segments, Segment{Off: off, Len: int64(len(data)), Data: slices.Clip(data)})
	}
	for _, n := range slices.Sorted(maps.Keys(p.blocks)) {
		replace(n*sector, p.blocks[n])
	}
	untouched(p.src.size)
	if len(p.tail) > 0 {
		replace(p.src.size, append(make([]byte, p.tailStart()-p.src.size), p.tail...))
		o.segments = append(o.segments, Segment{Off: at, Len: int64(len(padding)), Data: padding[:]})
	}
	if len(p.backup) > 0 {
		o.segments = append(o.segments, Segment{Off: p.backupStart(), Len: int64(len(p.backup)), Data: p.backup})
	}
	return o
}

// putBoth writes a number as ISO 9660 does: little-endian, then big-endian.
func (p *patch) putBoth(off int64, v uint32) error {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], v)
	binary.BigEndian.PutUint32(b[4:], v)
	return p.write(b[:], off)
}

// put32 writes a little-endian number.
func (p *patch) put32(off int64, v uint32) error {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return p.write(b[:], off)
}

// verify opens the patched image, and compares the files that were changed with their
// new content. It returns the opened image.
func (c *customizer) verify(o *Overlay) (*Image, error) {
	img, err := Open(o, o.Size())
	if err != nil {
		return nil, fmt.Errorf("the patched image cannot be read: %w", err)
	}
	for _, f := range c.files {
		parts := img.parts(img.src)
		i := slices.IndexFunc(parts, func(p part) bool {
			return p.boot == f.boot || p.boot != nil && f.boot != nil && p.boot.Off == f.boot.Off
		})
		if i >= 0 {
			got, err := parts[i].readFile(f.entry.path)
			if err == nil && bytes.Equal(got, f.content) {
				continue
			}
		}
		return nil, refuse(f.name(), "it does not read as it was patched: its file system is damaged")
	}
	return img, nil
}

// placeFiles writes the changed files of the volume in place, or behind the image where
// the new content is longer than the blocks of the old, and updates the records of all trees.
func (c *customizer) placeFiles() error {
	if !slices.ContainsFunc(c.files, func(f *changed) bool { return f.boot == nil }) {
		return nil
	}
	for _, t := range c.img.volume.trees {
		err := walk(t.reader(c.img.src), func(e *entry) error { return c.collect(e, t == c.img.names) })
		if err != nil {
			return err
		}
	}
	for _, f := range c.files {
		if f.boot != nil {
			continue
		}
		at, err := c.placeFile(f)
		if err != nil {
			return err
		}
		if at/sector > 1<<32-1 {
			return refuse(f.name(), "the image is too large for a file behind it")
		}
		for _, off := range f.records {
			err := cmp.Or(c.patch.putBoth(off+2, uint32(at/sector)), c.patch.putBoth(off+10, uint32(len(f.content))))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// placeFile writes the content of a file of the volume and returns its offset.
func (c *customizer) placeFile(f *changed) (int64, error) {
	room := f.entry.places[0].blocks()
	if int64(len(f.content)) > room.Len {
		return c.patch.add(f.content), nil
	}
	if room.Off < firstDescriptor+sector {
		return 0, refuse(f.name(), "it lies in the descriptors of the volume")
	}
	// The last block may be cut off at the end of the image.
	room.Len = min(room.Len, c.img.src.size-room.Off)
	if err := c.patch.claim(f.name(), room); err != nil {
		return 0, err
	}
	padding := make([]byte, max(0, room.Len-int64(len(f.content))))
	if err := c.patch.write(slices.Concat(f.content, padding), room.Off); err != nil {
		return 0, refuse(f.name(), "%v", err)
	}
	return room.Off, nil
}

// blocks returns the blocks of the content.
func (p place) blocks() Extent { return Extent{p.data.Off, align(p.data.Len)} }

// collect finds the records of changed files, in each tree, and refuses a file that
// shares their blocks. It notes all names of a changed file in the tree whose names are used.
func (c *customizer) collect(e *entry, named bool) error {
	for _, p := range e.places {
		if p.data.Len == 0 {
			continue
		}
		for _, f := range c.files {
			if f.boot != nil {
				continue
			}
			changed := f.entry.places[0]
			switch {
			case p.data == changed.data && p.xattr == 0 && len(e.places) == 1 && !e.dir:
				if !slices.Contains(f.records, p.record) {
					f.records = append(f.records, p.record)
				}
				if named {
					c.note(e.path)
				}
			case p.data.overlaps(changed.blocks()):
				return refuse(f.name(), "it shares its blocks with %s", e.path)
			}
		}
	}
	return nil
}

// placeBootFiles writes the changed files of boot images.
func (c *customizer) placeBootFiles() error {
	for _, f := range c.files {
		if f.boot == nil {
			continue
		}
		c.note(f.name())
		if err := f.boot.fs.on(c.patch).replace(c.patch, f.name(), f.entry, f.content, f.boot.Len); err != nil {
			return err
		}
	}
	return nil
}

// isomd5sum implants the MD5 of the image in the application use area of the primary
// volume descriptor (ECMA-119, section 8.4.32).
const (
	implantedAt   = firstDescriptor + 883
	implantedSize = 512
	implantedMark = "ISO MD5SUM"
)

// blankMD5 removes an implanted MD5, which no longer holds: a check then says that
// there is none.
func (c *customizer) blankMD5() error {
	buf := make([]byte, implantedSize)
	if err := c.img.src.read(buf, implantedAt); err != nil {
		return err
	}
	if len(c.patched) == 0 || !bytes.Contains(buf, []byte(implantedMark)) {
		return nil
	}
	return c.patch.write(bytes.Repeat([]byte{' '}, implantedSize), implantedAt)
}

// extendVolume makes the volume as long as the image with its tail.
func (c *customizer) extendVolume() error {
	if len(c.patch.tail) == 0 {
		return nil
	}
	for _, t := range c.img.volume.trees {
		buf := make([]byte, 4)
		if err := c.img.src.read(buf, t.descriptor+80); err != nil {
			return err
		}
		blocks := c.patch.size() / sector
		if blocks <= int64(binary.LittleEndian.Uint32(buf)) {
			continue
		}
		if err := c.patch.putBoth(t.descriptor+80, uint32(blocks)); err != nil {
			return err
		}
	}
	return nil
}
