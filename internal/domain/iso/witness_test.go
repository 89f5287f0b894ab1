package iso

import (
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat12"
	"github.com/diskfs/go-diskfs/filesystem/fat16"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// Another reader has to find in the patched image what ours does.
func TestWitness(t *testing.T) {
	for _, bits := range []int{12, 16, 32} {
		t.Run(fmt.Sprintf("FAT%d", bits), func(t *testing.T) {
			clusters := map[int]int{12: 200, 16: 5000, 32: 66000}[bits]
			esp := fatLayout{bits: bits, clusters: clusters, files: map[string]string{
				"/EFI/BOOT/BOOTX64.EFI": strings.Repeat("MZ", 2000), "/EFI/BOOT/grub.cfg": grubConfig,
			}}.build(t)
			image := layout{
				volume: "Fedora-S-dvd-x86_64-41", rockRidge: true, efi: "/images/efiboot.img",
				files: map[string]string{
					"/EFI/BOOT/grub.cfg": grubConfig, "/images/pxeboot/vmlinuz": "kernel", "/images/efiboot.img": string(esp),
				},
			}.build(t)
			o := customize(t, image, Options{Args: []string{"console=ttyS0", "x=" + strings.Repeat("y", 1800)}})
			name := filepath.Join(t.TempDir(), "patched.iso")
			out, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(out, io.NewSectionReader(o, 0, o.Size())); err != nil {
				t.Fatal(err)
			}
			out.Close()
			disk, err := file.OpenFromPath(name, true)
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Close()
			read := func(f iofs.File, err error) string {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				// At once: its FAT reader goes on behind the end of a file that is
				// read in pieces.
				buf := make([]byte, 1<<16)
				n, err := f.Read(buf)
				if err != nil && err != io.EOF {
					t.Fatal(err)
				}
				return string(buf[:n])
			}
			fs, err := iso9660.Read(disk, o.Size(), 0, sector)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"/EFI/BOOT/grub.cfg", "/images/pxeboot/vmlinuz"} {
				if got := read(fs.OpenFile(name, os.O_RDONLY)); got != text(t, o, o.Size(), name) {
					t.Errorf("%s:\n%s", name, got)
				}
			}
			img, err := Open(o, o.Size())
			if err != nil {
				t.Fatal(err)
			}
			b := img.boots[0]
			want := text(t, o, o.Size(), b.inside("/EFI/BOOT/grub.cfg"))
			if !strings.Contains(want, "console=ttyS0") {
				t.Error(want)
			}
			if got := read(openWith(bits, disk, &b)); got != want {
				t.Errorf("in the boot image:\n%s", got)
			}
		})
	}
}

func openWith(bits int, disk backend.Storage, b *BootImage) (iofs.File, error) {
	const name = "/EFI/BOOT/grub.cfg"
	switch bits {
	case 12:
		fs, err := fat12.Read(disk, b.Len, b.Off, 512)
		if err != nil {
			return nil, err
		}
		return fs.OpenFile(name, os.O_RDONLY)
	case 16:
		fs, err := fat16.Read(disk, b.Len, b.Off, 512)
		if err != nil {
			return nil, err
		}
		return fs.OpenFile(name, os.O_RDONLY)
	}
	fs, err := fat32.Read(disk, b.Len, b.Off, 512)
	if err != nil {
		return nil, err
	}
	return fs.OpenFile(name, os.O_RDONLY)
}
