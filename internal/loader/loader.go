// Package loader finds the boot loaders that the firmware of machines is given: in the places of Debian's and Fedora's
// packages, or in a folder of the operator. No loader is a part of this program.
package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Arch is the firmware that runs a loader.
type Arch string

// Firmware that machines have.
const (
	BIOS  Arch = "BIOS"
	IA32  Arch = "UEFI ia32"
	X64   Arch = "UEFI x64"
	ARM64 Arch = "UEFI arm64"
)

// Arches are the kinds of firmware that are given a loader.
var Arches = []Arch{BIOS, X64, ARM64}

// Places are the folders of Debian's and Fedora's packages.
var Places = []string{
	"/usr/lib/ipxe", "/usr/share/ipxe", "/usr/lib/shim", "/usr/lib/grub/x86_64-efi-signed", "/usr/lib/grub/arm64-efi-signed",
}

// Autoexec is the script that iPXE looks for beside itself.
const Autoexec = "autoexec.ipxe"

const (
	// maxFiles and maxDepth bound what is looked at in a folder, and maxSize the size of a loader in bytes.
	maxFiles = 1000
	maxDepth = 4
	maxSize  = 64 << 20
)

// Loader is the file of a boot loader.
type Loader struct {
	// Name is the path below its folder, with slashes. It is the name over TFTP and HTTP.
	Name string `json:"name"`
	// Path is that of the file.
	Path string `json:"path"`
	Arch Arch   `json:"firmware"`
	// Signed is true for a loader with a signature, which firmware with Secure Boot asks for.
	Signed bool `json:"signed"`
	// SBAT has the generation of each component, as "shim,4", by which firmware revokes loaders.
	SBAT []string `json:"sbat,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// Set is the loaders that are there.
type Set struct {
	all    []*Loader
	byName map[string]*Loader
}

// Find finds the loaders in folders; those of a folder come before those of the same name in a later one. A folder that
// is not there has none.
func Find(dirs ...string) (*Set, error) {
	s := &Set{byName: map[string]*Loader{}}
	for _, dir := range dirs {
		if err := s.add(dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// In finds the loaders in a folder, which has to be there, or with "" those of the packages.
func In(dir string) (*Set, error) {
	if dir == "" {
		return Find(Places...)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	return Find(dir)
}

// Open opens the file of a loader, which a package may have replaced.
func (l *Loader) Open() (file *os.File, info fs.FileInfo, err error) {
	if file, err = os.OpenFile(l.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil { // a pipe would wait for a writer
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil && (!info.Mode().IsRegular() || info.Size() > maxSize) {
		err = fmt.Errorf("%s is no boot loader any more", l.Path)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// errEnough ends the walk through a folder.
var errEnough = errors.New("enough")

func (s *Set) add(dir string) error {
	files := 0
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			if file == dir && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		name, _ := filepath.Rel(dir, file)
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if strings.Count(name, "/") >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > maxFiles {
			return errEnough
		}
		if l := read(file, name); l != nil && s.byName[name] == nil {
			s.all, s.byName[name] = append(s.all, l), l
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("boot loaders of %s: %w", dir, err)
	}
	return nil
}

// read reads a file; nil: it is no boot loader.
func read(file, name string) *Loader {
	info, err := os.Stat(file) // the file that a link leads to
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSize {
		return nil
	}
	l := &Loader{Name: name, Path: file, Size: info.Size()}
	switch path.Ext(strings.TrimSuffix(name, ".signed")) {
	case ".pxe", ".kpxe", ".kkpxe", ".kkkpxe":
		l.Arch = BIOS
		return l
	case ".efi":
		if inspect(l) == nil {
			return l
		}
	}
	return nil
}

// All returns the loaders by name.
func (s *Set) All() []*Loader {
	return slices.SortedFunc(slices.Values(s.all), func(a, b *Loader) int { return strings.Compare(a.Name, b.Name) })
}

// preferred are the names of iPXE for a kind of firmware, the best first: with a signature, then with the driver of the
// firmware for the card that it boots from, then with drivers of its own.
var preferred = map[Arch][]string{
	BIOS: {"undionly.kpxe", "ipxe-undionly.kpxe", "ipxe.pxe"},
	X64: {"snponly-shimx64.efi", "ipxe-shimx64.efi", "snponly.efi", "ipxe-snponly-x86_64.efi", "ipxe.efi",
		"ipxe-x86_64.efi"},
	ARM64: {"snponly-shimaa64.efi", "ipxe-shimaa64.efi", "snponly.efi", "ipxe-snponly-aarch64.efi", "ipxe.efi",
		"ipxe-aarch64.efi"},
}

// For returns iPXE for a kind of firmware; nil: there is none.
func (s *Set) For(arch Arch) *Loader {
	for _, base := range preferred[arch] {
		for _, l := range s.all {
			if l.Arch == arch && path.Base(l.Name) == base {
				return l
			}
		}
	}
	return nil
}

// Named returns the loader that a client asks for. Clients write backslashes and doubled slashes, and some DHCP servers
// lose the folder in a name (rhboot/shim#710), so one without a folder is looked for in all; nil: there is none.
func (s *Set) Named(name string) *Loader {
	name = strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
	if l := s.byName[name]; l != nil {
		return l
	}
	folder, base := path.Split(name)
	for _, candidate := range []string{signedNames[base], base, base + ".signed"} {
		for _, l := range s.all {
			if in, is := path.Split(l.Name); is == candidate && (folder == "" || folder == in) {
				return l
			}
		}
	}
	return nil
}

// signedNames are the files of Debian's packages that loaders ask for by other names.
var signedNames = map[string]string{
	"grubx64.efi": "grubnetx64.efi.signed", "grubaa64.efi": "grubnetaa64.efi.signed",
	"bootx64.efi": "shimx64.efi.signed", "bootaa64.efi": "shimaa64.efi.signed",
}

// Package says which package has iPXE for a kind of firmware.
func Package(arch Arch) string {
	if arch == ARM64 {
		return "Fedora's package ipxe-bootimgs-aarch64 has it, and Debian's package ipxe from release 13"
	}
	return "Debian's package ipxe and Fedora's package ipxe-bootimgs-x86 have it"
}
