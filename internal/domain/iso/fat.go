package iso

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

const (
	// maxFATDirectories bounds the bytes of directories that one walk reads.
	maxFATDirectories = 8 << 20
	// maxSpare is the number of clusters that a file may have beyond its size.
	maxSpare = 1024
)

var errFAT = errors.New("no FAT file system")

// fat is a FAT file system within an image: FAT12, FAT16 or FAT32. It is a fileSystem.
// Comments name sections of Microsoft's FAT specification of 2005.
type fat struct {
	src reader
	// at is the offset of the boot sector. All offsets are from the start of the image.
	at       int64
	bits     int    // the width of an entry of the table
	mask     uint32 // the bits of it that are used
	cluster  int64  // bytes
	clusters uint32
	tables   []Extent
	data     int64
	// root is the fixed root directory of FAT12 and FAT16, rootCluster that of FAT32.
	root        Extent
	rootCluster uint32
	info        int64 // the offset of the FSInfo sector, 0: none
	budget      int64 // the bytes of directories that can still be read
	// window is a piece of the first table, for following chains.
	window   []byte
	windowAt int64
}

// openFAT reads the boot sector at off of a file system of at most size bytes.
func openFAT(src reader, off, size int64) (*fat, error) {
	b := make([]byte, block)
	if size < block {
		return nil, errFAT
	}
	if err := src.read(b, off); err != nil {
		return nil, err
	}
	p, ok := parseBPB(b)
	if !ok {
		return nil, errFAT
	}
	f := &fat{src: src, at: off, cluster: p.perCluster * p.bytesPer, budget: maxFATDirectories}
	for i := range p.copies {
		f.tables = append(f.tables, Extent{off + (p.reserved+i*p.tableLen)*p.bytesPer, p.tableLen * p.bytesPer})
	}
	f.root = Extent{f.tables[p.copies-1].end(), (p.rootEntries*32 + p.bytesPer - 1) / p.bytesPer * p.bytesPer}
	f.data = f.root.end()
	room := min(size, p.total*p.bytesPer) - (f.data - off)
	if room < 0 {
		return nil, errFAT
	}
	// The number of clusters determines the type (section 3.5).
	switch count := (p.total*p.bytesPer - (f.data - off)) / f.cluster; {
	case p.fat32:
		f.bits, f.mask, f.rootCluster = 32, 0x0FFFFFFF, binary.LittleEndian.Uint32(b[44:])
		if at := int64(binary.LittleEndian.Uint16(b[48:])); at > 0 && at < p.reserved {
			f.info = off + at*p.bytesPer
		}
	case count < 4085:
		f.bits, f.mask = 12, 0xFFF
	default:
		f.bits, f.mask = 16, 0xFFFF
	}
	// No more clusters than the image holds and the table describes.
	f.clusters = uint32(max(0, min(room/f.cluster, f.tables[0].Len*8/int64(f.bits)-2)))
	return f, nil
}

// on returns the file system for one walk, read from src.
func (f *fat) on(src reader) *fat {
	fs := *f
	fs.src = src
	return &fs
}

// bpb is the BIOS parameter block of a boot sector (sections 3.1 to 3.3). Lengths are
// in sectors of bytesPer bytes.
type bpb struct {
	bytesPer, perCluster, reserved, copies, rootEntries, total, tableLen int64
	fat32                                                                bool
}

// parseBPB parses a boot sector and reports whether its values are possible.
func parseBPB(b []byte) (bpb, bool) {
	short := func(at int) int64 { return int64(binary.LittleEndian.Uint16(b[at:])) }
	long := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	p := bpb{
		bytesPer: short(11), perCluster: int64(b[13]), reserved: short(14), copies: int64(b[16]), rootEntries: short(17),
		total: cmp.Or(short(19), long(32)), tableLen: cmp.Or(short(22), long(36)), fat32: short(22) == 0,
	}
	isPower := func(n int64) bool { return n > 0 && n&(n-1) == 0 }
	signed := b[510] == 0x55 && b[511] == 0xAA && (b[0] == 0xEB || b[0] == 0xE9)
	return p, signed && isPower(p.bytesPer) && p.bytesPer >= 512 && p.bytesPer <= 4096 && isPower(p.perCluster) &&
		p.reserved > 0 && p.copies > 0 && p.copies <= 4 && p.tableLen > 0 && p.total > 0
}

// place returns the range of a cluster.
func (f *fat) place(c uint32) Extent {
	return Extent{f.data + int64(c-2)*f.cluster, f.cluster}
}

// slot returns where a table has the entry of a cluster: n bytes at off, from the bit
// shift on (section 4.1).
func (f *fat) slot(c uint32) (off int64, n int, shift uint32) {
	switch f.bits {
	case 12:
		return int64(c) + int64(c)/2, 2, c % 2 * 4
	case 16:
		return int64(c) * 2, 2, 0
	}
	return int64(c) * 4, 4, 0
}

// next returns the cluster after c, and reports whether c is the last of its chain.
func (f *fat) next(c uint32) (next uint32, last bool, err error) {
	off, n, shift := f.slot(c)
	if f.window == nil || off < f.windowAt || off+int64(n) > f.windowAt+int64(len(f.window)) {
		f.windowAt = off &^ 511
		f.window = make([]byte, min(4096, f.tables[0].Len-f.windowAt))
		if err := f.src.read(f.window, f.tables[0].Off+f.windowAt); err != nil {
			return 0, false, err
		}
	}
	var raw [4]byte
	if copy(raw[:n], f.window[off-f.windowAt:]) < n {
		return 0, false, fmt.Errorf("%w: its table ends early", errFAT)
	}
	v := binary.LittleEndian.Uint32(raw[:]) >> shift & f.mask
	return v, v >= f.mask&^7, nil
}

// chain returns the clusters of a file, at most limit of them.
func (f *fat) chain(first uint32, limit int64) ([]uint32, error) {
	var chain []uint32
	for c := first; ; {
		if c < 2 || c-2 >= f.clusters {
			return nil, fmt.Errorf("its cluster %d does not exist", c)
		}
		if int64(len(chain)) >= min(limit, int64(f.clusters)) {
			return nil, fmt.Errorf("its chain of clusters is longer than its size")
		}
		chain = append(chain, c)
		next, last, err := f.next(c)
		if err != nil || last {
			return chain, err
		}
		c = next
	}
}

// chainOf returns the clusters of a file, which may be more than its size needs.
func (f *fat) chainOf(file *entry) ([]uint32, error) {
	if file.size == 0 && file.cluster == 0 {
		return nil, nil
	}
	chain, err := f.chain(file.cluster, file.size/f.cluster+maxSpare)
	if err == nil && int64(len(chain))*f.cluster < file.size {
		err = fmt.Errorf("its chain of clusters is shorter than its size")
	}
	return chain, err
}

// ranges returns the ranges of the first size bytes of a chain.
func (f *fat) ranges(chain []uint32, size int64) []Extent {
	var out []Extent
	for _, c := range chain {
		e := f.place(c)
		if e.Len = min(e.Len, size); e.Len > 0 {
			out = appendExtent(out, e)
			size -= e.Len
		}
	}
	return out
}

func (f *fat) extents(e *entry) ([]Extent, error) {
	chain, err := f.chainOf(e)
	return f.ranges(chain, e.size), err
}

func (f *fat) top() *entry {
	if f.bits == 32 {
		return &entry{cluster: f.rootCluster, places: []place{{data: f.place(f.rootCluster)}}}
	}
	return &entry{places: []place{{data: f.root}}}
}

func (f *fat) list(dir *entry, fn func(*entry) error) error {
	ranges := []Extent{f.root}
	if dir.cluster != 0 {
		chain, err := f.chain(dir.cluster, f.budget/f.cluster)
		if err != nil {
			return fmt.Errorf("%s/: %w", dir.path, err)
		}
		ranges = f.ranges(chain, f.budget)
	}
	var long longName
	for _, r := range ranges {
		if f.budget -= r.Len; f.budget < 0 {
			return fmt.Errorf("its directories have more than %d MB", maxFATDirectories>>20)
		}
		buf := make([]byte, r.Len)
		if err := f.src.read(buf, r.Off); err != nil {
			return err
		}
		for pos := 0; pos+32 <= len(buf); pos += 32 {
			if buf[pos] == 0 {
				return nil // the end of the directory
			}
			e, ok := f.parseEntry(buf[pos:pos+32], &long)
			if !ok {
				continue
			}
			e.places[0].record = r.Off + int64(pos)
			if err := fn(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseEntry parses a directory entry (section 6), whose name may stand in the entries
// before it. It reports whether the entry is a file or a directory.
func (f *fat) parseEntry(b []byte, long *longName) (*entry, bool) {
	switch {
	case b[0] == 0xE5: // deleted
		*long = longName{}
		return nil, false
	case b[11]&0x3F == 0x0F:
		long.add(b)
		return nil, false
	}
	name := long.name(b)
	*long = longName{}
	if b[11]&0x08 != 0 || b[0] == '.' || name == "" {
		return nil, false // the label of the volume, "." and ".."
	}
	e := &entry{
		name: name, dir: b[11]&0x10 != 0, size: int64(binary.LittleEndian.Uint32(b[28:])),
		cluster: uint32(binary.LittleEndian.Uint16(b[26:])), places: make([]place, 1),
	}
	if f.bits == 32 {
		e.cluster |= uint32(binary.LittleEndian.Uint16(b[20:])) << 16
	}
	if e.cluster != 0 {
		e.places[0].data = f.place(e.cluster)
	}
	return e, true
}

// longName collects the pieces of a long file name, which stand before the entry in
// reverse order (section 7).
type longName struct {
	units []uint16
	sum   byte
	want  int // the number of the next piece
}

func (l *longName) add(b []byte) {
	seq := int(b[0] & 0x1F)
	if b[0]&0x40 != 0 && seq <= 20 {
		*l = longName{want: seq, sum: b[13]}
	}
	if seq == 0 || seq != l.want || b[13] != l.sum {
		*l = longName{}
		return
	}
	l.want--
	var piece [13]uint16
	for i, at := range [13]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
		piece[i] = binary.LittleEndian.Uint16(b[at:])
	}
	l.units = append(piece[:], l.units...)
}

// name returns the name of the entry b: the long name if it is complete and belongs to
// the entry, else the short one (section 6.1).
func (l *longName) name(b []byte) string {
	var sum byte
	for _, c := range b[:11] {
		sum = sum>>1 | sum<<7
		sum += c
	}
	if len(l.units) > 0 && l.want == 0 && l.sum == sum {
		units := l.units
		if end := slices.IndexFunc(units, func(u uint16) bool { return u == 0 || u == 0xFFFF }); end >= 0 {
			units = units[:end]
		}
		if name := string(utf16.Decode(units)); !strings.Contains(name, "/") {
			return printable(name)
		}
	}
	return shortName(b)
}

// shortName is the name that the directory entry of a file has itself: 8 and 3 letters.
func shortName(b []byte) string {
	base, ext := strings.TrimRight(string(b[:8]), " "), strings.TrimRight(string(b[8:11]), " ")
	if b[12]&0x08 != 0 {
		base = strings.ToLower(base)
	}
	if b[12]&0x10 != 0 {
		ext = strings.ToLower(ext)
	}
	if ext != "" {
		base += "." + ext
	}
	return strings.ReplaceAll(printable(base), "/", "\uFFFD")
}
