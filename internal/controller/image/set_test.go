package image

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/image"
	"glowplug/internal/testkit"
)

// pxe returns a set of files and a server that has them.
type pxe struct {
	*httptest.Server
	files map[string][]byte
	mu    sync.Mutex
	asked []string
	bad   map[string]bool
}

func newPXE(t *testing.T, fill string) *pxe {
	p := &pxe{files: map[string][]byte{}, bad: map[string]bool{}}
	for role, magic := range map[string]string{coreos.Kernel: "\x7fELF", coreos.Initramfs: "070701",
		coreos.Rootfs: "hsqs"} {
		p.files[role] = append([]byte(magic), bytes.Repeat([]byte(fill+" "+role+"\n"), 20_000)...)
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role := strings.TrimPrefix(r.URL.Path, "/")
		p.mu.Lock()
		p.asked = append(p.asked, role+r.Header.Get("Range"))
		bad := p.bad[role]
		p.mu.Unlock()
		if bad {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		well(w, r, p.files[role])
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pxe) release() (files []coreos.File) {
	for _, role := range []string{coreos.Kernel, coreos.Initramfs, coreos.Rootfs} {
		files = append(files, coreos.File{Role: role, URLs: []string{p.URL + "/" + role}, SHA256: digestOf(p.files[role])})
	}
	return files
}

func (k *kit) readFile(ref Ref, version, role string) ([]byte, error) {
	files, err := k.lib.Files(ref, version)
	if err != nil {
		return nil, err
	}
	defer files.Release()
	f, size, ok := files.Open(role)
	if !ok {
		return nil, errors.New("there is no such file")
	}
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	return b, err
}

func TestPXE(t *testing.T) {
	one, two := newPXE(t, "one"), newPXE(t, "two")
	two.files[coreos.Kernel] = one.files[coreos.Kernel] // the same in both releases
	two.bad[coreos.Rootfs] = true
	k, c := streamKit(t)
	c.publish("41.20241215.3.0", one.release()...)
	spec := follow()
	spec.Stream.Format = v1.FormatPXE
	ref := k.create("a", spec)
	s := k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "True" })
	if s.Phase != v1.PhaseReady || len(s.Files) != 3 || s.ServedRelease != "41.20241215.3.0" || s.MaxIgnition != "3.5.0" ||
		!slices.Equal(s.Architectures, []string{"x86_64"}) || s.TargetIQN != "" || s.Files[2].SHA256 != digestOf(one.files[coreos.Rootfs]) {
		t.Errorf("%+v", s)
	}
	version, sum := s.SHA256[:12], s.SHA256
	for role, want := range one.files {
		if got, err := k.readFile(ref, "", role); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if _, err := k.lib.Disk(ref, nil); err == nil || !strings.Contains(err.Error(), "no ISO image") {
		t.Errorf("as a disk: %v", err)
	}

	// The rest of a release that cannot be had whole is not served.
	k.move(c, "2", two.release()...)
	s = k.reaches(ref, "failed", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "DownloadFailed" })
	if s.Phase != v1.PhaseReady || s.ServedRelease != "41.20241215.3.0" || s.SHA256 != sum {
		t.Errorf("%+v", s)
	}
	if got, err := k.readFile(ref, "", coreos.Initramfs); err != nil || !bytes.Equal(got, one.files[coreos.Initramfs]) {
		t.Errorf("the initramfs of one release with the root of another: %v", err)
	}
	k.restart() // nor after a restart
	testkit.Until(t, "it comes to pass", func() bool {
		got, err := k.readFile(ref, "", coreos.Initramfs)
		return err == nil && bytes.Equal(got, one.files[coreos.Initramfs])
	})
	two.mu.Lock()
	two.bad[coreos.Rootfs] = false
	two.mu.Unlock()
	s = k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool {
		return upToDate(s) == "True" &&
			s.ServedRelease == "2"
	})
	if got, err := k.readFile(ref, "", coreos.Rootfs); err != nil || !bytes.Equal(got, two.files[coreos.Rootfs]) {
		t.Errorf("the new root: %v", err)
	}
	// One that has begun to boot comes back for its root.
	if got, err := k.readFile(ref, version, coreos.Rootfs); err != nil || !bytes.Equal(got, one.files[coreos.Rootfs]) {
		t.Errorf("the old root: %v", err)
	}
	two.mu.Lock()
	for _, path := range two.asked {
		if path == coreos.Kernel {
			t.Error("the same kernel was downloaded again")
		}
	}
	two.mu.Unlock()
	testkit.Until(t, "it comes to pass", func() bool {
		files, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", "*.*"))
		return len(files) == 4 // three and the manifest
	})

	// A file that was changed on the disk is fetched again, and not served.
	names, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", "kernel.*"))
	k.stop()
	if err := os.WriteFile(names[0], []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	k.start()
	testkit.Until(t, "it comes to pass", func() bool {
		got, err := k.readFile(ref, "", coreos.Kernel)
		if err == nil && !bytes.Equal(got, two.files[coreos.Kernel]) {
			t.Fatal("a changed kernel is served")
		}
		return err == nil
	})
}

func TestISOBecomesPXE(t *testing.T) {
	img := isoImage("ISO", 50*sector, 1)
	m, p := newMirror(t, img, well), newPXE(t, "one")
	k, c := streamKit(t)
	c.publish("1", disk(img, m.URL))
	ref := k.create("a", follow())
	k.phase(ref, v1.PhaseReady)
	c.publish("1", p.release()...)
	k.update(ref, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.Stream.Format = v1.FormatPXE })
	k.reaches(ref, "a set", func(s v1.ISCSICdromStatus) bool { return len(s.Files) == 3 && s.Phase == v1.PhaseReady })
	testkit.Until(t, "it comes to pass", func() bool {
		left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", image.ReceivedFile))
		return len(left) == 0
	})
	k.delete(ref)
	testkit.Until(t, "it comes to pass", func() bool {
		left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "0*"))
		return len(left) == 0
	})
}
