// Package imagetest makes images for tests.
package imagetest

import (
	"bytes"
	"encoding/binary"
)

// Sector is the size of a block, in bytes.
const Sector = 2048

// GrubConfig is the content of /GRUB.CFG.
const GrubConfig = "menuentry 'Live' {\n\tlinux /vmlinuz quiet\n\tinitrd /initrd.img\n}\n"

// Kernel is the content of /VMLINUZ.
const Kernel = "the kernel"

// ISO is the smallest image that boots, in a way, of size bytes: a root
// directory with a GRUB configuration and a kernel. fill makes one differ from
// another.
func ISO(volume string, size int, fill byte) []byte {
	const root, file, kernelFile = 19, 20, 21
	img := bytes.Repeat([]byte{fill}, max(size, 24*Sector))
	img = img[:len(img)/Sector*Sector]
	clear(img[:24*Sector])
	both16 := func(b []byte, v uint16) {
		binary.LittleEndian.PutUint16(b, v)
		binary.BigEndian.PutUint16(b[2:], v)
	}
	both32 := func(b []byte, v uint32) {
		binary.LittleEndian.PutUint32(b, v)
		binary.BigEndian.PutUint32(b[4:], v)
	}
	record := func(name string, block, size uint32, flags byte) []byte {
		rec := make([]byte, (33+len(name)+1)/2*2)
		rec[0], rec[25], rec[32] = byte(len(rec)), flags, byte(len(name))
		both32(rec[2:], block)
		both32(rec[10:], size)
		both16(rec[28:], 1)
		copy(rec[33:], name)
		return rec
	}
	pvd := img[16*Sector:]
	copy(pvd, "\x01CD001\x01")
	copy(pvd[8:72], bytes.Repeat([]byte(" "), 64))
	copy(pvd[40:72], volume)
	both32(pvd[80:], uint32(len(img)/Sector))
	both16(pvd[120:], 1)
	both16(pvd[124:], 1)
	both16(pvd[128:], Sector)
	copy(pvd[156:], record("\x00", root, Sector, 2))
	copy(img[17*Sector:], "\xffCD001\x01")
	at := root * Sector
	for _, rec := range [][]byte{
		record("\x00", root, Sector, 2), record("\x01", root, Sector, 2),
		record("GRUB.CFG;1", file, uint32(len(GrubConfig)), 0), record("VMLINUZ.;1", kernelFile, uint32(len(Kernel)), 0),
	} {
		at += copy(img[at:], rec)
	}
	copy(img[file*Sector:], GrubConfig)
	copy(img[kernelFile*Sector:], Kernel)
	return img
}
