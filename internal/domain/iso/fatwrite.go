package iso

import (
	"encoding/binary"
	"fmt"
)

// replace gives the file other content within the file system, whose reader is
// p. Free clusters are taken where the new content needs more; room bounds how
// much of the image belongs to the file system, 0 where that is not known.
func (f *fat) replace(p *patch, name string, file *fatFile, content []byte, room int64) error {
	chain, err := f.chainOf(file)
	if err != nil {
		return refuse(name, "%v", err)
	}
	if need := (int64(len(content)) + f.cluster - 1) / f.cluster; need > int64(len(chain)) {
		if chain, err = f.grow(p, chain, need, room); err != nil {
			return refuse(name, "%v", err)
		}
	}
	rest := make([]byte, align512(int64(len(content))))
	copy(rest, content)
	for _, c := range chain {
		at := f.place(c)
		at.off += f.at
		if err := p.claim(name, at); err != nil {
			return err
		}
		n := min(at.size, int64(len(rest)))
		if err := p.write(rest[:n], at.off); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return p.put32(file.entry+28, uint32(len(content)))
}

func align512(n int64) int64 { return (n + block - 1) / block * block }

// grow puts free clusters at the end of a chain until it has need of them.
func (f *fat) grow(p *patch, chain []uint32, need, room int64) ([]uint32, error) {
	if len(chain) == 0 {
		return nil, fmt.Errorf("the file is empty")
	}
	usable := f.clusters
	if room == 0 {
		usable = 0
	} else if n := (room - f.data) / f.cluster; n < int64(usable) {
		usable = uint32(max(n, 0))
	}
	have := len(chain)
	last := chain[have-1]
	// From the file on, then from the start: as near to it as can be.
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
	for i := have - 1; i < len(chain); i++ {
		to := uint32(0x0FFFFFFF) // the end, cut to the width of the table
		if i+1 < len(chain) {
			to = chain[i+1]
		}
		if err := f.link(p, chain[i], to); err != nil {
			return nil, err
		}
	}
	return chain, f.taken(p, uint32(len(chain)-have))
}

// link makes to the cluster after c, in every copy of the table.
func (f *fat) link(p *patch, c, to uint32) error {
	off, n := f.slot(c)
	f.window = nil
	for _, t := range f.tables {
		b := make([]byte, n)
		at := f.at + t.off + off
		if err := p.read(b, at); err != nil {
			return err
		}
		le := binary.LittleEndian
		switch old := uint32(le.Uint16(b)); {
		case f.bits == 12 && c%2 == 1:
			le.PutUint16(b, uint16(old&0x000F|to<<4))
		case f.bits == 12:
			le.PutUint16(b, uint16(old&0xF000|to&0x0FFF))
		case f.bits == 16:
			le.PutUint16(b, uint16(to))
		default:
			le.PutUint32(b, le.Uint32(b)&0xF0000000|to&0x0FFFFFFF)
		}
		if err := p.write(b, at); err != nil {
			return err
		}
	}
	return nil
}

// taken counts clusters off the free ones that FAT32 keeps.
func (f *fat) taken(p *patch, n uint32) error {
	if f.info == 0 {
		return nil
	}
	b := make([]byte, block)
	at := f.at + f.info
	if err := p.read(b, at); err != nil {
		return err
	}
	le := binary.LittleEndian
	if le.Uint32(b) != 0x41615252 || le.Uint32(b[484:]) != 0x61417272 {
		return nil
	}
	free := le.Uint32(b[488:])
	if free == 0xFFFFFFFF || free < n {
		return nil
	}
	return p.put32(at+488, free-n)
}
