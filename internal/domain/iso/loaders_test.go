package iso

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// xenGRUB is the menu of an image that starts Linux as the first domain of Xen.
const xenGRUB = `menuentry "Install" {
	multiboot2 /boot/xen.gz dom0_max_vcpus=1-16 console=vga
	module2 /boot/vmlinuz console=hvc0 quiet
	module2 --nounzip /install.img
}
menuentry "SmartOS" {
	multiboot /platform/i86pc/kernel/amd64/unix -B console=text
	module /platform/i86pc/amd64/boot_archive
}
`

// xenIsolinux is the same for isolinux.
const xenIsolinux = `default menu.c32
label install
  kernel mboot.c32
  append /boot/xen.gz dom0_mem=max:8192M --- /boot/vmlinuz quiet --- /install.img
`

// TestSetsArgumentsWhereAPersonWould: the arguments are set in configurations that select
// the loading command by a variable of any name, that start Xen, or that name a kernel
// without a label; every other byte of the files stays.
func TestSetsArgumentsWhereAPersonWould(t *testing.T) {
	const arg = " a=b"
	for name, c := range map[string]struct {
		file, text string
		// want are the lines that have the argument at the end of a word.
		want    []string
		kernels []string
	}{
		"GRUB: a variable of any name": {"/boot/grub/grub.cfg",
			"if [ \"$grub_platform\" = efi ]; then set loader=linuxefi; set ram=initrdefi\n" +
				"else loader=linux16; set ram=initrd16; fi\n" +
				"menuentry 'x' {\n\t$loader /boot/vmlinuz quiet\n\t${ram} /boot/initrd.img\n}\n",
			[]string{"\t$loader /boot/vmlinuz quiet a=b"}, []string{"kernel /boot/vmlinuz", "initrd /boot/initrd.img"}},
		"GRUB: a variable of another file": {"/boot/grub/grub.cfg",
			"menuentry 'x' {\n\t\"${bootcmd}\" ($root)/boot/vmlinuz quiet\n}\n",
			[]string{"\t\"${bootcmd}\" ($root)/boot/vmlinuz quiet a=b"}, []string{"kernel /boot/vmlinuz"}},
		"GRUB: Xen": {"/boot/grub/grub.cfg", xenGRUB,
			[]string{"\tmodule2 /boot/vmlinuz console=hvc0 quiet a=b"}, []string{"kernel /boot/vmlinuz", "initrd /install.img"}},
		"GRUB: Xen on arm64": {"/boot/grub/grub.cfg",
			"menuentry x {\n xen_hypervisor /boot/xen.efi\n xen_module /boot/vmlinuz quiet\n xen_module /install.img\n}\n",
			[]string{" xen_module /boot/vmlinuz quiet a=b"}, []string{"kernel /boot/vmlinuz", "initrd /install.img"}},
		"isolinux: Xen": {"/isolinux/isolinux.cfg", xenIsolinux,
			[]string{"  append /boot/xen.gz dom0_mem=max:8192M --- /boot/vmlinuz quiet a=b --- /install.img"},
			[]string{"kernel /boot/vmlinuz", "initrd /install.img"}},
		"isolinux: a kernel without a label": {"/isolinux/isolinux.cfg",
			"prompt 0\ndefault /boot/vmlinuz initrd=/boot/initrd.img quiet\n",
			[]string{"default /boot/vmlinuz initrd=/boot/initrd.img quiet a=b"},
			[]string{"kernel /boot/vmlinuz", "initrd /boot/initrd.img"}},
		"isolinux: a kernel without a label or arguments": {"/isolinux/isolinux.cfg", "default vmlinuz\n",
			[]string{"default vmlinuz a=b"}, []string{}},
		"isolinux: a kernel without a label, and arguments for all": {"/isolinux/isolinux.cfg",
			"append initrd=/boot/initrd.img quiet\nontimeout /boot/vmlinuz vga=1\nlabel old\n kernel memtest\n",
			[]string{"append initrd=/boot/initrd.img quiet a=b"}, []string{"kernel /boot/vmlinuz", "initrd /boot/initrd.img"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{c.file: c.text, "/boot/vmlinuz": "kernel", "/boot/initrd.img": "initrd",
				"/install.img": "ram", "/isolinux/isolinux.bin": "boot", "/boot/xen.gz": "xen"}
			l := layout{volume: "X", rockRidge: true, files: files}
			if c.file == "/isolinux/isolinux.cfg" {
				l.bios = "/isolinux/isolinux.bin"
			}
			image := l.build(t)
			o := customize(t, image, Options{Args: []string{"a=b"}})
			got := text(t, o, o.Size(), c.file)
			var changed []string
			for line := range strings.Lines(got) {
				if strings.Contains(line, arg) {
					changed = append(changed, strings.TrimSuffix(line, "\n"))
				}
			}
			if d := cmp.Diff(c.want, changed); d != "" {
				t.Error(d)
			}
			if back := strings.ReplaceAll(got, arg, ""); back != c.text {
				t.Errorf("other text has changed:\n%s", cmp.Diff(c.text, back))
			}
			boots, _, err := open(t, image).BootFiles()
			names := []string{}
			for _, b := range boots {
				names = append(names, b.Kind+" "+b.Path)
			}
			slices.Sort(names)
			slices.Sort(c.kernels)
			if d := cmp.Diff(c.kernels, names); len(c.kernels) > 0 && d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
}

// TestReplacesArgumentsWithoutALabel: an argument of the same name is not there twice, be it
// in the line with the kernel or in the one with the arguments of all entries.
func TestReplacesArgumentsWithoutALabel(t *testing.T) {
	image := layout{volume: "X", rockRidge: true, files: map[string]string{
		"/isolinux/isolinux.cfg": "append a=1 quiet\ndefault vmlinuz a=2 vga=1\n"}}.build(t)
	o := customize(t, image, Options{Args: []string{"a=b"}})
	if got := text(t, o, o.Size(), "/isolinux/isolinux.cfg"); got != "append quiet a=b\ndefault vmlinuz vga=1\n" {
		t.Error(got)
	}
}

// TestRefusalsNameTheFile: an image without a Linux kernel whose arguments could be set is
// refused with the file of its boot loader and what is in it.
func TestRefusalsNameTheFile(t *testing.T) {
	esxi := map[string]string{
		"/isolinux.bin": "boot", "/isolinux.cfg": "DEFAULT menu.c32\nLABEL install\n  KERNEL mboot.c32\n" +
			"  APPEND -c boot.cfg\n",
		"/boot.cfg": "bootstate=0\ntitle=Loading ESXi installer\nkernel=/b.b00\nkernelopt=runweasel cdromBoot\n" +
			"modules=/jumpstrt.gz\n",
	}
	const advice = ": no kernel arguments can be set in it; serve the image without any"
	for name, c := range map[string]struct {
		files map[string]string
		bios  string
		want  string
	}{
		"ESXi": {esxi, "/isolinux.bin",
			"/boot.cfg: it is the configuration of VMware's boot loader (kernel=/b.b00, kernelopt=runweasel cdromBoot)" +
				advice},
		"Windows PE": {map[string]string{"/bootmgr": "MZ", "/boot/bcd": "regf", "/sources/boot.wim": "MSWIM"}, "",
			"/sources/boot.wim: it is the Windows PE system, which the Windows boot manager starts" + advice},
		"Windows in UDF": {map[string]string{"/readme.txt": "This disc contains a \"UDF\" file system and requires an " +
			"operating system\nthat supports the ISO-13346 \"UDF\" file system specification.\n"}, "",
			"/readme.txt: it is the note that the files of the image are in its UDF file system"},
		"FreeBSD": {map[string]string{"/boot/kernel/kernel": "\x7fELF"}, "",
			"/boot/kernel/kernel: it is the kernel of FreeBSD" + advice},
		"GRUB without Linux": {map[string]string{"/boot/grub/grub.cfg": "menuentry x {\n multiboot /unix -B a\n}\n"}, "",
			`/boot/grub/grub.cfg: it has no entry of a Linux kernel, whose arguments could be set; it has "multiboot /unix"`},
		"isolinux without Linux beside GRUB": {map[string]string{"/boot/grub/grub.cfg": grubConfig,
			"/isolinux/isolinux.bin": "boot", "/isolinux/isolinux.cfg": "label a\n com32 chain.c32\n"}, "/isolinux/isolinux.bin",
			`/isolinux/isolinux.cfg: it has no entry of a Linux kernel, whose arguments could be set; it has "com32 chain.c32"`},
	} {
		t.Run(name, func(t *testing.T) {
			img := open(t, layout{volume: "X", rockRidge: true, bios: c.bios, files: c.files}.build(t))
			o, err := img.Customize(Options{Args: []string{"a=b"}})
			if err == nil || o != nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if o, err := img.Customize(Options{}); err != nil || o.Kept() != 0 {
				t.Errorf("without arguments: %v", err)
			}
		})
	}
}

// TestRefusesAnInitrd: an argument that would replace the loader's own initial RAM disk is
// refused with a sentence, whatever the loader.
func TestRefusesAnInitrd(t *testing.T) {
	configs := map[string]string{"/isolinux/isolinux.cfg": isolinuxConfig, "/boot/grub/grub.cfg": grubConfig,
		"/loader/entries/a.conf": entryConfig}
	for _, file := range slices.Sorted(maps.Keys(configs)) {
		img := open(t, layout{volume: "X", rockRidge: true, files: map[string]string{file: configs[file]}}.build(t))
		for _, arg := range []string{"initrd=/x", "quiet initrd=/x"} {
			_, err := img.Customize(Options{Args: []string{arg}})
			want := fmt.Sprintf("kernel argument %q: leave it out: the boot loader of the image names the initial RAM disk", arg)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
