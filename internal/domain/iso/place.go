package iso

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// placeFiles puts the new content in the place of the old, or behind the image
// where it is longer than the blocks of the old, and tells all trees.
func (c *customizer) placeFiles() error {
	if len(c.files) == 0 {
		return nil
	}
	for _, t := range c.img.volume.trees {
		err := newWalker(c.img.src, t).walk(func(e *entry) error { return c.collect(e, t == c.img.names) })
		if err != nil {
			return err
		}
	}
	for _, f := range c.files {
		room := extent{f.place.data.off, align(f.place.data.size)}
		at := room.off
		if size := int64(len(f.content)); size <= room.size {
			if room.off < firstDescriptor+sector {
				return refuse(f.path, "it lies in the descriptors of the volume")
			}
			// The last block may be cut off at the end of the image.
			room.size = min(room.size, c.img.src.size-room.off)
			if err := c.patch.claim(f.path, room); err != nil {
				return err
			}
			content := append(f.content[:len(f.content):len(f.content)], make([]byte, max(room.size-size, 0))...)
			if err := c.patch.write(content, room.off); err != nil {
				return refuse(f.path, "%v", err)
			}
		} else {
			at = c.patch.add(f.content)
		}
		if at/sector > 1<<32-1 {
			return refuse(f.path, "the image is too large for a file behind it")
		}
		for _, off := range f.records {
			if err := c.patch.putBoth(off+2, uint32(at/sector)); err != nil {
				return err
			}
			if err := c.patch.putBoth(off+10, uint32(len(f.content))); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect finds the records of changed files, in each tree, and refuses what
// shares their blocks. All names of such a file are noted, from the tree that
// names are taken from.
func (c *customizer) collect(e *entry, named bool) error {
	for _, p := range e.places {
		if p.data.size == 0 {
			continue
		}
		for _, f := range c.files {
			switch {
			case p.data == f.place.data && p.xattr == 0 && len(e.places) == 1 && !e.dir:
				if !slices.Contains(f.records, p.record) {
					f.records = append(f.records, p.record)
				}
				if named {
					c.note(e.path)
				}
			case p.data.overlaps(extent{f.place.data.off, align(f.place.data.size)}):
				return refuse(f.path, "it shares its blocks with %s", e.path)
			}
		}
	}
	return nil
}

func (c *customizer) placeBootFiles() error {
	for _, f := range c.bootFiles {
		c.note(f.name)
		if err := f.fs.replace(c.patch, f.name, &f.file, f.content, f.boot.Len); err != nil {
			return err
		}
	}
	return nil
}

// Where isomd5sum implants the MD5 of the image: in the application use area of
// the primary volume descriptor.
const (
	implantedAt   = firstDescriptor + 883
	implantedSize = 512
	implantedMark = "ISO MD5SUM"
)

// blankMD5 takes out an implanted MD5, which no longer holds: a check then says
// that there is none.
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
