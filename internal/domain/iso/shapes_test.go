package iso

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// tools skips the test where what it runs is not installed, unless everything
// is to be tested.
func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("TEST_E2E") == "1" {
				t.Fatalf("%s is not installed", name)
			}
			t.Skipf("%s is not installed (TEST_E2E=1 makes that a failure)", name)
		}
	}
}

func need(t *testing.T, file string) string {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("TEST_E2E") == "1" {
			t.Fatal(err)
		}
		t.Skipf("%v (TEST_E2E=1 makes that a failure)", err)
	}
	return file
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// folder writes files below a new folder. Content "random N" is N random bytes.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscanf(content, "random %d", &n); err == nil {
			b := make([]byte, n)
			random.Read(b)
			content = string(b)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// hashes returns the files below a folder.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(file)
		rel, _ := filepath.Rel(dir, file)
		out["/"+rel] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// extract unpacks an image with xorriso; mode is empty or turns a kind of names
// off.
func extract(t *testing.T, image string, mode ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	args := append(slices.Clone(mode), "-osirrox", "on", "-indev", image, "-extract", "/", dir)
	run(t, "xorriso", args...)
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	return dir
}

// checkShape customizes the image file and compares what xorriso extracts of
// both.
func checkShape(t *testing.T, file string, o Options, want []string) *Overlay {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, _ := f.Stat()
	img, err := Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := img.Customize(o)
	if err != nil {
		t.Fatal(err)
	}
	got := overlay.Patched()
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	patched := filepath.Join(t.TempDir(), "patched.iso")
	out, err := os.Create(patched)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, io.NewSectionReader(overlay, 0, overlay.Size())); err != nil {
		t.Fatal(err)
	}
	out.Close()
	whole := map[string]bool{}
	for _, name := range want {
		name, _, _ = strings.Cut(name, ":")
		whole[name] = true
	}
	for _, mode := range [][]string{{"-read_fs", "any"}, {"-read_fs", "norock"}} {
		before, after := hashes(t, extract(t, file, mode...)), hashes(t, extract(t, patched, mode...))
		if len(before) == 0 || len(before) != len(after) {
			t.Fatalf("%v: %d files, then %d", mode, len(before), len(after))
		}
		for name, hash := range before {
			differs := after[name] != hash
			if differs != whole[name] {
				t.Errorf("%v: %s differs: %v", mode, name, differs)
			}
		}
	}
	again, err := Open(overlay, overlay.Size())
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := again.Customize(o); err != nil || twice.Kept() != 0 {
		t.Errorf("a second time: %v, %v", twice.Patched(), err)
	}
	checkGPT(t, overlay)
	for _, name := range want {
		if strings.HasSuffix(name, "grub.cfg") && !strings.Contains(name, ":") {
			checkGRUB(t, patched, name, text(t, overlay, overlay.Size(), name))
		}
	}
	return overlay
}

// checkGRUB lets GRUB's own code read the file and look at its syntax.
func checkGRUB(t *testing.T, image, name, want string) {
	t.Helper()
	tools(t, "grub-fstest", "grub-script-check")
	if got := run(t, "grub-fstest", image, "cat", "(loop0)"+name); got != want {
		t.Errorf("GRUB reads of %s:\n%s", name, got)
	}
	check := exec.Command("grub-script-check")
	check.Stdin = strings.NewReader(want)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// checkGPT verifies the sums of both tables, where there are any.
func checkGPT(t *testing.T, o *Overlay) {
	t.Helper()
	table, err := readGPT(source{o, o.Size()})
	if err != nil || table == nil {
		return
	}
	le := binary.LittleEndian
	backup := make([]byte, block)
	if _, err := o.ReadAt(backup, int64(le.Uint64(table.header[32:]))*block); err != nil {
		t.Fatal(err)
	}
	if at := int64(le.Uint64(table.header[32:])+1) * block; at != o.Size() {
		t.Logf("the backup table ends at %d, the image at %d", at, o.Size())
	}
	entries := make([]byte, len(table.entries))
	if _, err := o.ReadAt(entries, int64(le.Uint64(backup[72:]))*block); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(entries, table.entries) {
		t.Error("the backup's entries differ")
	}
	for _, h := range [][]byte{table.header, backup} {
		h := bytes.Clone(h)
		sum := le.Uint32(h[16:])
		le.PutUint32(h[16:], 0)
		if sum != crc32.ChecksumIEEE(h[:le.Uint32(h[12:])]) || le.Uint32(h[88:]) != crc32.ChecksumIEEE(entries) {
			t.Errorf("a table of partitions has wrong sums")
		}
	}
}

// esp makes a FAT image with mtools, of the size that mkfs.fat chooses a width for.
func esp(t *testing.T, kb int, bits string, files map[string]string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "efiboot.img")
	run(t, "mkfs.fat", "-F", bits, "-C", image, fmt.Sprint(kb))
	dir := folder(t, files)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		run(t, "mcopy", "-s", "-i", image, filepath.Join(dir, e.Name()), "::/")
	}
	return image
}

// checkFAT lets fsck look at a FAT file system within an overlay.
func checkFAT(t *testing.T, o *Overlay, name string) {
	t.Helper()
	img, err := Open(o, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range img.BootImages() {
		if b.name() != name {
			continue
		}
		file := filepath.Join(t.TempDir(), "esp")
		out, _ := os.Create(file)
		if _, err := io.Copy(out, io.NewSectionReader(o, b.Off, b.Len)); err != nil {
			t.Fatal(err)
		}
		out.Close()
		run(t, "fsck.fat", "-n", file)
		if got := run(t, "mtype", "-i", file, "::/EFI/BOOT/grub.cfg"); !strings.Contains(got, "console=ttyS0") {
			t.Error(got)
		}
		return
	}
	t.Errorf("no boot image %s", name)
}

var longGRUB = grubConfig + strings.Repeat("# filler\n", 100)

// Fedora as lorax builds it: GRUB for BIOS in the tree, for UEFI in a FAT image
// that is appended as partition 2.
func TestShapeFedora(t *testing.T) {
	tools(t, "xorriso", "mkfs.fat", "mcopy", "fsck.fat", "implantisomd5", "checkisomd5")
	mbr := need(t, "/usr/lib/ISOLINUX/isohdpfx.bin")
	for _, bits := range []string{"12", "32"} {
		t.Run("FAT"+bits, func(t *testing.T) {
			kb := map[string]int{"12": 4096, "32": 40000}[bits]
			boot := esp(t, kb, bits, map[string]string{"EFI/BOOT/grub.cfg": longGRUB, "EFI/BOOT/BOOTX64.EFI": "random 100000"})
			dir := folder(t, map[string]string{
				"boot/grub2/grub.cfg": longGRUB, "images/pxeboot/vmlinuz": "random 300000",
				"images/pxeboot/initrd.img": "random 500000",
				"images/install.img":        "random 3000000", "images/eltorito.img": "random 30000", ".discinfo": "41\n",
				"EFI/BOOT/BOOTX64.EFI": "random 100000",
			})
			file := filepath.Join(t.TempDir(), "fedora.iso")
			run(t, "xorriso", "-as", "mkisofs", "-o", file, "-R", "-J", "-V", "Fedora-S-dvd-x86_64-41",
				"-isohybrid-mbr", mbr, "-b", "images/eltorito.img", "-boot-load-size", "4", "-no-emul-boot",
				"-append_partition", "2", "0xef", boot, "-appended_part_as_gpt", "-eltorito-alt-boot",
				"-e", "--interval:appended_partition_2:all::", "-no-emul-boot", dir)
			run(t, "implantisomd5", file)
			o := checkShape(t, file, Options{BaseURL: "http://10.0.2.2", Args: []string{"inst.ks=${glowplug}/ks",
				"console=ttyS0", "x=" + strings.Repeat("y", 900)}},
				[]string{"/boot/grub2/grub.cfg", "EFI partition:/EFI/BOOT/grub.cfg"})
			checkFAT(t, o, "EFI partition")
			patched := filepath.Join(t.TempDir(), "patched.iso")
			out, _ := os.Create(patched)
			if _, err := io.Copy(out, io.NewSectionReader(o, 0, o.Size())); err != nil {
				t.Fatal(err)
			}
			out.Close()
			// It fails: dracut would not go on, so that rd.live.check has to go.
			said, err := exec.Command("checkisomd5", patched).CombinedOutput()
			if err == nil || !strings.Contains(string(said), "the result is: NA") {
				t.Errorf("checkisomd5: %v\n%s", err, said)
			}
		})
	}
}

// What grub-mkrescue builds: GPT, APM, HFS+, and an EFI image in the tree.
func TestShapeRescue(t *testing.T) {
	tools(t, "xorriso", "grub-mkrescue", "mformat")
	dir := folder(t, map[string]string{"boot/grub/grub.cfg": longGRUB, "boot/vmlinuz": "random 300000",
		"boot/initrd": "random 500000"})
	file := filepath.Join(t.TempDir(), "rescue.iso")
	run(t, "grub-mkrescue", "-o", file, dir, "--", "-volid", "RESCUE", "-joliet", "on")
	checkShape(t, file, Options{Args: []string{"console=ttyS0", "x=" + strings.Repeat("y", 1500)}},
		[]string{"/boot/grub/grub.cfg"})
}

// isolinux with Debian's splitting over several files, hybrid, by genisoimage.
func TestShapeIsolinux(t *testing.T) {
	tools(t, "xorriso", "genisoimage", "isohybrid")
	bin := need(t, "/usr/lib/ISOLINUX/isolinux.bin")
	c32 := need(t, "/usr/lib/syslinux/modules/bios/ldlinux.c32")
	dir := folder(t, map[string]string{
		"isolinux/isolinux.cfg": "path\ninclude menu.cfg\ndefault vesamenu.c32\nprompt 0\n",
		"isolinux/menu.cfg":     "menu title x\ninclude txt.cfg\n",
		"isolinux/txt.cfg": "default install\nlabel install\n\tmenu label ^Install\n\tkernel " +
			"/install.amd/vmlinuz\n\tappend vga=788 initrd=/install.amd/initrd.gz --- quiet \n",
		"isolinux/bare.cfg":     "label bare\r\n  linux /install.amd/vmlinuz\r\n  initrd /install.amd/initrd.gz\r\n",
		"install.amd/vmlinuz":   "random 300000",
		"install.amd/initrd.gz": "random 300000",
		".disk/info":            "Debian GNU/Linux 12.8.0 \"Bookworm\" - Official amd64 NETINST",
	})
	run(t, "cp", bin, c32, filepath.Join(dir, "isolinux"))
	file := filepath.Join(t.TempDir(), "debian.iso")
	run(t, "genisoimage", "-quiet", "-o", file, "-R", "-J", "-V", "Debian 12", "-b", "isolinux/isolinux.bin", "-c",
		"isolinux/boot.cat",
		"-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", dir)
	run(t, "isohybrid", file)
	o := checkShape(t, file, Options{Args: []string{"console=ttyS0", "vga=1"}}, []string{"/isolinux/bare.cfg",
		"/isolinux/txt.cfg"})
	if got := text(t, o, o.Size(), "/isolinux/txt.cfg"); !strings.Contains(got,
		"append initrd=/install.amd/initrd.gz console=ttyS0 vga=1 --- quiet \n") {
		t.Error(got)
	}
	if got := text(t, o, o.Size(), "/isolinux/bare.cfg"); !strings.Contains(got,
		"vmlinuz\r\n  append console=ttyS0 vga=1\r\n  initrd") {
		t.Error(got)
	}
}

// An image that is UDF too has records that would keep the old content.
func TestShapeUDF(t *testing.T) {
	tools(t, "genisoimage")
	dir := folder(t, map[string]string{"boot/grub/grub.cfg": grubConfig})
	file := filepath.Join(t.TempDir(), "udf.iso")
	run(t, "genisoimage", "-quiet", "-udf", "-R", "-V", "UDF", "-o", file, dir)
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t, image).Customize(Options{Args: []string{"a=b"}})
	if err == nil || !strings.Contains(err.Error(), "/boot/grub/grub.cfg: the image is also UDF") {
		t.Error(err)
	}
}

// Directories deeper than ISO 9660 has them are moved; Rock Ridge says where from.
func TestShapeDeep(t *testing.T) {
	tools(t, "genisoimage")
	dir := folder(t, map[string]string{"a/b/c/d/e/f/g/h/i/j/grub.cfg": grubConfig, "boot/" + strings.Repeat("long", 50) +
		"/grub.cfg": grubConfig})
	file := filepath.Join(t.TempDir(), "deep.iso")
	run(t, "genisoimage", "-quiet", "-R", "-V", "DEEP", "-o", file, dir)
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o := customize(t, image, Options{Args: []string{"a=" + strings.Repeat("b", 1800)}})
	if d := cmp.Diff([]string{"/a/b/c/d/e/f/g/h/i/j/grub.cfg", "/boot/" + strings.Repeat("long", 50) + "/grub.cfg"},
		o.Patched()); d != "" {
		t.Error(d)
	}
}

// An image of several gigabytes, most of it a hole.
func TestShapeSparse(t *testing.T) {
	tools(t, "xorriso")
	dir := folder(t, map[string]string{"boot/grub/grub.cfg": longGRUB, "boot/vmlinuz": "random 300000"})
	big, err := os.Create(filepath.Join(dir, "install.img"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.NeedsThorough(t) // it writes 5 GB
	if err := big.Truncate(5 << 30); err != nil {
		t.Fatal(err)
	}
	big.Close()
	file := filepath.Join(t.TempDir(), "big.iso")
	run(t, "xorriso", "-as", "mkisofs", "-quiet", "-iso-level", "3", "-R", "-J", "-V", "BIG", "-o", file, dir)
	os.Remove(big.Name())
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	img, err := Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	big5, err := img.Lookup("/install.img")
	if err != nil || big5.Size != 5<<30 {
		t.Fatalf("%+v, %v", big5, err)
	}
	o, err := img.Customize(Options{Args: []string{"x=" + strings.Repeat("y", 1500)}})
	if err != nil || o.Kept() > 1<<20 {
		t.Fatal(o, err)
	}
	if got := text(t, o, o.Size(), "/boot/grub/grub.cfg"); !strings.Contains(got, "yyyy") {
		t.Error(got)
	}
}
