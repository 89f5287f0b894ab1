package iso

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
)

// BootImage is a part of an image that firmware boots: an entry of the El Torito boot
// catalogue, or an EFI system partition.
type BootImage struct {
	// Platform is "bios", "efi", or "other".
	Platform string
	// Off is the offset of its first byte.
	Off int64
	// Len is its length in bytes, 0 if it is not known.
	Len int64
	// Path is the path of the file, if the boot image is a file of the image.
	Path string
	// FAT is true if it has a FAT file system.
	FAT bool
	fs  *fat
}

const (
	bios  = "bios"
	efi   = "efi"
	other = "other"
)

const (
	maxBootEntries = 64
	maxPartitions  = 256
)

// block is the unit of partition tables and of El Torito lengths.
const block = 512

// findBootImages reads the El Torito catalogue and the partition tables. It returns one
// boot image for each offset.
func findBootImages(src source, v *volume) ([]BootImage, error) {
	found, err := elTorito(src, v.catalog)
	if err != nil {
		return nil, err
	}
	parts, err := partitions(src)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if i := startsAt(found, p.Off); i < 0 {
			found = append(found, p)
		} else {
			found[i].Len = max(found[i].Len, p.Len)
			if found[i].Platform == other {
				found[i].Platform = p.Platform
			}
		}
	}
	for i := range found {
		b := &found[i]
		b.Len = min(b.Len, src.size-b.Off)
		b.fs, _ = openFAT(src, b.Off, src.size-b.Off)
		b.FAT = b.fs != nil
	}
	return found, nil
}

// elTorito reads the boot catalogue (El Torito 1.0, sections 2.1 to 2.4).
func elTorito(src source, catalog uint32) ([]BootImage, error) {
	if catalog == 0 {
		return nil, nil
	}
	buf := make([]byte, sector)
	if err := src.read(buf, int64(catalog)*sector); err != nil {
		return nil, err
	}
	if buf[0] != 1 || buf[30] != 0x55 || buf[31] != 0xAA {
		return nil, nil // no validation entry: firmware ignores it, and so do we
	}
	var found []BootImage
	platform := buf[1]
	for i := 1; i < maxBootEntries; i++ {
		e := buf[32*i : 32*i+32]
		switch {
		case e[0] == 0x90 || e[0] == 0x91: // the header of a section
			platform = e[1]
		case e[0] == 0x88 || e[0] == 0 && i == 1: // bootable, or the default entry
			b := BootImage{
				Platform: platformOf(platform),
				Off:      int64(binary.LittleEndian.Uint32(e[8:])) * sector,
				Len:      int64(binary.LittleEndian.Uint16(e[6:])) * block,
			}
			// Tools write a count of one block if the length does not fit.
			if b.Len <= 4*block {
				b.Len = 0
			}
			if b.Off > 0 && b.Off < src.size && startsAt(found, b.Off) < 0 {
				found = append(found, b)
			}
		}
	}
	return found, nil
}

// startsAt returns the index of the boot image at off, -1 if there is none.
func startsAt(images []BootImage, off int64) int {
	return slices.IndexFunc(images, func(b BootImage) bool { return b.Off == off })
}

func platformOf(id byte) string {
	return cmp.Or(map[byte]string{0: bios, 0xEF: efi}[id], other)
}

// partition is an entry of a partition table.
type partition struct {
	kind   string
	blocks Extent
}

// Kinds of partitions, in the bytes of the tables. guidData is a basic data partition,
// which isohybrid makes of the EFI system partition.
const (
	mbrESP   = "\xEF"
	mbrGPT   = "\xEE" // covers the disk that has a GPT
	guidESP  = "\x28\x73\x2A\xC1\x1F\xF8\xD2\x11\xBA\x4B\x00\xA0\xC9\x3E\xC9\x3B"
	guidData = "\xA2\xA0\xD0\xEB\xE5\xB9\x33\x44\x87\xC0\x68\xB6\xB7\x26\x99\xC7"
)

// partitions returns the EFI system partitions of the MBR and the GPT. Basic data
// partitions count if they have a FAT file system.
func partitions(src source) ([]BootImage, error) {
	parts, err := readMBR(src)
	if err != nil {
		return nil, err
	}
	table, err := readGPT(src)
	if err != nil {
		return nil, err
	}
	if table != nil {
		parts = append(parts, table.parts...)
	}
	var found []BootImage
	for _, p := range parts {
		all, at := src.size/block, p.blocks.Off
		if at <= 0 || at > all || p.blocks.Len < 0 || p.blocks.Len > all || startsAt(found, at*block) >= 0 {
			continue
		}
		switch p.kind {
		case mbrESP, guidESP:
		case guidData:
			if _, err := openFAT(src, at*block, src.size-at*block); err != nil {
				continue
			}
		default:
			continue
		}
		found = append(found, BootImage{Platform: efi, Off: at * block, Len: p.blocks.Len * block})
	}
	return found, nil
}

// readMBR returns the four partitions of the MBR, none if there is no MBR.
func readMBR(src source) ([]partition, error) {
	mbr := make([]byte, block)
	if err := src.read(mbr, 0); err != nil || mbr[510] != 0x55 || mbr[511] != 0xAA {
		return nil, err
	}
	var parts []partition
	for e := range slices.Chunk(mbr[446:510], 16) {
		le := binary.LittleEndian
		parts = append(parts, partition{string(e[4:5]), Extent{int64(le.Uint32(e[8:])), int64(le.Uint32(e[12:]))}})
	}
	return parts, nil
}

// gpt is a GUID partition table (UEFI specification, section 5.3).
type gpt struct {
	header    []byte // one block
	entries   []byte
	entrySize int
	entriesAt int64
	parts     []partition
}

// readGPT reads the primary table. It returns nil if there is none that can be read.
func readGPT(src source) (*gpt, error) {
	le := binary.LittleEndian
	header := make([]byte, block)
	if err := src.read(header, block); err != nil || string(header[:8]) != "EFI PART" {
		return nil, err
	}
	size, count, at := int64(le.Uint32(header[84:])), int64(le.Uint32(header[80:])), le.Uint64(header[72:])
	if size < 128 || size > 4096 || size%128 != 0 || count == 0 || count > maxPartitions || at > uint64(src.size/block) {
		return nil, nil
	}
	t := &gpt{header: header, entries: make([]byte, size*count), entrySize: int(size), entriesAt: int64(at) * block}
	if err := src.read(t.entries, t.entriesAt); errors.Is(err, ErrTruncated) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for e := range slices.Chunk(t.entries, t.entrySize) {
		p := partition{kind: string(e[:16]), blocks: Extent{int64(le.Uint64(e[32:])), -1}}
		if first, last := le.Uint64(e[32:]), le.Uint64(e[40:]); first <= last && [16]byte(e) != [16]byte{} {
			p.blocks.Len = int64(last - first + 1)
		}
		t.parts = append(t.parts, p)
	}
	return t, nil
}

// name returns the name of the boot image for messages.
func (b *BootImage) name() string {
	if b.Path != "" {
		return b.Path
	}
	return "EFI partition"
}

// inside returns the name of a file in the FAT file system of the boot image.
func (b *BootImage) inside(path string) string { return b.name() + ":" + path }

// An image is often also a disk, with partition tables around the volume. A tail moves
// its end: without the new end in the partition that holds the volume and in the tables
// themselves a copy on a stick would not boot.

// volumeStart is the last block at which a partition of the volume starts.
const volumeStart = 64

// extendDisk makes the partition tables as long as the image with its tail.
func (c *customizer) extendDisk() error {
	if len(c.patch.tail) == 0 {
		return nil
	}
	table, err := readGPT(c.img.src)
	if err != nil {
		return err
	}
	if table != nil {
		// Room for the backup at the very end: the entries, and one block.
		c.patch.backup = make([]byte, align(int64(len(table.entries))+block))
		if err := c.extendGPT(table, c.patch.size()/block-1); err != nil {
			return err
		}
	}
	return c.extendMBR()
}

// holdsVolume returns the index of the partition that holds the volume and is the last
// one, so that it can grow; -1 if there is none. Partitions of no length are unused.
func (c *customizer) holdsVolume(parts []partition) int {
	found := -1
	for i, p := range parts {
		if p.blocks.Len > 0 && p.blocks.Off <= volumeStart && p.blocks.end() >= c.img.volume.end/block {
			found = i
		}
	}
	for i, p := range parts {
		if found >= 0 && i != found && p.blocks.Len > 0 && p.blocks.end() > parts[found].blocks.end() {
			return -1
		}
	}
	return found
}

func (c *customizer) extendMBR() error {
	parts, err := readMBR(c.img.src)
	if err != nil {
		return err
	}
	for i := range parts {
		if p := &parts[i]; p.kind == mbrGPT && p.blocks.Off == 1 {
			if err := c.resizeMBR(i, p.blocks.Off); err != nil {
				return err
			}
			p.blocks.Len = 0
		}
	}
	if i := c.holdsVolume(parts); i >= 0 {
		return c.resizeMBR(i, parts[i].blocks.Off)
	}
	return nil
}

// resizeMBR makes a partition end where the patched image does.
func (c *customizer) resizeMBR(i int, start int64) error {
	return c.patch.put32(446+16*int64(i)+12, uint32(min(c.patch.size()/block-start, math.MaxUint32)))
}

// extendGPT writes both copies of the table, the backup's header at the block
// backup, which is the last.
func (c *customizer) extendGPT(t *gpt, backup int64) error {
	le := binary.LittleEndian
	size := int(le.Uint32(t.header[12:]))
	if size < 92 || size > block {
		return nil // firmware accepts no such table
	}
	entriesBackup := backup - int64(len(t.entries))/block
	if i := c.holdsVolume(t.parts); i >= 0 {
		le.PutUint64(t.entries[i*t.entrySize+40:], uint64(entriesBackup-1))
	}
	le.PutUint32(t.header[88:], crc32.ChecksumIEEE(t.entries))
	le.PutUint64(t.header[48:], uint64(entriesBackup-1)) // the last usable block
	seal := func(self, other, entries int64) {
		le.PutUint64(t.header[24:], uint64(self))
		le.PutUint64(t.header[32:], uint64(other))
		le.PutUint64(t.header[72:], uint64(entries))
		le.PutUint32(t.header[16:], 0)
		le.PutUint32(t.header[16:], crc32.ChecksumIEEE(t.header[:size]))
	}
	seal(1, backup, t.entriesAt/block)
	if err := c.patch.write(t.header, block); err != nil {
		return err
	}
	if err := c.patch.write(t.entries, t.entriesAt); err != nil {
		return err
	}
	seal(backup, 1, entriesBackup)
	start := c.patch.backupStart()
	copy(c.patch.backup[entriesBackup*block-start:], t.entries)
	copy(c.patch.backup[backup*block-start:], t.header)
	return nil
}
