package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// efi writes a program for UEFI that has headers alone: its machine, perhaps a signature, and an SBAT section.
func efi(t *testing.T, file string, machine byte, isSigned bool) {
	t.Helper()
	program := make([]byte, 0x400)
	copy(program, "MZ")
	program[0x3c] = 0x40
	copy(program[0x40:], "PE\x00\x00")
	coff := program[0x44:]
	coff[0], coff[1] = machine, map[byte]byte{0x64: 0x86, 0x4c: 0x01}[machine]
	if machine == 0xaa {
		coff[0], coff[1] = 0x64, 0xaa
	}
	coff[2], coff[16] = 1, 0xf0 // one section; an optional header of 240 bytes
	optional := program[0x58:]
	optional[0], optional[1] = 0x0b, 0x02 // PE32+
	optional[108] = 16                    // data directories
	if isSigned {
		optional[112+4*8+4] = 1
	}
	section := program[0x58+0xf0:]
	copy(section, ".sbat")
	text := "sbat,1,SBAT Version,sbat,1,https://github.com/rhboot/shim\nshim,4,UEFI shim,shim,1,url\n"
	section[16], section[20], section[21] = byte(len(text)), 0x00, 0x02 // of this size, at 0x200
	copy(program[0x200:], text)
	write(t, file, program)
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLoaders: each kind of firmware is given its iPXE, the best one first; what a client asks for by a name that is
// not quite right is found.
func TestLoaders(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	efi(t, filepath.Join(dir, "ipxe.efi"), 0x64, false)
	efi(t, filepath.Join(dir, "snponly.efi"), 0x64, false)
	efi(t, filepath.Join(dir, "arm64-efi", "snponly.efi"), 0xaa, false)
	efi(t, filepath.Join(dir, "shimx64.efi.signed"), 0x64, true)
	efi(t, filepath.Join(other, "ipxe.efi"), 0xaa, false)
	write(t, filepath.Join(dir, "undionly.kpxe"), []byte("any program"))
	write(t, filepath.Join(dir, "broken.efi"), []byte("MZ"))
	write(t, filepath.Join(dir, "README"), nil)
	if err := os.Symlink("nowhere", filepath.Join(dir, "gone.efi")); err != nil {
		t.Fatal(err)
	}
	s, err := Find(dir, other, filepath.Join(dir, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[Arch]string{}
	for _, arch := range Arches {
		if l := s.For(arch); l != nil {
			given[arch] = l.Name
		}
	}
	want := map[Arch]string{BIOS: "undionly.kpxe", X64: "snponly.efi", ARM64: "arm64-efi/snponly.efi"}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"snponly.efi": "snponly.efi", `\snponly.efi`: "snponly.efi", "//snponly.efi": "snponly.efi", "lost/ipxe.efi": "", "undionly.kpxe": "undionly.kpxe",
		`arm64-efi\snponly.efi`: "arm64-efi/snponly.efi", "../../snponly.efi": "snponly.efi", "": "", "/": "", "README": "",
		"broken.efi": "", "gone.efi": "",
	} {
		got := ""
		if l := s.Named(name); l != nil {
			got = l.Name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	shim := s.Named("shimx64.efi.signed")
	if shim == nil || !shim.Signed || !cmp.Equal(shim.SBAT, []string{"shim,4"}) || s.Named("ipxe.efi").Signed {
		t.Errorf("%+v", shim)
	}
	efi(t, filepath.Join(dir, "signed", "ipxe-shimx64.efi"), 0x64, true)
	if s, err = Find(dir); err != nil || s.For(X64).Name != "signed/ipxe-shimx64.efi" {
		t.Errorf("beside signed iPXE: %v, %v", s.For(X64), err)
	}
}
