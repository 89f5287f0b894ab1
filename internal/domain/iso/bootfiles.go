package iso

import (
	"path"
	"slices"
	"strings"
)

// The kinds of a BootFile.
const (
	Kernel = "kernel"
	Initrd = "initrd"
)

// BootFile is a file that a boot configuration loads.
type BootFile struct {
	File
	// Kind is Kernel or Initrd.
	Kind string
}

// Holds reports whether the n bytes from off of the image include a byte of the file.
func (f *File) Holds(off, n int64) bool {
	return slices.ContainsFunc(f.Extents, Extent{off, n}.overlaps)
}

// maxBootImageFiles is more than any boot image has.
const maxBootImageFiles = 4096

// BootFiles returns the kernels and initrds that the boot configurations name, in
// the tree of the image and in its EFI boot images. Without such configurations it
// returns the files with usual names of kernels and initrds. tellsConfig is true where a
// kernel argument in them tells the system where its config is.
func (img *Image) BootFiles() (files []BootFile, tellsConfig bool, err error) {
	f := bootFileFinder{img: img}
	for _, p := range img.parts(img.src) {
		if err := walk(p, func(e *entry) error { return f.look(p, e) }); err != nil {
			return nil, false, err
		}
	}
	f.resolve(Kernel, f.kernelPaths)
	f.resolve(Initrd, f.initrdPaths)
	if len(f.found) == 0 {
		return f.usual, f.tellsConfig, nil
	}
	return f.found, f.tellsConfig, nil
}

// bootFileFinder collects the files that the boot configurations of an image name.
type bootFileFinder struct {
	img                      *Image
	kernelPaths, initrdPaths []string
	tellsConfig              bool
	// inside are the files of the boot images.
	inside []File
	found  []BootFile
	// usual are the files whose names are usual ones.
	usual []BootFile
}

// look reads an entry of a file system.
func (f *bootFileFinder) look(p part, e *entry) error {
	if e.dir || e.symlink || len(f.inside) >= maxBootImageFiles {
		return nil
	}
	kind := kindByName(e.path)
	if p.boot != nil || kind != "" {
		file, err := p.file(e)
		if err != nil {
			return err
		}
		if p.boot != nil {
			f.inside = append(f.inside, file)
		} else {
			f.usual = append(f.usual, BootFile{file, kind})
		}
	}
	lang := languageOf(e.path)
	if lang == noConfig || lang == unified || e.size > maxConfig {
		return nil
	}
	text, err := p.readEntry(e)
	if err == nil {
		// A configuration that cannot be parsed names no files here: Customize reports it.
		out, _ := lang.change(e.path, string(text), &edit{})
		f.kernelPaths = append(f.kernelPaths, out.kernelPaths...)
		f.initrdPaths = append(f.initrdPaths, out.initrdPaths...)
		f.tellsConfig = f.tellsConfig || out.tellsConfig
	}
	return err
}

// resolve finds the files with the names, in the tree and inside of boot images.
func (f *bootFileFinder) resolve(kind string, names []string) {
	for _, name := range names {
		name = path.Clean("/" + name)
		if file, err := f.img.Lookup(name); err == nil {
			f.add(kind, file)
		}
		for _, file := range f.inside {
			if i := strings.LastIndexByte(file.Path, ':'); strings.EqualFold(file.Path[i+1:], name) {
				f.add(kind, file)
			}
		}
	}
}

func (f *bootFileFinder) add(kind string, file File) {
	if !slices.ContainsFunc(f.found, func(b BootFile) bool { return b.Path == file.Path }) {
		f.found = append(f.found, BootFile{file, kind})
	}
}

// kindByName returns the kind of a file by its name, "" if the name is not a usual one.
func kindByName(name string) string {
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.HasPrefix(base, "vmlinuz"), base == "bzimage":
		return Kernel
	case strings.HasPrefix(base, "initrd"), strings.HasPrefix(base, "initramfs"):
		return Initrd
	}
	return ""
}
