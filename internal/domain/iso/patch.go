package iso

import (
	"encoding/binary"
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
	extent
	path string
}

func newPatch(src source) *patch { return &patch{src: src, blocks: map[int64][]byte{}} }

// read returns the image as it is patched so far, its tail excepted.
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

// write puts data at off, which lies within the image.
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

// claim says that a range holds content of the file; no two files share one.
func (p *patch) claim(path string, e extent) error {
	for _, c := range p.claims {
		if c.overlaps(e) {
			return refuse(path, "it shares its blocks with %s", c.path)
		}
	}
	p.claims = append(p.claims, claim{e, path})
	return nil
}

// add puts content behind the image and gives where.
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

// overlay returns what was gathered; neighbouring blocks are joined.
func (p *patch) overlay() *Overlay {
	o := &Overlay{base: p.src.r, baseSize: p.src.size, size: p.size()}
	put := func(off int64, data []byte) {
		if n := len(o.replaced); n > 0 && o.replaced[n-1].end() == off {
			o.replaced[n-1].data = append(o.replaced[n-1].data, data...)
			return
		}
		o.replaced = append(o.replaced, replacement{off, slices.Clip(data)})
	}
	for _, n := range slices.Sorted(maps.Keys(p.blocks)) {
		put(n*sector, p.blocks[n])
	}
	if len(p.tail) > 0 {
		put(p.src.size, append(make([]byte, p.tailStart()-p.src.size), p.tail...))
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
