package iso

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// replace gives the file other content within the file system, whose reader is
// p. Free clusters are used where the new content needs more; room bounds how
// much of the image belongs to the file system, 0 where that is not known.
func (f *fat) replace(p *patch, name string, file *entry, content []byte, room int64) error {
	chain, err := f.chainOf(file)
	if need := (int64(len(content)) + f.cluster - 1) / f.cluster; err == nil && need > int64(len(chain)) {
		chain, err = f.grow(p, chain, need, room)
	}
	if err != nil {
		return refuse(name, "%v", err)
	}
	rest := slices.Concat(content, make([]byte, -len(content)&(block-1))) // whole blocks
	for _, c := range chain {
		at := f.place(c)
		if err := p.claim(name, at); err != nil {
			return err
		}
		n := min(at.Len, int64(len(rest)))
		if err := p.write(rest[:n], at.Off); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return p.put32(file.places[0].record+28, uint32(len(content)))
}

// grow adds free clusters to the end of a chain until it has need of them.
func (f *fat) grow(p *patch, chain []uint32, need, room int64) ([]uint32, error) {
	if len(chain) == 0 {
		return nil, fmt.Errorf("the file is empty")
	}
	usable := uint32(min(int64(f.clusters), max(0, (f.at+room-f.data)/f.cluster)))
	have := len(chain)
	last := chain[have-1]
	// From the file on, then from the start: as near to it as possible.
	for i := uint32(0); i < usable && int64(len(chain)) < need; i++ {
		c := 2 + (last-2+1+i)%usable
		v, _, err := f.next(c)
		if err != nil {
			return nil, err
		}
		if v == 0 {
			chain = append(chain, c)
		}
	}
	if int64(len(chain)) < need {
		return nil, fmt.Errorf("its file system has room for %d bytes of it, %d are needed",
			int64(len(chain))*f.cluster, need*f.cluster)
	}
	for i, c := range chain[have-1:] {
		to := f.mask // the end
		if have+i < len(chain) {
			to = chain[have+i]
		}
		if err := f.link(p, c, to); err != nil {
			return nil, err
		}
	}
	return chain, f.countFree(p, uint32(len(chain)-have))
}

// link makes to the cluster after c, in every copy of the table.
func (f *fat) link(p *patch, c, to uint32) error {
	off, n, shift := f.slot(c)
	f.window = nil
	for _, t := range f.tables {
		var b [4]byte
		if err := p.read(b[:n], t.Off+off); err != nil {
			return err
		}
		old := binary.LittleEndian.Uint32(b[:])
		binary.LittleEndian.PutUint32(b[:], old&^(f.mask<<shift)|to&f.mask<<shift)
		if err := p.write(b[:n], t.Off+off); err != nil {
			return err
		}
	}
	return nil
}

// countFree subtracts n clusters from the number of free ones in the FSInfo sector, which
// only FAT32 has (section 5).
func (f *fat) countFree(p *patch, n uint32) error {
	if f.info == 0 {
		return nil
	}
	b := make([]byte, block)
	if err := p.read(b, f.info); err != nil {
		return err
	}
	le := binary.LittleEndian
	free := le.Uint32(b[488:])
	if le.Uint32(b) != 0x41615252 || le.Uint32(b[484:]) != 0x61417272 || free == 0xFFFFFFFF || free < n {
		return nil
	}
	return p.put32(f.info+488, free-n)
}
