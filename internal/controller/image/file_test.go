package image

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/iso"
	"glowplug/internal/image"
	"glowplug/internal/image/imagetest"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/testkit"
)

func TestFileBecomesReady(t *testing.T) {
	k := newKit(t, func(_ *Controller, o *kitOptions) { o.Portal = netip.MustParseAddrPort("192.0.2.1:3260") })
	img := isoImage("TEST", 0, 0)
	k.write("sub/a.iso", img)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "sub/a.iso", KernelArgs: []string{"console=ttyS0",
		"url=${glowplug}/x"}})
	s := k.phase(ref, v1.PhaseReady)
	want := v1.ISCSICdromStatus{
		Phase: v1.PhaseReady, ISOPath: filepath.Join(k.dir, "sub/a.iso"), ISOSize: int64(len(img)), SHA256: digestOf(img),
		VolumeID: "TEST", Distro: "generic", TargetIQN: "iqn.2026-11.dev.glowplug:g10:a", PortalIP: "192.0.2.1",
		PortalPort:        3260,
		KernelArgsApplied: []string{"console=ttyS0", "url=http://192.0.2.1:8082/x"}, PatchedFiles: []string{"/GRUB.CFG"},
	}
	if s.Phase != want.Phase || s.ISOPath != want.ISOPath || s.ISOSize != want.ISOSize || s.SHA256 != want.SHA256 ||
		s.VolumeID != want.VolumeID || s.Distro != want.Distro || s.TargetIQN != want.TargetIQN ||
		s.PortalIP != want.PortalIP ||
		s.PortalPort != want.PortalPort || !slices.Equal(s.KernelArgsApplied, want.KernelArgsApplied) ||
		!slices.Equal(s.PatchedFiles, want.PatchedFiles) {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if got := k.lib.Targets(); !slices.Equal(got, []Ref{ref}) {
		t.Errorf("Targets: %v", got)
	}
	disk := k.read(ref)
	if !bytes.Contains(disk, []byte("linux /vmlinuz quiet console=ttyS0 url=http://192.0.2.1:8082/x")) {
		t.Error("the disk lacks the arguments")
	}
	own := k.read(ref, "console=ttyS1", "debug")
	if !bytes.Contains(own, []byte("linux /vmlinuz quiet url=http://192.0.2.1:8082/x console=ttyS1 debug")) {
		t.Error("a machine's own arguments do not stand beside the image's")
	}
	on, err := os.ReadFile(filepath.Join(k.dir, "sub/a.iso"))
	if err != nil || !bytes.Equal(on, img) {
		t.Error("the file was written to")
	}
	testkit.Until(t, "it comes to pass", func() bool { return slices.Equal(k.events.reasons(), []string{"ImageReady"}) })
}

// TestStatusShowsArchitectures: the architectures that are found in a file are in its status.
func TestStatusShowsArchitectures(t *testing.T) {
	k := newKit(t)
	img := isoImage("TEST", 0, 0)
	const info = "1730000000.1\nRocky Linux 9.4\naarch64\n"
	at := bytes.Index(img, []byte("VMLINUZ.;1")) // whose record becomes that of .discinfo
	img[at-1] = byte(copy(img[at:], ".DISCINFO"))
	img[at-23], img[at-16] = byte(len(info)), byte(len(info))
	copy(img[21*imagetest.Sector:], info)
	k.write("a.iso", img)
	k.write("b.iso", isoImage("TEST", 0, 0))
	known := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	if s := k.phase(known, v1.PhaseReady); !slices.Equal(s.Architectures, []string{"aarch64"}) {
		t.Errorf("%+v", s)
	}
	if s := k.phase(k.create("b", v1.ISCSICdromSpec{ISOFile: "b.iso"}), v1.PhaseReady); s.Architectures != nil {
		t.Errorf("%+v", s)
	}
}

func TestSegmentsAreTheDisk(t *testing.T) {
	k := newKit(t)
	k.write("a.iso", isoImage("TEST", 64*sector, 7))
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso", KernelArgs: []string{"x=" + strings.Repeat("y", 1500)}})
	k.phase(ref, v1.PhaseReady)
	d, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	whole := readDisk(t, d)
	for _, r := range [][2]int64{{0, d.Size()}, {19*sector + 5, 3 * sector}, {d.Size() - 10, 10}, {d.Size() - 10, 100},
		{d.Size(), 1}} {
		var got []byte
		for _, s := range d.AppendSegments(nil, r[0], r[1]) {
			if s.Data != nil {
				got = append(got, s.Data...)
				continue
			}
			b := make([]byte, s.Len)
			if _, err := s.Source.ReadAt(b, s.Off); err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, whole[r[0]:min(r[0]+r[1], d.Size())]) {
			t.Errorf("the segments of %v are not its bytes", r)
		}
	}
	var room [8]iso.Segment
	if n := testing.AllocsPerRun(100, func() { d.AppendSegments(room[:0], 0, 65536) }); n > 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// A file that is looked up on a disk is the one that a machine finds which mounts
// the disk: patched, as long as it has become, and where it has moved to.
func TestLookup(t *testing.T) {
	k := newKit(t)
	k.write("a.iso", bytes.Replace(isoImage("TEST", 64*sector, 7), []byte("quiet"), []byte("a=old"), 1))
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	for name, own := range map[string][]string{
		"untouched":          nil,
		"in place":           {"a=new"},
		"shorter":            {"a=1"},
		"longer, in place":   {"a=http://192.0.2.1:8082/iso/g10/a/files"},
		"behind the image":   {"a=" + strings.Repeat("x", 1990)},
		"of several entries": {"a=1", "b=" + strings.Repeat("y", 1900), "c"},
	} {
		d, err := k.lib.Disk(ref, own)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Release()
		whole := readDisk(t, d)
		mounted, err := iso.Open(bytes.NewReader(whole), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		grub := strings.Replace(imagetest.GrubConfig, "quiet", strings.Join(append([]string{"a=old"}, own...)[min(1,
			len(own)):], " "), 1)
		for path, want := range map[string]string{"/grub.cfg": grub, "/vmlinuz": imagetest.Kernel} {
			there, err := mounted.Lookup(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := d.Lookup(path)
			if err != nil || !reflect.DeepEqual(file, there) {
				t.Errorf("%s: %s is at %v, %v; on the disk it is at %v", name, path, file, err, there)
			}
			if got, err := io.ReadAll(file.Reader(d)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %v\n%s\nwant\n%s", name, path, err, got, want)
			}
			end := make([]byte, 4)
			if _, err := file.Reader(d).ReadAt(end, int64(len(want)-4)); err != nil || string(end) != want[len(want)-4:] {
				t.Errorf("%s: %s ends in %q, %v", name, path, end, err)
			}
		}
		if _, err := d.Lookup("/nowhere"); !errors.Is(err, iso.ErrNotFound) {
			t.Errorf("%s: a file that is not there: %v", name, err)
		}
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	k := newKit(t)
	outside := filepath.Join(t.TempDir(), "secret.iso")
	if err := os.WriteFile(outside, isoImage("OUT", 0, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(k.dir, "link.iso")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(k.dir, "linked")); err != nil {
		t.Fatal(err)
	}
	k.write("text.iso", bytes.Repeat([]byte("no image "), 10000))
	k.write("empty.iso", nil)
	k.write("short.iso", isoImage("SHORT", 200*sector, 0)[:100*sector])
	k.write("folder/a.iso", isoImage("A", 0, 0))
	k.write("plain.iso", isoImage("A", 0, 0))
	k.write(image.OwnDir+"/x.iso", isoImage("A", 0, 0))
	for name, c := range map[string]struct {
		spec v1.ISCSICdromSpec
		want string
	}{
		"symlink":  {v1.ISCSICdromSpec{ISOFile: "link.iso"}, "escapes"},
		"symlink2": {v1.ISCSICdromSpec{ISOFile: "linked/secret.iso"}, "escapes"},
		"dotdot":   {v1.ISCSICdromSpec{ISOFile: "../secret.iso"}, "escapes"},
		"absolute": {v1.ISCSICdromSpec{ISOFile: outside}, "escapes"},
		"own":      {v1.ISCSICdromSpec{ISOFile: image.OwnDir + "/x.iso"}, "server's own"},
		"missing":  {v1.ISCSICdromSpec{ISOFile: "nowhere.iso"}, "there is no file nowhere.iso"},
		"folder":   {v1.ISCSICdromSpec{ISOFile: "folder"}, "no regular file"},
		"text":     {v1.ISCSICdromSpec{ISOFile: "text.iso"}, "no ISO 9660 image"},
		"empty":    {v1.ISCSICdromSpec{ISOFile: "empty.iso"}, "no ISO 9660 image"},
		"short":    {v1.ISCSICdromSpec{ISOFile: "short.iso"}, "truncated"},
		"args": {v1.ISCSICdromSpec{ISOFile: "plain.iso", KernelArgs: []string{"rd.live.check"}},
			"kernel arguments cannot be set"},
	} {
		ref := k.create(name, c.spec)
		s := k.phase(ref, v1.PhaseError)
		if !strings.Contains(s.ErrorMessage, c.want) {
			t.Errorf("%s: %q does not say %q", name, s.ErrorMessage, c.want)
		}
		if name != "absolute" && strings.Contains(s.ErrorMessage, outside) {
			t.Errorf("%s: %q tells where a link leads", name, s.ErrorMessage)
		}
		_, err := k.lib.Disk(ref, nil)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Unavailable {
			t.Errorf("%s: Disk: %v", name, err)
		}
	}
	if _, err := k.lib.Disk(Ref{Namespace: "g10", Name: "none"}, nil); fault.Of(err).Kind != fault.NoMatch {
		t.Errorf("Disk of nothing: %v", err)
	}
}

func TestFileAppearsChangesAndGoes(t *testing.T) {
	k := newKit(t)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseError)
	first, second := isoImage("FIRST", 64*sector, 1), isoImage("SECOND", 80*sector, 2)
	k.write("a.iso", first)
	k.phase(ref, v1.PhaseReady)
	old, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.write("a.iso", second)
	s := k.reaches(ref, "SECOND", func(s v1.ISCSICdromStatus) bool { return s.VolumeID == "SECOND" })
	if s.SHA256 != digestOf(second) {
		t.Error("the digest is not that of the new file")
	}
	if !bytes.Equal(k.read(ref), second) {
		t.Error("a new disk is not of the new file")
	}
	if !bytes.Equal(readDisk(t, old), first) {
		t.Error("an open disk is not of the old file any more")
	}
	file := old.AppendSegments(nil, 0, 1)[0].Source.(*os.File)
	old.Release()
	old.Release()
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the old file stays open: %v", err)
	}
	if err := os.Remove(filepath.Join(k.dir, "a.iso")); err != nil {
		t.Fatal(err)
	}
	k.phase(ref, v1.PhaseError)
}

// TestSpecWithoutAGeneration: a spec that another program has put into the bucket is
// followed, although its generation is that of the one before it.
func TestSpecWithoutAGeneration(t *testing.T) {
	k := newKit(t)
	k.write("a.iso", isoImage("FIRST", 64*sector, 1))
	k.write("b.iso", isoImage("SECOND", 64*sector, 2))
	ref := k.create("x", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	k.update(ref, func(c *v1.ISCSICdrom) { c.Generation--; c.Spec.ISOFile = "b.iso" })
	k.reaches(ref, "SECOND", func(s v1.ISCSICdromStatus) bool { return s.VolumeID == "SECOND" })
}

func TestFileWrittenInPlace(t *testing.T) {
	// Nobody looks by himself: the disk does.
	k := newKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.poll = time.Hour
		}
	})
	k.write("a.iso", isoImage("FIRST", 64*sector, 1))
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	if err := os.WriteFile(filepath.Join(k.dir, "a.iso"), isoImage("SECOND", 70*sector, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := k.lib.Disk(ref, nil); err == nil {
		t.Error("a disk of a file that was written to is given out")
	}
	k.reaches(ref, "SECOND", func(s v1.ISCSICdromStatus) bool { return s.VolumeID == "SECOND" })
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
}

// release releases a disk, if it is one.
func release(d *image.Disk) {
	if d != nil {
		d.Release()
	}
}

func TestFileBeingCopied(t *testing.T) {
	k := newKit(t, func(_ *Controller, o *kitOptions) { o.settle = 200 * time.Millisecond })
	img := isoImage("COPY", 64*sector, 1)
	k.write("a.iso", img[:32*sector])
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	s := k.phase(ref, v1.PhasePending)
	f, err := os.OpenFile(filepath.Join(k.dir, "a.iso"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(img[32*sector:])
	f.Close()
	s = k.phase(ref, v1.PhaseReady)
	if s.SHA256 != digestOf(img) {
		t.Errorf("the digest is of half a file: %+v", s)
	}
}

func TestDigestIsReadOnce(t *testing.T) {
	k := newKit(t)
	img := isoImage("ONCE", 64*sector, 1)
	k.write("a.iso", img)
	refs := []Ref{
		k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"}),
		k.create("b", v1.ISCSICdromSpec{ISOFile: "a.iso", KernelArgs: []string{"b"}}),
	}
	for _, ref := range refs {
		k.phase(ref, v1.PhaseReady)
	}
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != float64(len(img)) {
		t.Errorf("%v bytes were hashed of %d", n, len(img))
	}
	k.restart()
	for _, ref := range refs {
		testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	}
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != 0 {
		t.Errorf("%v bytes were hashed after a restart", n)
	}
	if got := k.events.reasons(); len(got) > 0 {
		t.Errorf("a restart makes events: %v", got)
	}
}

// TestLargeFile needs time: it reads 5 GB of zeros.
func TestLargeFile(t *testing.T) {
	testkit.NeedsThorough(t) // it reads 5 GB
	k := newKit(t)
	const size = 5 << 30
	k.write("large.iso", isoImage("LARGE", 0, 0))
	if err := os.Truncate(filepath.Join(k.dir, "large.iso"), size); err != nil {
		t.Fatal(err)
	}
	ref := k.create("large", v1.ISCSICdromSpec{ISOFile: "large.iso"})
	k.phase(ref, v1.PhaseReady)
	k.phase(k.create("again", v1.ISCSICdromSpec{ISOFile: "large.iso"}), v1.PhaseReady)
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != size {
		t.Errorf("%v bytes were hashed of %d", n, size)
	}
}

func TestExternalNeedsNothing(t *testing.T) {
	k := newKit(t, func(_ *Controller, o *kitOptions) { o.Dir = "" })
	for portal, want := range map[string]string{"192.0.2.9": "192.0.2.9:3260", "192.0.2.9:3261": "192.0.2.9:3261",
		"[2001:db8::1]": "2001:db8::1:3260", "nas.example": ":0"} {
		ref := k.create("x"+strings.NewReplacer(".", "", ":", "", "[", "", "]", "").Replace(portal),
			v1.ISCSICdromSpec{External: &v1.ExternalTarget{Portal: portal, IQN: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}})
		s := k.phase(ref, v1.PhaseReady)
		if got := s.PortalIP + ":" + strconv.Itoa(int(s.PortalPort)); got != want ||
			s.TargetIQN != "iqn.2000-02.com.mikrotik:cdrom-coreos-live" {
			t.Errorf("%s: %s %s", portal, got, s.TargetIQN)
		}
		if _, err := k.lib.Disk(ref, nil); fault.Of(err).Kind != fault.NoMatch {
			t.Errorf("Disk of an external target: %v", err)
		}
	}
	s := k.phase(k.create("file", v1.ISCSICdromSpec{ISOFile: "a.iso"}), v1.PhaseError)
	if !strings.Contains(s.ErrorMessage, "--iso-dir") {
		t.Error(s.ErrorMessage)
	}
}

func TestSubscribers(t *testing.T) {
	k := newKit(t)
	k.write("a.iso", isoImage("A", 0, 0))
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	if got := k.lib.InUse(ref); len(got) > 0 {
		t.Errorf("in use: %v", got)
	}
	var disks []*image.Disk
	for _, s := range []v1.Subscriber{{Name: "g10/node1", InitiatorIQN: "iqn.x"}, {InitiatorIQN: "iqn.y"},
		{InitiatorIQN: "iqn.y"}} {
		d, err := k.lib.Disk(ref, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Subscribe(s)
		disks = append(disks, d)
	}
	if got := k.lib.InUse(ref); !slices.Equal(got, []string{"g10/node1 (iqn.x)", "iqn.y"}) {
		t.Errorf("in use: %q", got)
	}
	k.reaches(ref, "read by three", func(s v1.ISCSICdromStatus) bool {
		return len(s.Subscribers) == 3 &&
			s.Subscribers[0].Since != nil
	})
	for _, d := range disks {
		d.Release()
	}
	if got := k.lib.InUse(ref); len(got) > 0 {
		t.Errorf("in use: %v", got)
	}
	k.reaches(ref, "read by nobody", func(s v1.ISCSICdromStatus) bool { return len(s.Subscribers) == 0 })
}

// A disk outlives its CD-ROM, and tells so; who has to know of it is told.
func TestDisksOfDeleted(t *testing.T) {
	told := make(chan Ref, 10)
	k := newKit(t, func(_ *Controller, o *kitOptions) { o.Deleted = func(ref Ref) { told <- ref } })
	img := isoImage("OLD", 50*sector, 1)
	k.write("a.iso", img)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	d, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	if d.Deleted() || len(told) > 0 {
		t.Error("deleted before it is")
	}
	k.delete(ref)
	if got := <-told; got != ref || !d.Deleted() {
		t.Errorf("told of %s; deleted: %t", got, d.Deleted())
	}
	k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	other, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if other.Deleted() || !d.Deleted() {
		t.Error("one is taken for the other")
	}
	if !bytes.Equal(readDisk(t, d), img) {
		t.Error("it can no longer be read")
	}
}

// What is left of CD-ROMs that went while the server was away is told of, and kept.
func TestStrays(t *testing.T) {
	k := newKit(t)
	k.write(image.OwnDir+"/stray/image.iso", isoImage("STRAY", 50*sector, 1))
	var log logstest.Buffer
	k.change = append(k.change, func(_ *Controller, o *kitOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { return strings.Contains(log.String(), "folders=[stray] count=1 bytes=102400") })
	if _, err := os.Stat(filepath.Join(k.dir, image.OwnDir, "stray", "image.iso")); err != nil {
		t.Error(err)
	}
}
