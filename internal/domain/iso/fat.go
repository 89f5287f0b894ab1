package iso

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	maxFATDirectories = 8 << 20
	maxFATDepth       = 16
)

var errFAT = errors.New("no FAT file system")

// fat is a FAT file system within an image: FAT12, FAT16 or FAT32.
type fat struct {
	src reader
	// at is where it starts; all other offsets are from there.
	at       int64
	bits     int
	cluster  int64 // bytes
	clusters uint32
	tables   []extent
	data     int64
	// root is the fixed root directory of FAT12 and FAT16, rootCluster that of
	// FAT32.
	root        extent
	rootCluster uint32
	info        int64 // the FSInfo sector, 0: none
	// window is a piece of the table, for following chains.
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
	if b[510] != 0x55 || b[511] != 0xAA || b[0] != 0xEB && b[0] != 0xE9 {
		return nil, errFAT
	}
	p, ok := parseBPB(b)
	if !ok {
		return nil, errFAT
	}
	f := &fat{src: src, at: off, cluster: p.perCluster * p.bytesPer}
	for i := range p.copies {
		f.tables = append(f.tables, extent{(p.reserved + i*p.tableLen) * p.bytesPer, p.tableLen * p.bytesPer})
	}
	f.root = extent{f.tables[p.copies-1].end(), (p.rootEntries*32 + p.bytesPer - 1) / p.bytesPer * p.bytesPer}
	f.data = f.root.end()
	if f.data > size || f.data > p.total*p.bytesPer {
		return nil, errFAT
	}
	count := (p.total*p.bytesPer - f.data) / f.cluster
	switch {
	case p.fat32:
		f.bits, f.rootCluster = 32, binary.LittleEndian.Uint32(b[44:])
		if at := int64(binary.LittleEndian.Uint16(b[48:])); at > 0 && at < p.reserved {
			f.info = at * p.bytesPer
		}
	case count < 4085:
		f.bits = 12
	default:
		f.bits = 16
	}
	// No more clusters than the image holds and the table describes.
	count = min(count, (size-f.data)/f.cluster, f.tables[0].size*8/int64(f.bits)-2)
	f.clusters = uint32(max(count, 0))
	return f, nil
}

// bpb is the BIOS parameter block of a boot sector (Microsoft's FAT specification,
// section 3). Lengths are in sectors of bytesPer bytes.
type bpb struct {
	bytesPer, perCluster, reserved, copies, rootEntries, total, tableLen int64
	fat32                                                                bool
}

// parseBPB parses a boot sector. It reports whether the values are possible.
func parseBPB(b []byte) (bpb, bool) {
	le := binary.LittleEndian
	p := bpb{
		bytesPer: int64(le.Uint16(b[11:])), perCluster: int64(b[13]),
		reserved: int64(le.Uint16(b[14:])), copies: int64(b[16]),
		rootEntries: int64(le.Uint16(b[17:])), total: int64(le.Uint16(b[19:])), tableLen: int64(le.Uint16(b[22:])),
	}
	if p.total == 0 {
		p.total = int64(le.Uint32(b[32:]))
	}
	if p.tableLen == 0 {
		p.fat32, p.tableLen = true, int64(le.Uint32(b[36:]))
	}
	isPower := func(n int64) bool { return n > 0 && n&(n-1) == 0 }
	if p.bytesPer < 512 || p.bytesPer > 4096 || !isPower(p.bytesPer) || !isPower(p.perCluster) {
		return bpb{}, false
	}
	return p, p.reserved > 0 && p.copies > 0 && p.copies <= 4 && p.tableLen > 0 && p.total > 0
}

// place returns the range of a cluster.
func (f *fat) place(c uint32) extent {
	return extent{f.data + int64(c-2)*f.cluster, f.cluster}
}

// slot returns the offset of the entry of a cluster in a table, and its length.
func (f *fat) slot(c uint32) (off int64, n int) {
	switch f.bits {
	case 12:
		return int64(c) + int64(c)/2, 2
	case 16:
		return int64(c) * 2, 2
	}
	return int64(c) * 4, 4
}

// next returns the cluster after c, and reports whether c is the last of its chain.
func (f *fat) next(c uint32) (next uint32, last bool, err error) {
	off, n := f.slot(c)
	if f.window == nil || off < f.windowAt || off+int64(n) > f.windowAt+int64(len(f.window)) {
		f.windowAt = off &^ 511
		f.window = make([]byte, min(4096, f.tables[0].size-f.windowAt))
		if err := f.src.read(f.window, f.at+f.tables[0].off+f.windowAt); err != nil {
			return 0, false, err
		}
	}
	raw := f.window[off-f.windowAt:]
	if len(raw) < n {
		return 0, false, fmt.Errorf("%w: its table ends early", errFAT)
	}
	var v, limit uint32
	switch f.bits {
	case 12:
		v, limit = uint32(binary.LittleEndian.Uint16(raw)), 0xFF8
		if c%2 == 1 {
			v >>= 4
		}
		v &= 0xFFF
	case 16:
		v, limit = uint32(binary.LittleEndian.Uint16(raw)), 0xFFF8
	default:
		v, limit = binary.LittleEndian.Uint32(raw)&0x0FFFFFFF, 0x0FFFFFF8
	}
	return v, v >= limit, nil
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
		if err != nil {
			return nil, err
		}
		if last {
			return chain, nil
		}
		c = next
	}
}

// fatFile is a file or a directory, as its directory entry describes it.
type fatFile struct {
	path  string
	entry int64 // where the directory entry stands
	first uint32
	size  int64
	dir   bool
}

// walk calls fn for every file and directory.
func (f *fat) walk(fn func(*fatFile) error) error {
	w := fatWalk{f: f, fn: fn, budget: maxFATDirectories, seen: map[uint32]struct{}{}}
	return w.descend("", f.rootCluster, 0)
}

type fatWalk struct {
	f      *fat
	fn     func(*fatFile) error
	budget int64
	seen   map[uint32]struct{}
}

// ranges returns the ranges of the content of a directory.
func (w *fatWalk) ranges(first uint32) ([]extent, error) {
	if first == 0 {
		return []extent{w.f.root}, nil
	}
	if _, again := w.seen[first]; again {
		return nil, errors.New("the directory holds itself")
	}
	w.seen[first] = struct{}{}
	chain, err := w.f.chain(first, w.budget/w.f.cluster)
	if err != nil {
		return nil, err
	}
	var ranges []extent
	for _, c := range chain {
		ranges = append(ranges, w.f.place(c))
	}
	return ranges, nil
}

func (w *fatWalk) descend(path string, first uint32, depth int) error {
	if depth > maxFATDepth {
		return fmt.Errorf("%s: directories are nested deeper than %d", path, maxFATDepth)
	}
	ranges, err := w.ranges(first)
	if err != nil {
		return fmt.Errorf("%s/: %w", path, err)
	}
	var children []fatFile
	var long longName
	for _, r := range ranges {
		if w.budget -= r.size; w.budget < 0 {
			return fmt.Errorf("its directories have more than %d MB", maxFATDirectories>>20)
		}
		buf := make([]byte, r.size)
		if err := w.f.src.read(buf, w.f.at+r.off); err != nil {
			return err
		}
		end := false
		for pos := 0; pos+32 <= len(buf) && !end; pos += 32 {
			file, ok := w.f.parseEntry(buf[pos:pos+32], &long)
			if end = buf[pos] == 0; end || !ok {
				continue
			}
			file.path, file.entry = path+"/"+file.path, w.f.at+r.off+int64(pos)
			if file.dir && file.first != 0 {
				children = append(children, file)
			}
			if err := w.fn(&file); err != nil {
				return err
			}
		}
		if end {
			break
		}
	}
	for _, c := range children {
		if err := w.descend(c.path, c.first, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// parseEntry parses a directory entry, whose name may stand in the entries before it.
// It reports whether the entry is a file or a directory: it returns the name as path.
func (f *fat) parseEntry(e []byte, long *longName) (fatFile, bool) {
	switch {
	case e[0] == 0: // the end of the directory
		return fatFile{}, false
	case e[0] == 0xE5: // deleted
		long.reset()
		return fatFile{}, false
	case e[11]&0x3F == 0x0F:
		long.add(e)
		return fatFile{}, false
	}
	name := long.name(e)
	if e[11]&0x08 != 0 || e[0] == '.' || name == "" {
		return fatFile{}, false // the label of the volume, "." and ".."
	}
	file := fatFile{
		path:  name,
		first: uint32(binary.LittleEndian.Uint16(e[26:])),
		size:  int64(binary.LittleEndian.Uint32(e[28:])),
		dir:   e[11]&0x10 != 0,
	}
	if f.bits == 32 {
		file.first |= uint32(binary.LittleEndian.Uint16(e[20:])) << 16
	}
	return file, true
}

// maxSpare is the number of clusters that a file may have beyond its size.
const maxSpare = 1024

// chainOf returns the clusters of a file, which may be more than its size needs.
func (f *fat) chainOf(file *fatFile) ([]uint32, error) {
	if file.size == 0 && file.first == 0 {
		return nil, nil
	}
	chain, err := f.chain(file.first, file.size/f.cluster+maxSpare)
	if err != nil {
		return nil, err
	}
	if int64(len(chain))*f.cluster < file.size {
		return nil, fmt.Errorf("its chain of clusters is shorter than its size")
	}
	return chain, nil
}

// extents returns the ranges of the content in the image. Adjacent ones are joined.
func (f *fat) extents(chain []uint32, size int64) []extent {
	var out []extent
	for _, c := range chain {
		if size <= 0 {
			break
		}
		e := f.place(c)
		e.off += f.at
		e.size = min(e.size, size)
		size -= e.size
		if n := len(out); n > 0 && out[n-1].end() == e.off {
			out[n-1].size += e.size
		} else {
			out = append(out, e)
		}
	}
	return out
}

// longName collects the pieces of a long file name, which stand before the entry in
// reverse order.
type longName struct {
	units [20 * 13]uint16
	sum   byte
	n     int // number of pieces
	want  int // number of the next piece
}

func (l *longName) reset() { l.n = 0 }

func (l *longName) add(e []byte) {
	seq := int(e[0] & 0x1F)
	if seq == 0 || seq > 20 {
		l.reset()
		return
	}
	if e[0]&0x40 != 0 {
		l.n, l.want, l.sum = seq, seq, e[13]
	}
	if l.n == 0 || seq != l.want || e[13] != l.sum {
		l.reset()
		return
	}
	l.want--
	piece := l.units[13*(seq-1):]
	for i, at := range [13]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
		piece[i] = binary.LittleEndian.Uint16(e[at:])
	}
}

// name returns the name of the entry e: the long name if it is complete and belongs to
// the entry, else the short one. It resets l.
func (l *longName) name(e []byte) string {
	defer l.reset()
	var sum byte
	for _, c := range e[:11] {
		sum = sum>>1 | sum<<7
		sum += c
	}
	if l.n > 0 && l.want == 0 && l.sum == sum {
		units := l.units[:13*l.n]
		for i, u := range units {
			if u == 0 || u == 0xFFFF {
				units = units[:i]
				break
			}
		}
		if name := string(utf16.Decode(units)); !strings.Contains(name, "/") {
			return printable(name)
		}
	}
	base, ext := strings.TrimRight(string(e[:8]), " "), strings.TrimRight(string(e[8:11]), " ")
	if e[12]&0x08 != 0 {
		base = strings.ToLower(base)
	}
	if e[12]&0x10 != 0 {
		ext = strings.ToLower(ext)
	}
	if ext != "" {
		base += "." + ext
	}
	return strings.ReplaceAll(printable(base), "/", "\uFFFD")
}
