package image

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// progressJournal keeps the files that hosts have read.
type progressJournal struct {
	mu   sync.Mutex
	read []string
}

func (j *progressJournal) KernelRead(host *snapshot.Host, image Ref, path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.read = append(j.read, host.Ref.Name+" "+image.Name+" "+path)
}

func (j *progressJournal) InitrdRead(host *snapshot.Host, image Ref, path string) {
	j.KernelRead(host, image, path)
}

// slowFile is a file that cannot be read before it is released.
type slowFile struct {
	*os.File
	reached func()
	release <-chan struct{}
}

func (f slowFile) ReadAt(b []byte, off int64) (int, error) {
	f.reached()
	<-f.release
	return f.File.ReadAt(b, off)
}

// The reads of one host, and their place in the boot, wait for no other image, be that
// searched for its kernel for ever so long.
func TestReadsWaitForNoOtherImage(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	k := newKit(t, func(l *Library, _ *Options) {
		if l == nil {
			return
		}
		l.pace.source = func(f *os.File) io.ReaderAt {
			if filepath.Base(f.Name()) != "slow.iso" {
				return f
			}
			return slowFile{f, sync.OnceFunc(func() { close(reached) }), release}
		}
	})
	k.write("quick.iso", isoImage("QUICK", 64*sector, 1))
	k.write("slow.iso", isoImage("SLOW", 64*sector, 2))
	quick := k.create("quick", v1.ISCSICdromSpec{ISOFile: "quick.iso"})
	k.phase(quick, v1.PhaseReady)
	slow := k.create("slow", v1.ISCSICdromSpec{ISOFile: "slow.iso"})
	<-reached

	journal := &progressJournal{}
	boot := func(ref Ref, host string) {
		t.Helper()
		d, err := k.lib.DiskAgain(ref, host, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Release()
		progress := d.Progress(&snapshot.Host{Ref: snapshot.Ref{Name: host}}, journal)
		for off := int64(0); off < d.Size(); off += sector {
			progress.Read(off, sector)
			if _, err := d.ReadAt(make([]byte, sector), off); err != nil {
				t.Fatal(err)
			}
		}
	}
	boot(quick, "b")
	if d, err := k.lib.Disk(slow, nil); err == nil {
		d.Release()
		t.Error("an image is served before it was read")
	}
	close(release)
	k.phase(slow, v1.PhaseReady)
	boot(slow, "a")
	if want := []string{"b quick /VMLINUZ", "a slow /VMLINUZ"}; !slices.Equal(journal.read, want) {
		t.Errorf("read %q, want %q", journal.read, want)
	}
}
