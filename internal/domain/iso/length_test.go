package iso

import (
	"strings"
	"testing"
)

// TestBootLoadersPartOfTheCommandLineCounts: a command line of 2,047 bytes is the longest one. GRUB and
// isolinux put the kernel's file before the arguments; systemd-boot does not, and Xen does not for the
// kernel of its first domain.
func TestBootLoadersPartOfTheCommandLineCounts(t *testing.T) {
	for name, c := range map[string]struct{ file, config, line string }{
		"GRUB": {"/boot/grub/grub.cfg", "linux /boot/vmlinuz quiet\n", "BOOT_IMAGE=/boot/vmlinuz quiet "},
		"GRUB, a variable": {"/boot/grub/grub.cfg", "$linux_cmd (hd0)/vmlinuz\n",
			"BOOT_IMAGE=(hd0)/vmlinuz "},
		"GRUB, Xen": {"/boot/grub/grub.cfg", "multiboot2 /xen.gz\nmodule2 /vmlinuz quiet\nmodule2 /initrd\n", "quiet "},
		"isolinux": {"/isolinux/isolinux.cfg", "label a\n kernel /vmlinuz\n append initrd=/initrd\n",
			"BOOT_IMAGE=/vmlinuz initrd=/initrd "},
		"isolinux without append": {"/isolinux/isolinux.cfg", "label a\n kernel vmlinuz\n", "BOOT_IMAGE=vmlinuz "},
		"isolinux, one append for all": {"/isolinux/isolinux.cfg",
			"append quiet\nlabel a\n kernel /vmlinuz\nlabel b\n kernel /install/vmlinuz\n",
			"BOOT_IMAGE=/install/vmlinuz quiet "},
		"isolinux, the default": {"/isolinux/isolinux.cfg", "default vmlinuz quiet\n", "BOOT_IMAGE=vmlinuz quiet "},
		"systemd-boot":          {"/loader/entries/a.conf", "linux /vmlinuz\noptions quiet\n", "quiet "},
	} {
		t.Run(name, func(t *testing.T) {
			img := open(t, layout{volume: "X", rockRidge: true, files: map[string]string{c.file: c.config}}.build(t))
			longest := "a=" + strings.Repeat("b", 2047-len(c.line)-len("a="))
			if _, err := img.Customize(Options{Args: []string{longest}}); err != nil {
				t.Errorf("2,047 bytes: %v", err)
			}
			_, err := img.Customize(Options{Args: []string{longest + "b"}})
			if err == nil || !strings.Contains(err.Error(), "the kernel arguments take 2048 bytes") {
				t.Errorf("2,048 bytes: %v", err)
			}
		})
	}
}
