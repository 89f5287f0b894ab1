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

// Holds tells whether the file has a byte among the n from off of the image.
func (f *File) Holds(off, n int64) bool {
	return slices.ContainsFunc(f.Extents, func(e Extent) bool { return off < e.Off+e.Len && e.Off < off+n })
}

// BootFiles gives the kernels and initrds that the boot configurations name, in
// the tree of the image and in its EFI boot images; without such
// configurations, what is named like them.
func (img *Image) BootFiles() ([]BootFile, error) {
	var found []BootFile
	add := func(kind string, f File) {
		if !slices.ContainsFunc(found, func(b BootFile) bool { return b.Path == f.Path }) {
			found = append(found, BootFile{f, kind})
		}
	}
	named := outcome{}
	note := func(name string, lang language, text []byte) {
		// What cannot be read is the business of Customize.
		out, _ := lang.change(name, string(text), &edit{})
		named.kernelPaths = append(named.kernelPaths, out.kernelPaths...)
		named.initrdPaths = append(named.initrdPaths, out.initrdPaths...)
	}
	var alike []BootFile
	err := newWalker(img.src, img.names).walk(func(e *entry) error {
		if e.dir || e.symlink {
			return nil
		}
		if kind := kindByName(e.path); kind != "" {
			alike = append(alike, BootFile{e.file(), kind})
		}
		if lang := languageOf(e.path); lang != noConfig && lang != unified && e.size <= maxConfig {
			text, err := img.content(e)
			if err != nil {
				return err
			}
			note(e.path, lang, text)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	inside, err := img.bootImageFiles(note)
	if err != nil {
		return nil, err
	}
	resolve := func(kind string, names []string) {
		for _, name := range names {
			name = path.Clean("/" + name)
			if f, err := img.Lookup(name); err == nil {
				add(kind, f)
			}
			for _, f := range inside {
				if i := strings.LastIndexByte(f.Path, ':'); strings.EqualFold(f.Path[i+1:], name) {
					add(kind, f)
				}
			}
		}
	}
	resolve(Kernel, named.kernelPaths)
	resolve(Initrd, named.initrdPaths)
	if len(found) == 0 {
		return alike, nil
	}
	return found, nil
}

// kindByName tells kernels and initrds by how they are usually called.
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

// bootImageFiles gives the files of the EFI boot images, and their
// configurations to note.
func (img *Image) bootImageFiles(note func(string, language, []byte)) ([]File, error) {
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
				note(f.path, lang, text)
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
