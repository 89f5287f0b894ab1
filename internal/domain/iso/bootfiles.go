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
	return slices.ContainsFunc(f.Extents, func(e Extent) bool { return off < e.Off+e.Len && e.Off < off+n })
}

// BootFiles returns the kernels and initrds that the boot configurations name, in
// the tree of the image and in its EFI boot images. Without such configurations it
// returns the files with usual names of kernels and initrds.
func (img *Image) BootFiles() ([]BootFile, error) {
	f := bootFileFinder{img: img}
	if err := newWalker(img.src, img.names).walk(f.inTree); err != nil {
		return nil, err
	}
	inside, err := img.bootImageFiles(f.readConfig)
	if err != nil {
		return nil, err
	}
	f.resolve(Kernel, f.kernelPaths, inside)
	f.resolve(Initrd, f.initrdPaths, inside)
	if len(f.found) == 0 {
		return f.usual, nil
	}
	return f.found, nil
}

// bootFileFinder collects what the boot configurations of an image name.
type bootFileFinder struct {
	img                      *Image
	kernelPaths, initrdPaths []string
	found                    []BootFile
	// usual are the files whose names are usual ones.
	usual []BootFile
}

// inTree looks at an entry of the tree of the image.
func (f *bootFileFinder) inTree(e *entry) error {
	if e.dir || e.symlink {
		return nil
	}
	if kind := kindByName(e.path); kind != "" {
		f.usual = append(f.usual, BootFile{e.file(), kind})
	}
	lang := languageOf(e.path)
	if lang == noConfig || lang == unified || e.size > maxConfig {
		return nil
	}
	text, err := f.img.content(e)
	if err == nil {
		f.readConfig(e.path, lang, text)
	}
	return err
}

// readConfig notes the files that a configuration names. One that cannot be parsed
// names none here: Customize reports it.
func (f *bootFileFinder) readConfig(name string, lang language, text []byte) {
	out, _ := lang.change(name, string(text), &edit{})
	f.kernelPaths = append(f.kernelPaths, out.kernelPaths...)
	f.initrdPaths = append(f.initrdPaths, out.initrdPaths...)
}

// resolve finds the files with the names, in the tree and inside of boot images.
func (f *bootFileFinder) resolve(kind string, names []string, inside []File) {
	for _, name := range names {
		name = path.Clean("/" + name)
		if file, err := f.img.Lookup(name); err == nil {
			f.add(kind, file)
		}
		for _, file := range inside {
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

// bootImageFiles returns the files of the EFI boot images, and calls readConfig with
// their configurations.
func (img *Image) bootImageFiles(readConfig func(string, language, []byte)) ([]File, error) {
	var files []File
	for i := range img.boots {
		b := &img.boots[i]
		if !b.FAT {
			continue
		}
		fs, err := openFAT(img.src, b.Off, img.src.size-b.Off)
		if err != nil {
			return nil, err
		}
		err = fs.walk(func(f *fatFile) error {
			if f.dir || len(files) >= maxBootImageFiles {
				return nil
			}
			chain, err := fs.chainOf(f)
			if err != nil {
				return refuse(b.inside(f.path), "%v", err)
			}
			file := File{Path: b.inside(f.path), Size: f.size}
			ranges := fs.extents(chain, f.size)
			for _, r := range ranges {
				file.Extents = append(file.Extents, Extent{r.off, r.size})
			}
			files = append(files, file)
			lang := languageOf(f.path)
			if lang == noConfig || lang == unified || f.size > maxConfig {
				return nil
			}
			text, err := readRanges(img.src, file.Path, ranges, f.size)
			if err == nil {
				readConfig(f.path, lang, text)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// maxBootImageFiles is more than any boot image has.
const maxBootImageFiles = 4096
