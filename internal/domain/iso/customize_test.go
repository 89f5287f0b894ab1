package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	grubConfig = `set default="1"
search --no-floppy --set=root -l 'Fedora-S-dvd-x86_64-41'
menuentry 'Install' --class fedora {
	linux /images/pxeboot/vmlinuz inst.stage2=hd:LABEL=Fedora-S-dvd-x86_64-41 quiet
	initrd /images/pxeboot/initrd.img
}
menuentry 'Test this media' {
	linux /images/pxeboot/vmlinuz inst.stage2=hd:LABEL=Fedora-S-dvd-x86_64-41 rd.live.check quiet
	initrd /images/pxeboot/initrd.img
}
menuentry 'Memory' { linux16 /images/memtest86+ once; }
`
	isolinuxConfig = `default vesamenu.c32
timeout 600
label linux
  menu label ^Install
  kernel vmlinuz
  append initrd=initrd.img inst.stage2=hd:LABEL=Fedora-S-dvd-x86_64-41 quiet
label memtest
  kernel memtest
  append once
label local
  localboot 0xffff
`
	entryConfig = "title Arch\nlinux /arch/vmlinuz\ninitrd /arch/initramfs.img\noptions archisobasedir=arch quiet\n"
)

// sameFiles fails where a file of the patched image differs that is not said
// to be patched.
func sameFiles(t *testing.T, before *Image, o *Overlay) {
	t.Helper()
	after, err := Open(o, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	patched := map[string]bool{}
	for _, name := range o.Patched() {
		file, _, _ := strings.Cut(name, ":")
		patched[file] = true
	}
	n := 0
	tree := before.tree()
	err = walk(tree, func(e *entry) error {
		if e.dir || e.symlink {
			return nil
		}
		n++
		f, err := tree.file(e)
		if err != nil {
			return err
		}
		g, err := after.Lookup(f.Path)
		if err != nil {
			return err
		}
		x, _ := io.ReadAll(f.Reader(before.src.r))
		y, _ := io.ReadAll(g.Reader(o))
		if !patched[f.Path] && !bytes.Equal(x, y) {
			t.Errorf("%s differs and is not named", f.Path)
		}
		return nil
	})
	if err != nil || n == 0 || after.FileCount() != before.FileCount() {
		t.Fatalf("%d files of %d, %d before: %v", n, after.FileCount(), before.FileCount(), err)
	}
}

// text reads a file of the image, also one of an EFI boot image.
func text(t *testing.T, o io.ReaderAt, size int64, name string) string {
	t.Helper()
	img, err := Open(o, size)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range img.parts(img.src) {
		inside := name
		if p.boot != nil {
			var ok bool
			if inside, ok = strings.CutPrefix(name, p.boot.name()+":"); !ok {
				continue
			}
		} else if strings.Contains(name, ":") {
			continue
		}
		out, err := p.readFile(inside)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Fatalf("%s is in no file system", name)
	return ""
}

func open(t testing.TB, image []byte) *Image {
	t.Helper()
	img, err := Open(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// customize sets arguments, checks that the image is not written to and that a
// second time changes nothing, and returns the overlay.
func customize(t *testing.T, image []byte, o Options) *Overlay {
	t.Helper()
	before := bytes.Clone(image)
	img := open(t, image)
	overlay, err := img.Customize(o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(image, before) {
		t.Fatal("the image was written to")
	}
	sameFiles(t, img, overlay)
	again, err := Open(overlay, overlay.Size())
	if err != nil {
		t.Fatal(err)
	}
	twice, err := again.Customize(o)
	if err != nil {
		t.Fatal(err)
	}
	if twice.Kept() != 0 || len(twice.Patched()) != 0 || twice.Size() != overlay.Size() {
		t.Errorf("a second time changes %v (%d bytes)", twice.Patched(), twice.Kept())
	}
	return overlay
}

func TestFedora(t *testing.T) {
	for _, shape := range []struct{ rockRidge, joliet bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		t.Run(fmt.Sprintf("rockRidge=%v,joliet=%v", shape.rockRidge, shape.joliet), func(t *testing.T) {
			esp := fatLayout{bits: 12, clusters: 400, files: map[string]string{
				"/EFI/BOOT/BOOTX64.EFI": strings.Repeat("MZ", 2000), "/EFI/BOOT/grub.cfg": grubConfig,
			}}.build(t)
			image := layout{
				volume: "Fedora-S-dvd-x86_64-41", rockRidge: shape.rockRidge, joliet: shape.joliet, md5: true,
				bios: "/isolinux/isolinux.bin", efi: "/images/efiboot.img",
				files: map[string]string{
					"/isolinux/isolinux.bin": "boot", "/isolinux/isolinux.cfg": isolinuxConfig, "/isolinux/vmlinuz": "kernel",
					"/EFI/BOOT/grub.cfg": grubConfig + strings.Repeat("# filler\n", 150), "/images/pxeboot/vmlinuz": "kernel",
					"/images/pxeboot/initrd.img": strings.Repeat("i", 5000), "/images/efiboot.img": string(esp),
					"/images/install.img": "squashfs",
				},
				links: map[string]string{"/boot/grub2/grub.cfg": "/EFI/BOOT/grub.cfg"},
			}.build(t)
			o := customize(t, image, Options{BaseURL: "http://10.0.2.2:8082/"})
			upper := func(s string) string {
				if !shape.rockRidge && !shape.joliet {
					return strings.ToUpper(s)
				}
				return s
			}
			want := []string{
				upper("/EFI/BOOT/grub.cfg"), upper("/boot/grub2/grub.cfg"), upper("/isolinux/isolinux.cfg"),
				upper("/images/efiboot.img") + ":/EFI/BOOT/grub.cfg",
			}
			got := o.Patched()
			slices.Sort(want)
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			const args = "inst.ks=http://10.0.2.2:8082/api/v1/kickstart rd.iscsi.firmware=1 ip=ibft"
			for _, name := range want {
				got := text(t, o, o.Size(), name)
				lines := 2
				if strings.HasSuffix(strings.ToLower(name), "isolinux.cfg") {
					lines = 1
				}
				if strings.Count(got, " quiet "+args+"\n") != lines || strings.Contains(got, "rd.live.check") {
					t.Errorf("%s:\n%s", name, got)
				}
			}
			if f, err := o.Image().Lookup("/EFI/BOOT/grub.cfg"); err != nil {
				t.Error(err)
			} else if b, err := io.ReadAll(f.Reader(o)); err != nil || !strings.Contains(string(b), args) {
				t.Errorf("the overlay's own view: %v\n%s", err, b)
			}
			if got := text(t, o, o.Size(), "/boot/grub2/grub.cfg"); !strings.Contains(got, args) {
				t.Error("the other name of grub.cfg has the old content")
			}
			buf := make([]byte, implantedSize)
			if _, err := o.ReadAt(buf, implantedAt); err != nil || strings.TrimSpace(string(buf)) != "" {
				t.Errorf("the implanted MD5: %q, %v", buf, err)
			}
			if shape.joliet {
				img, _ := Open(o, o.Size())
				img.names = img.volume.trees[1]
				if got, err := img.tree().readFile("/EFI/BOOT/grub.cfg"); err != nil || !strings.Contains(string(got), args) {
					t.Errorf("Joliet: %v\n%s", err, got)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	files := map[string]string{"/EFI/BOOT/grub.cfg": grubConfig, "/images/install.img": "x"}
	image := layout{volume: "RHEL-9-4-0-BaseOS-x86_64", rockRidge: true, files: files}.build(t)
	img := open(t, image)
	if img.Distro() != RHEL {
		t.Fatal(img.Distro())
	}
	o := customize(t, image, Options{BaseURL: "http://s", FilesURL: "http://s/iso/ns/rhel/files/"})
	if got := text(t, o, o.Size(), "/EFI/BOOT/grub.cfg"); !strings.Contains(got,
		"vmlinuz quiet inst.ks=http://s/api/v1/kickstart inst.stage2=http://s/iso/ns/rhel/files\n") || strings.Contains(got,
		"hd:LABEL") {
		t.Error(got)
	}
	generic := open(t, layout{volume: "WHATEVER", rockRidge: true, files: files}.build(t))
	if o, err := generic.Customize(Options{}); err != nil || o.Kept() != 0 || generic.Distro() != Generic {
		t.Errorf("an image without a default: %v", err)
	}
	if _, err := img.Customize(Options{}); err == nil || !strings.Contains(err.Error(), "${glowplug} is not known") {
		t.Error(err)
	}
}

// coreOS builds an image with karg areas of size bytes.
func coreOS(t testing.TB, size int, legacy bool) []byte {
	const args = "coreos.liveiso=fedora-coreos-41 ignition.firstboot ignition.platform.id=metal"
	region := args + "\n" + strings.Repeat("#", size-len(args)-1)
	l := layout{
		volume: "fedora-coreos-41.20250101.3.0", rockRidge: true, bios: "/isolinux/isolinux.bin", efi: "/images/efiboot.img",
		files: map[string]string{
			"/EFI/fedora/grub.cfg": "menuentry 'live' {\n\tlinux /images/pxeboot/vmlinuz " + region +
				"\n\tinitrd /images/pxeboot/initrd.img\n}\n",
			"/isolinux/isolinux.cfg": "label linux\n  kernel /images/pxeboot/vmlinuz\n  append " +
				"initrd=/images/pxeboot/initrd.img " + region + "\n",
			"/isolinux/isolinux.bin":     "boot",
			"/images/pxeboot/vmlinuz":    "kernel",
			"/images/pxeboot/initrd.img": "initrd",
			"/images/pxeboot/rootfs.img": "rootfs",
			"/images/ignition.img":       strings.Repeat("\x00", 4096),
			"/images/efiboot.img": string(fatLayout{bits: 12, clusters: 100,
				files: map[string]string{"/EFI/fedora/grub.cfg": "configfile $prefix/grub.cfg\n"}}.build(t)),
			"/zipl.prm":                    "",
			"/coreos/features.json":        "{}",
			"/images/pxeboot/an empty one": "",
		},
	}
	offset := func(name string) int { return strings.Index(l.files[name], args) }
	if !legacy {
		l.files["/coreos/kargs.json"] = fmt.Sprintf(`{"default": %q, "files": [{"offset": %d, "path": "EFI/fedora/grub.cfg"},
			{"end": "\n", "offset": %d, "pad": "#", "path": "isolinux/isolinux.cfg"}], "size": %d}`,
			args, offset("/EFI/fedora/grub.cfg"), offset("/isolinux/isolinux.cfg"), size)
		return l.build(t)
	}
	l.finish = func(image []byte, at func(string) int64) {
		h := image[legacyHeader:]
		copy(h, legacyMagic)
		binary.LittleEndian.PutUint64(h[8:], uint64(size))
		for i, name := range []string{"/EFI/fedora/grub.cfg", "/EFI/fedora/grub.cfg", "/isolinux/isolinux.cfg"} {
			binary.LittleEndian.PutUint64(h[16+8*i:], uint64(at(name))+uint64(offset(name)))
		}
	}
	return l.build(t)
}

func TestCoreOS(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) {
			image := coreOS(t, 1139, legacy)
			if d := open(t, image).Distro(); d != CoreOS {
				t.Fatal(d)
			}
			o := customize(t, image, Options{BaseURL: "http://10.0.2.2"})
			want := "coreos.liveiso=fedora-coreos-41 ignition.firstboot ignition.platform.id=metal " +
				"ignition.config.url=http://10.0.2.2/api/v1/ignition rd.iscsi.firmware=1 ip=ibft\n"
			want += strings.Repeat("#", 1139-len(want)) + "\n"
			if d := cmp.Diff([]string{"/EFI/fedora/grub.cfg", "/isolinux/isolinux.cfg"}, o.Patched()); d != "" {
				t.Error(d)
			}
			for _, name := range o.Patched() {
				if got := text(t, o, o.Size(), name); !strings.Contains(got, want) {
					t.Errorf("%s:\n%s", name, got)
				}
			}
			if o.Size() != int64(len(image)) {
				t.Error("the image has grown")
			}
			// Its own arguments that are not replaced are known, too: Ignition on a live system compares with all.
			if d := cmp.Diff([]string{"coreos.liveiso=fedora-coreos-41"}, o.OwnArgs()); d != "" {
				t.Error(d)
			}
			o = customize(t, image, Options{BaseURL: "http://10.0.2.2", FilesURL: "http://10.0.2.2/iso/a/b/files"})
			if got := text(t, o, o.Size(), "/isolinux/isolinux.cfg"); strings.Contains(got, "coreos.liveiso") ||
				!strings.Contains(got, "coreos.live.rootfs_url=http://10.0.2.2/iso/a/b/files/images/pxeboot/rootfs.img\n#") {
				t.Error(got)
			}
			img := open(t, image)
			_, err := img.Customize(Options{Args: []string{"x=" + strings.Repeat("y", 1100)}})
			var refused *PatchError
			if !errors.As(err, &refused) || refused.Path != "/EFI/fedora/grub.cfg" || !strings.Contains(err.Error(),
				"room for 1138") {
				t.Error(err)
			}
			// An argument that GRUB would take apart is quoted for it alone.
			o = customize(t, image, Options{Args: []string{"ignition.config.url=http://s/?a=1&b=2"}})
			if got := text(t, o, o.Size(), "/EFI/fedora/grub.cfg"); !strings.Contains(got,
				" 'ignition.config.url=http://s/?a=1&b=2'\n#") {
				t.Error(got)
			}
			if got := text(t, o, o.Size(), "/isolinux/isolinux.cfg"); !strings.Contains(got,
				" ignition.config.url=http://s/?a=1&b=2\n#") {
				t.Error(got)
			}
		})
	}
}

// The text fits exactly, and is one byte too long.
func TestCoreOSRoom(t *testing.T) {
	const size = 200
	img := open(t, coreOS(t, size, false))
	base := len("coreos.liveiso=fedora-coreos-41 ignition.firstboot ignition.platform.id=metal")
	fits := "a=" + strings.Repeat("b", size-1-base-1-2)
	if _, err := img.Customize(Options{Args: []string{fits}}); err != nil {
		t.Error(err)
	}
	if _, err := img.Customize(Options{Args: []string{fits + "b"}}); err == nil {
		t.Error("one byte too many was accepted")
	}
}

func TestBootImages(t *testing.T) {
	long := grubConfig + strings.Repeat("#\n", 10)
	for _, bits := range []int{12, 16, 32} {
		clusters := map[int]int{12: 200, 16: 4200, 32: 66000}[bits]
		t.Run(fmt.Sprintf("FAT%d", bits), func(t *testing.T) {
			esp := fatLayout{bits: bits, clusters: clusters, files: map[string]string{
				"/EFI/BOOT/grub.cfg": long, "/EFI/BOOT/BOOTX64.EFI": "MZ", "/loader/entries/01-arch.conf": entryConfig,
				"/arch/vmlinuz": "kernel", "/arch/initramfs.img": "initrd",
			}}
			build := func(l fatLayout) []byte {
				return layout{volume: "ARCH_202501", rockRidge: true, files: map[string]string{"/readme": "x"},
					appended: l.build(t)}.build(t)
			}
			image := build(esp)
			args := Options{Args: []string{"console=ttyS0", "a=" + strings.Repeat("z", 600)}}
			o := customize(t, image, args)
			if d := cmp.Diff([]string{"EFI partition:/EFI/BOOT/grub.cfg", "EFI partition:/loader/entries/01-arch.conf"},
				o.Patched()); d != "" {
				t.Error(d)
			}
			if got := text(t, o, o.Size(), "EFI partition:/loader/entries/01-arch.conf"); !strings.HasSuffix(got,
				"options archisobasedir=arch quiet console=ttyS0 "+args.Args[1]+"\n") {
				t.Error(got)
			}
			if o.Size() != int64(len(image)) {
				t.Error("the image has grown")
			}
			boots, _, err := open(t, image).BootFiles()
			var names []string
			for _, b := range boots {
				names = append(names, b.Kind+" "+b.Path)
			}
			if d := cmp.Diff([]string{"kernel EFI partition:/arch/vmlinuz", "initrd EFI partition:/arch/initramfs.img"},
				names); d != "" || err != nil {
				t.Error(d, err)
			}
			esp.full = true
			_, err = open(t, build(esp)).Customize(args)
			if err == nil || !strings.Contains(err.Error(), "EFI partition:/EFI/BOOT/grub.cfg: its file system has room for") {
				t.Error(err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	grubOnly := map[string]string{"/boot/grub/grub.cfg": grubConfig}
	for name, c := range map[string]struct {
		layout layout
		args   string
		want   string
	}{
		"no boot files": {layout{files: map[string]string{"/a": "b"}}, "a=b",
			"the image has no boot configuration in which"},
		"line too long": {layout{files: grubOnly}, "a=" + strings.Repeat("b", 2048),
			"/boot/grub/grub.cfg: the kernel arguments take 2"},
		"a quote in GRUB": {layout{files: grubOnly}, `a='b'`,
			"/boot/grub/grub.cfg: GRUB cannot hand on the kernel argument a='b'"},
		"a line end":    {layout{files: grubOnly}, "a=b\nlinux x", `kernel argument "a=b\nlinux x": control characters`},
		"an open quote": {layout{files: grubOnly}, `a="b`, "a quote is not closed"},
		"media check":   {layout{files: grubOnly}, "rd.live.check", "the check fails on an image"},
		"for init":      {layout{files: grubOnly}, "-- x", "would be for init"},
		"no name":       {layout{files: grubOnly}, "=x", "it has no name"},
		"unified kernel": {layout{files: map[string]string{"/EFI/Linux/a.efi": "MZ"}}, "a=b",
			"/EFI/Linux/a.efi: its command line is part of a signed program"},
		"shared blocks": {layout{files: map[string]string{"/boot/grub/grub.cfg": grubConfig, "/zz": grubConfig},
			finish: func(image []byte, at func(string) int64) {
				old := binary.LittleEndian.AppendUint32(nil, uint32(at("/zz")/sector))
				put := binary.LittleEndian.AppendUint32(nil, uint32(at("/boot/grub/grub.cfg")/sector))
				n := bytes.Index(image, old)
				copy(image[n:], put)
				size := int64(len(grubConfig) - 1)
				both(image[n+8:], size)
			}}, "a=b", "/boot/grub/grub.cfg: it shares its blocks with /zz"},
		"isolinux without an entry": {layout{bios: "/isolinux/isolinux.bin", files: map[string]string{
			"/isolinux/isolinux.bin": "boot", "/isolinux/isolinux.cfg": "default install\n",
			"/boot/grub/grub.cfg": grubConfig,
		}}, "a=b", "/isolinux/isolinux.bin: no configuration of it has an entry"},
		"no JSON": {layout{files: map[string]string{"/coreos/kargs.json": "{"}}, "a=b",
			"/coreos/kargs.json: it cannot be read"},
		"area outside": {layout{files: map[string]string{"/a": "b",
			"/coreos/kargs.json": `{"size":10,"files":[{"path":"a","offset":0}]}`}}, "a=b",
			"/a: its karg area at 0 does not lie within it"},
		"area of no file": {layout{files: map[string]string{"/coreos/kargs.json": `{"size":10,"files":[{"path":"nix","offset":0}]}`}}, "a=b",
			"/coreos/kargs.json: no such file in the image: nix"},
		"leaning": {layout{files: map[string]string{"/isolinux/isolinux.cfg": "append x\ninclude txt.cfg\n",
			"/isolinux/txt.cfg": "label a\n kernel vmlinuz\n"}}, "a=b",
			"/isolinux/txt.cfg: its entries take their arguments from /isolinux/isolinux.cfg"},
	} {
		t.Run(name, func(t *testing.T) {
			c.layout.rockRidge = true
			o, err := open(t, c.layout.build(t)).Customize(Options{Args: []string{c.args}})
			if err == nil || o != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
