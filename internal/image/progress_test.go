package image

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/image/imagetest"
)

// progressJournal keeps the files that hosts have read.
type progressJournal struct {
	mu   sync.Mutex
	read []string
}

func (j *progressJournal) KernelRead(host *model.Host, image Ref, path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.read = append(j.read, host.Ref.Name+" "+image.Name+" "+path)
}

func (j *progressJournal) RootfsRead(*model.Host, Ref, string) {}

func (j *progressJournal) InitrdRead(host *model.Host, image Ref, path string) {
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
	dir := t.TempDir()
	l, err := New(Options{Dir: dir, Settle: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached, release := make(chan struct{}), make(chan struct{})
	reachedOnce := sync.OnceFunc(func() { close(reached) })
	l.source = func(f *os.File) io.ReaderAt {
		if filepath.Base(f.Name()) != "slow.iso" {
			return f
		}
		return slowFile{f, reachedOnce, release}
	}
	open := func(name string) Ref {
		file := name + ".iso"
		if err := os.WriteFile(filepath.Join(dir, file), imagetest.ISO(name, 64*imagetest.Sector, 1), 0o600); err != nil {
			t.Error(err)
		}
		cdrom := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ISCSICdromSpec{ISOFile: file}}
		l.Put(cdrom)
		v, err := l.Open(t.Context(), cdrom, func() {})
		if err != nil {
			t.Error(err)
		}
		l.Serve(t.Context(), RefOf(cdrom), cdrom.UID, Content{Volume: v, Failure: err})
		return RefOf(cdrom)
	}
	quick := open("quick")
	opened := make(chan Ref)
	go func() { opened <- open("slow") }()
	<-reached

	journal := &progressJournal{}
	boot := func(ref Ref, host string) {
		t.Helper()
		d, err := l.DiskAgain(ref, host, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Release()
		progress := d.Progress(&model.Host{Ref: model.Ref{Name: host}}, journal)
		for off := int64(0); off < d.Size(); off += imagetest.Sector {
			progress.Read(off, imagetest.Sector)
			if _, err := d.ReadAt(make([]byte, imagetest.Sector), off); err != nil {
				t.Fatal(err)
			}
		}
	}
	boot(quick, "b")
	close(release)
	boot(<-opened, "a")
	if want := []string{"b quick /VMLINUZ", "a slow /VMLINUZ"}; !slices.Equal(journal.read, want) {
		t.Errorf("read %q, want %q", journal.read, want)
	}
}
