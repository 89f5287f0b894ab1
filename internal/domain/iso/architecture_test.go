package iso

import (
	"slices"
	"testing"
)

// TestArchitectures: the architectures of an image are those of its UEFI loaders, in the
// volume and in its EFI file systems, and those that its installer's files name.
func TestArchitectures(t *testing.T) {
	esp := func(names ...string) string {
		files := map[string]string{}
		for _, name := range names {
			files["/EFI/BOOT/"+name] = "MZ"
		}
		return string(fatLayout{bits: 12, clusters: 100, files: files}.build(t))
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing":         {map[string]string{"/isolinux/isolinux.cfg": isolinuxConfig}, nil},
		"an empty folder": {map[string]string{"/EFI/BOOT/grub.cfg": grubConfig}, nil},
		"x86_64":          {map[string]string{"/EFI/BOOT/BOOTX64.EFI": "MZ"}, []string{"x86_64"}},
		"lower case":      {map[string]string{"/efi/boot/bootaa64.efi": "MZ"}, []string{"aarch64"}},
		"in an EFI image": {map[string]string{"/images/efiboot.img": esp("BOOTAA64.EFI", "grubaa64.efi")}, []string{"aarch64"}},
		"both":            {map[string]string{"/images/efiboot.img": esp("BOOTAA64.EFI", "BOOTX64.EFI")}, []string{"aarch64", "x86_64"}},
		"a loader for 32-bit firmware": {map[string]string{"/EFI/BOOT/BOOTX64.EFI": "MZ", "/EFI/BOOT/BOOTIA32.EFI": "MZ"},
			[]string{"x86_64"}},
		".treeinfo": {map[string]string{"/.treeinfo": "[general]\narch = aarch64\nfamily = Fedora\n[tree]\narch = aarch64\n"},
			[]string{"aarch64"}},
		".discinfo":         {map[string]string{"/.discinfo": "1730000000.1\nRocky Linux 9.4\nx86_64\nALL\n"}, []string{"x86_64"}},
		"a short .discinfo": {map[string]string{"/.discinfo": "x86_64\n"}, nil},
		"Debian": {map[string]string{"/.disk/info": "Debian GNU/Linux 12.8.0 \"Bookworm\" - Official arm64 NETINST"},
			[]string{"aarch64"}},
		"unknown words": {map[string]string{"/.treeinfo": "[general]\narch = vax\n", "/EFI/BOOT/BOOTEBC.EFI": "MZ"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := layout{volume: "X", rockRidge: true, files: c.files}
			if _, ok := c.files["/images/efiboot.img"]; ok {
				l.efi = "/images/efiboot.img"
			}
			if got := open(t, l.build(t)).Architectures(); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
