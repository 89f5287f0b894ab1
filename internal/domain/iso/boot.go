package iso

import (
	"encoding/binary"
	"errors"
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
		same := func(b BootImage) bool { return b.Off == p.Off }
		if i := slices.IndexFunc(found, same); i >= 0 {
			found[i].Len = max(found[i].Len, p.Len)
			if found[i].Platform == other {
				found[i].Platform = p.Platform
			}
			continue
		}
		found = append(found, p)
	}
	for i := range found {
		found[i].Len = min(found[i].Len, src.size-found[i].Off)
		_, err := openFAT(src, found[i].Off, src.size-found[i].Off)
		found[i].FAT = err == nil
	}
	return found, nil
}

// elTorito reads the boot catalogue (El Torito 1.0, section 2).
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
			if b.Off > 0 && b.Off < src.size && !startsAt(found, b.Off) {
				found = append(found, b)
			}
		}
	}
	return found, nil
}

// startsAt reports whether one of the boot images starts at off.
func startsAt(images []BootImage, off int64) bool {
	return slices.ContainsFunc(images, func(b BootImage) bool { return b.Off == off })
}

func platformOf(id byte) string {
	switch id {
	case 0:
		return bios
	case 0xEF:
		return efi
	}
	return other
}

// guidESP is the type of an EFI system partition as it stands on disk, and
// guidData the one that isohybrid gives it.
var (
	guidESP  = [16]byte{0x28, 0x73, 0x2A, 0xC1, 0x1F, 0xF8, 0xD2, 0x11, 0xBA, 0x4B, 0x00, 0xA0, 0xC9, 0x3E, 0xC9, 0x3B}
	guidData = [16]byte{0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7}
)

// partitions returns the EFI system partitions of the MBR and the GPT. Basic data
// partitions count if they have a FAT file system.
func partitions(src source) ([]BootImage, error) {
	found, err := mbrPartitions(src)
	if err != nil {
		return nil, err
	}
	table, err := readGPT(src)
	if err != nil || table == nil {
		return found, err
	}
	for e := range slices.Chunk(table.entries, table.entrySize) {
		kind := [16]byte(e[:16])
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if last < first || kind != guidESP && kind != guidData {
			continue
		}
		b, ok := partition(src, first, last-first+1)
		if !ok || startsAt(found, b.Off) {
			continue
		}
		if kind == guidData {
			if _, err := openFAT(src, b.Off, src.size-b.Off); err != nil {
				continue
			}
		}
		found = append(found, b)
	}
	return found, nil
}

// mbrPartitions returns the EFI system partitions of the MBR.
func mbrPartitions(src source) ([]BootImage, error) {
	mbr := make([]byte, block)
	if err := src.read(mbr, 0); err != nil {
		return nil, err
	}
	if mbr[510] != 0x55 || mbr[511] != 0xAA {
		return nil, nil
	}
	var found []BootImage
	for i := range 4 {
		e := mbr[446+16*i:]
		if e[4] != 0xEF {
			continue
		}
		b, ok := partition(src, uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:])))
		if ok && !startsAt(found, b.Off) {
			found = append(found, b)
		}
	}
	return found, nil
}

// partition returns the EFI image in count blocks from start, and reports whether they
// are within the image.
func partition(src source, start, count uint64) (BootImage, bool) {
	blocks := uint64(src.size / block)
	if start == 0 || start > blocks || count > blocks {
		return BootImage{}, false
	}
	return BootImage{Platform: efi, Off: int64(start) * block, Len: int64(count) * block}, true
}

// gpt is a GUID partition table.
type gpt struct {
	header    []byte // one block
	entries   []byte
	entrySize int
	entriesAt int64
}

// readGPT reads the primary table. It returns nil if there is none that can be read.
func readGPT(src source) (*gpt, error) {
	header := make([]byte, block)
	if err := src.read(header, block); err != nil {
		return nil, err
	}
	if string(header[:8]) != "EFI PART" {
		return nil, nil
	}
	size := int64(binary.LittleEndian.Uint32(header[84:]))
	count := int64(binary.LittleEndian.Uint32(header[80:]))
	at := binary.LittleEndian.Uint64(header[72:])
	if size < 128 || size > 4096 || size%128 != 0 || count == 0 || count > maxPartitions || at > uint64(src.size/block) {
		return nil, nil
	}
	t := &gpt{header: header, entries: make([]byte, size*count), entrySize: int(size), entriesAt: int64(at) * block}
	if err := src.read(t.entries, t.entriesAt); err != nil {
		if errors.Is(err, ErrTruncated) {
			return nil, nil
		}
		return nil, err
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
