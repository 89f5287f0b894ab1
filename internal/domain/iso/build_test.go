package iso

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf16"
)

// layout describes a small image to build: just enough of ISO 9660 for a test.
type layout struct {
	volume    string
	rockRidge bool
	joliet    bool
	files     map[string]string
	// links are further names of files.
	links map[string]string
	// bios and efi are the files that El Torito names.
	bios, efi string
	// appended is a file system behind the volume, as partition 2 of the MBR.
	appended []byte
	md5      bool
	// finish changes the image; at tells where the content of a file stands.
	finish func(image []byte, at func(string) int64)
}

// build makes the image.
func (l layout) build(t testing.TB) []byte {
	t.Helper()
	names := make([]string, 0, len(l.files))
	for name := range l.files {
		names = append(names, name)
	}
	sort.Strings(names)
	all := slices.Clone(names)
	for link := range l.links {
		all = append(all, link)
	}
	sort.Strings(all)
	dirs := map[string][]string{"/": nil} // directory -> the names in it
	for _, name := range all {
		for child := name; child != "/"; child = path.Dir(child) {
			dir := path.Dir(child)
			if !slices.Contains(dirs[dir], child) {
				dirs[dir] = append(dirs[dir], child)
			}
			if child != name && dirs[child] == nil {
				dirs[child] = []string{}
			}
		}
	}
	order := make([]string, 0, len(dirs))
	for dir := range dirs {
		order = append(order, dir)
		sort.Strings(dirs[dir])
	}
	sort.Strings(order)

	trees := []bool{false} // joliet?
	if l.joliet {
		trees = append(trees, true)
	}
	next := int64(16 + len(trees) + 3) // descriptors, boot record, terminator, catalogue
	catalog := next - 1
	type spot struct{ block, size int64 }
	dirAt := map[bool]map[string]spot{false: {}, true: {}}
	fileAt := map[string]spot{}
	render := func(joliet bool, dir string) []byte {
		var out []byte
		put := func(rec []byte) {
			if len(out)%sector+len(rec) > sector {
				out = append(out, make([]byte, sector-len(out)%sector)...)
			}
			out = append(out, rec...)
		}
		self, up := dirAt[joliet][dir], dirAt[joliet][path.Dir(dir)]
		var sp []byte
		if dir == "/" && l.rockRidge && !joliet {
			sp = []byte("SP\x07\x01\xBE\xEF\x00ER\x12\x01\x0A\x00\x00\x01RRIP_1991A")
		}
		put(rawRecord(self.block, self.size, true, []byte{0}, sp))
		put(rawRecord(up.block, up.size, true, []byte{1}, nil))
		for _, child := range dirs[dir] {
			_, isDir := dirs[child]
			at := dirAt[joliet][child]
			if !isDir {
				target := child
				if to, ok := l.links[child]; ok {
					target = to
				}
				at = fileAt[target]
			}
			base := path.Base(child)
			var name, rr []byte
			switch {
			case joliet:
				for _, u := range utf16.Encode([]rune(base)) {
					name = binary.BigEndian.AppendUint16(name, u)
				}
			default:
				plain := strings.ToUpper(base)
				if !isDir {
					plain += ";1"
				}
				name = []byte(plain)
				if l.rockRidge {
					rr = append([]byte{'N', 'M', byte(5 + len(base)), 1, 0}, base...)
				}
			}
			put(rawRecord(at.block, at.size, isDir, name, rr))
		}
		return append(out, make([]byte, align(int64(len(out)))-int64(len(out)))...)
	}
	for _, joliet := range trees {
		for _, dir := range order {
			size := int64(len(render(joliet, dir)))
			dirAt[joliet][dir] = spot{next, size}
			next += size / sector
		}
	}
	for _, name := range names {
		size := int64(len(l.files[name]))
		fileAt[name] = spot{next, size}
		next += align(size) / sector
	}
	end := next
	image := make([]byte, end*sector+align(int64(len(l.appended))))
	for _, joliet := range trees {
		for _, dir := range order {
			copy(image[dirAt[joliet][dir].block*sector:], render(joliet, dir))
		}
	}
	for _, name := range names {
		copy(image[fileAt[name].block*sector:], l.files[name])
	}
	for i, joliet := range trees {
		d := image[(16+i)*sector:]
		d[0], d[6] = byte(1+i), 1
		copy(d[1:], "CD001")
		copy(d[40:72], strings.Repeat(" ", 32))
		copy(d[40:72], l.volume)
		both(d[80:], end)
		for at := 813; at < 881; at += 17 {
			copy(d[at:], "2025010112000000\x00")
		}
		binary.LittleEndian.PutUint16(d[128:], sector)
		copy(d[156:], rawRecord(dirAt[joliet]["/"].block, dirAt[joliet]["/"].size, true, []byte{0}, nil))
		if joliet {
			copy(d[88:], "%/E")
		} else if l.md5 {
			copy(d[883:], "ISO MD5SUM = 00112233445566778899aabbccddeeff;SKIPSECTORS = 15;")
		}
	}
	d := image[(16+len(trees))*sector:]
	copy(d[1:], "CD001\x01EL TORITO SPECIFICATION")
	if l.bios != "" || l.efi != "" {
		binary.LittleEndian.PutUint32(d[71:], uint32(catalog))
		c := image[catalog*sector:]
		c[0], c[30], c[31] = 1, 0x55, 0xAA
		entry := func(at int, name string) {
			c[at] = 0x88
			binary.LittleEndian.PutUint16(c[at+6:], uint16(len(l.files[name])/512))
			binary.LittleEndian.PutUint32(c[at+8:], uint32(fileAt[name].block))
		}
		if l.bios != "" {
			entry(32, l.bios)
		}
		if l.efi != "" {
			c[64], c[65], c[66] = 0x91, 0xEF, 1
			entry(96, l.efi)
		}
	}
	terminator := image[(17+len(trees))*sector:]
	terminator[0] = 255
	copy(terminator[1:], "CD001\x01")
	if l.appended != nil {
		copy(image[end*sector:], l.appended)
		p := image[446+16:]
		p[4] = 0xEF
		binary.LittleEndian.PutUint32(p[8:], uint32(end*4))
		binary.LittleEndian.PutUint32(p[12:], uint32(len(l.appended)/512))
		image[510], image[511] = 0x55, 0xAA
	}
	if l.finish != nil {
		l.finish(image, func(name string) int64 {
			at, ok := fileAt[name]
			if !ok {
				t.Fatalf("the layout has no file %s", name)
			}
			return at.block * sector
		})
	}
	return image
}

func both(b []byte, v int64) {
	binary.LittleEndian.PutUint32(b, uint32(v))
	binary.BigEndian.PutUint32(b[4:], uint32(v))
}

func rawRecord(block, size int64, dir bool, name, susp []byte) []byte {
	n := 33 + len(name)
	n += n % 2
	b := make([]byte, n+len(susp)+len(susp)%2)
	b[0], b[32], b[28] = byte(len(b)), byte(len(name)), 1
	both(b[2:], block)
	both(b[10:], size)
	if dir {
		b[25] = flagDirectory
	}
	copy(b[33:], name)
	copy(b[n:], susp)
	return b
}

// fatLayout describes a small FAT file system.
type fatLayout struct {
	bits     int
	clusters int // of 512 bytes
	files    map[string]string
	// full fills what is left, so that no file can grow.
	full bool
}

func (l fatLayout) build(t testing.TB) []byte {
	t.Helper()
	reserved, rootEntries := 1, 512
	if l.bits == 32 {
		reserved, rootEntries = 32, 0
	}
	tableBlocks := ((l.clusters+2)*l.bits/8 + 512) / 512
	data := reserved + 2*tableBlocks + rootEntries*32/512
	image := make([]byte, (data+l.clusters)*512)
	le := binary.LittleEndian
	copy(image, "\xEB\x3C\x90GLOWPLUG")
	le.PutUint16(image[11:], 512)
	image[13], image[16] = 1, 2
	le.PutUint16(image[14:], uint16(reserved))
	le.PutUint16(image[17:], uint16(rootEntries))
	le.PutUint32(image[32:], uint32(data+l.clusters))
	if l.bits == 32 {
		le.PutUint32(image[36:], uint32(tableBlocks))
		le.PutUint32(image[44:], 2)
		le.PutUint16(image[48:], 1)
		image[66] = 0x29
		copy(image[71:], "NO NAME    FAT32   ")
		info := image[512:]
		copy(info, "RRaA")
		copy(info[484:], "rrAa")
		le.PutUint32(info[488:], uint32(l.clusters))
		info[510], info[511] = 0x55, 0xAA
	} else {
		le.PutUint16(image[22:], uint16(tableBlocks))
		image[38] = 0x29
		copy(image[43:], fmt.Sprintf("NO NAME    FAT%d   ", l.bits))
	}
	image[21] = 0xF8
	// The first two entries of the table stand for no cluster.
	for i := range 2 {
		copy(image[(reserved+i*tableBlocks)*512:], "\xF8\xFF\xFF\x0F\xFF\xFF\xFF\x0F"[:map[int]int{12: 3, 16: 4,
			32: 8}[l.bits]])
	}
	image[510], image[511] = 0x55, 0xAA
	src := source{bytes.NewReader(image), int64(len(image))}
	fs, err := openFAT(src, 0, src.size)
	if err != nil || fs.bits != l.bits {
		t.Fatalf("the layout gives FAT%d: %v", fs.bits, err)
	}
	p := newPatch(src)
	free := uint32(2)
	alloc := func(n int) (first uint32) {
		first = free
		for i := range n {
			to := uint32(0x0FFFFFFF)
			if i < n-1 {
				to = free + 1
			}
			if err := fs.link(p, free, to); err != nil {
				t.Fatal(err)
			}
			free++
		}
		return first
	}
	// Directories have room for 16 entries a cluster; four clusters each.
	dirs := map[string][]byte{"/": make([]byte, max(rootEntries*32, 2048))}
	firsts := map[string]uint32{}
	if l.bits == 32 {
		firsts["/"] = alloc(4)
	}
	used := map[string]int{}
	put := func(dir, name string, attr byte, first uint32, size int) {
		entries := shortEntry(name, used[dir])
		last := entries[len(entries)-32:]
		last[11] = attr
		le.PutUint16(last[20:], uint16(first>>16))
		le.PutUint16(last[26:], uint16(first))
		le.PutUint32(last[28:], uint32(size))
		copy(dirs[dir][used[dir]:], entries)
		used[dir] += len(entries)
	}
	var mkdir func(string)
	mkdir = func(dir string) {
		if dirs[dir] != nil {
			return
		}
		mkdir(path.Dir(dir))
		dirs[dir], firsts[dir] = make([]byte, 2048), alloc(4)
		put(path.Dir(dir), path.Base(dir), 0x10, firsts[dir], 0)
	}
	names := make([]string, 0, len(l.files))
	for name := range l.files {
		names = append(names, name)
	}
	sort.Strings(names)
	write := func(first uint32, content []byte) {
		if err := p.write(content, fs.place(first).Off); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		mkdir(path.Dir(name))
		content := l.files[name]
		first := alloc((len(content) + 511) / 512)
		put(path.Dir(name), path.Base(name), 0x20, first, len(content))
		write(first, []byte(content))
	}
	for dir, content := range dirs {
		if dir == "/" && l.bits != 32 {
			if err := p.write(content, fs.root.Off); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(firsts[dir], content)
	}
	if l.full {
		alloc(l.clusters + 2 - int(free))
	}
	out := make([]byte, len(image))
	if err := p.read(out, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

// shortEntry returns the directory entries of a name: a long one, and an 8.3 one.
func shortEntry(name string, n int) []byte {
	short := []byte("F" + strings.Repeat("0", 7) + "   ")
	copy(short[4:], []byte{'0' + byte(n/1000%10), '0' + byte(n/100%10), '0' + byte(n/10%10), '0' + byte(n%10)})
	var sum byte
	for _, c := range short {
		sum = sum>>1 | sum<<7
		sum += c
	}
	units := utf16.Encode([]rune(name))
	pieces := (len(units) + 12) / 13
	if len(units)%13 != 0 {
		units = append(units, 0)
	}
	for len(units) < 13*pieces {
		units = append(units, 0xFFFF)
	}
	var out []byte
	for seq := pieces; seq > 0; seq-- {
		e := make([]byte, 32)
		e[0], e[11], e[13] = byte(seq), 0x0F, sum
		if seq == pieces {
			e[0] |= 0x40
		}
		for i, at := range [13]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
			binary.LittleEndian.PutUint16(e[at:], units[13*(seq-1)+i])
		}
		out = append(out, e...)
	}
	return append(out, append(short, make([]byte, 21)...)...)
}
