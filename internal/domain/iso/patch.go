package iso

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// maxKept bounds what an overlay keeps in memory.
const maxKept = 16 << 20

// patch gathers changes to an image, block by block.
type patch struct {
	src    source
	blocks map[int64][]byte // by number
	tail   []byte           // from the first whole block after the image
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
	return p.tailStart() + int64(len(p.tail))
}

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
