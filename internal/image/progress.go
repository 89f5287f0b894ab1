package image

import (
	"sync/atomic"

	"glowplug/internal/domain/iso"
	"glowplug/internal/store/snapshot"
)

// Journal takes the progress of boots. Its methods do not block.
type Journal interface {
	// KernelRead is called when a host begins to read the kernel of an image.
	KernelRead(host *snapshot.Host, image Ref, path string)
	// InitrdRead is KernelRead for the initial RAM disk.
	InitrdRead(host *snapshot.Host, image Ref, path string)
}

// Progress is the progress of one boot: it notes in the journal when a host reads the
// kernel and the initial RAM disk of an image. It takes no lock and reads no file, so
// that no read of a disk waits for another.
type Progress struct {
	host    *snapshot.Host
	image   Ref
	journal Journal
	files   []iso.BootFile
	// kernel and initrd are true once they have been read, done is true once both have.
	kernel, initrd, done atomic.Bool
}

// Progress returns the progress of a host that boots from the disk; nil stands for an
// unknown host, of whose boot nothing is noted.
func (d *Disk) Progress(host *snapshot.Host, journal Journal) *Progress {
	return &Progress{host: host, image: d.image.ref, journal: journal, files: d.volume.bootFiles}
}

// Read notes that n bytes at off of the disk are read.
func (p *Progress) Read(off, n int64) {
	if p.host == nil || p.done.Load() {
		return
	}
	for i := range p.files {
		if file := &p.files[i]; file.Holds(off, n) {
			p.fileRead(file.Kind, file.Path)
		}
	}
	p.done.Store(p.kernel.Load() && p.initrd.Load())
}

func (p *Progress) fileRead(kind, path string) {
	switch {
	case kind == iso.Kernel && !p.kernel.Swap(true):
		p.journal.KernelRead(p.host, p.image, path)
	case kind == iso.Initrd && !p.initrd.Swap(true):
		p.journal.InitrdRead(p.host, p.image, path)
	}
}
