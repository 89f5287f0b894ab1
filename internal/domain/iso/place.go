package iso

import (
	"bytes"
	"encoding/binary"
	"slices"
)

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
