package iso

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Customize sets kernel arguments in every boot configuration of the image, for
// BIOS and UEFI alike. Each argument replaces those of the same name. It fails
// with the name of the file where one of them cannot be patched; there is never
// half a patch. Without arguments, and without a default for the distro, the
// overlay changes nothing.
func (img *Image) Customize(o Options) (*Overlay, error) {
	e, err := img.edit(o)
	if err != nil {
		return nil, err
	}
	c := &customizer{img: img, edit: e, patch: newPatch(img.src), kernels: map[language]int{}}
	if e == nil {
		overlay := c.patch.overlay()
		overlay.image = img
		return overlay, nil
	}
	for _, step := range []func() error{
		c.fillAreas, c.editFiles, c.editBootImages, c.checkFound,
		c.placeFiles, c.placeBootFiles, c.blankMD5, c.extendVolume, c.extendDisk,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	overlay := c.patch.overlay()
	if overlay.Kept() > maxKept {
		return nil, fmt.Errorf("the patches take %d MB, more than %d", overlay.Kept()>>20, maxKept>>20)
	}
	overlay.patched = c.patched
	for _, a := range e.set {
		overlay.args = append(overlay.args, string(a))
	}
	if err := c.verify(overlay); err != nil {
		return nil, err
	}
	return overlay, nil
}

// customizer is one run of Customize.
type customizer struct {
	img   *Image
	edit  *edit
	patch *patch
	// kernels counts the command lines found, by the language of their file.
	kernels map[language]int
	// leaning is an isolinux configuration whose entries take the arguments of
	// another file, global one that sets arguments for entries of others.
	leaning, global string
	filled          []area
	files           []*changed
	bootFiles       []*changedInside
	patched         []string
}

// changed is a file of the ISO with new content.
type changed struct {
	path    string
	place   place
	content []byte
	// records are the directory records of all trees that point to it.
	records []int64
}

// changedInside is a file of an EFI boot image with new content.
type changedInside struct {
	boot    *BootImage
	fs      *fat
	name    string
	file    fatFile
	content []byte
}

func (c *customizer) fillAreas() error {
	areas, err := c.img.areas()
	if err != nil {
		return err
	}
	for _, a := range areas {
		content := make([]byte, a.at.size)
		if err := c.img.src.read(content, a.at.off); err != nil {
			return err
		}
		filled, err := a.change(content, c.edit)
		if err != nil {
			return err
		}
		c.kernels[languageOf(a.path)]++
		c.filled = append(c.filled, a)
		if err := c.patch.claim(a.path, a.at); err != nil {
			return err
		}
		if bytes.Equal(filled, content) {
			continue
		}
		c.note(a.path)
		if err := c.patch.write(filled, a.at.off); err != nil {
			return err
		}
	}
	return nil
}

func (c *customizer) note(name string) {
	if !slices.Contains(c.patched, name) {
		c.patched = append(c.patched, name)
	}
}

// hasArea reports whether a karg area lies in one of the ranges.
func (c *customizer) hasArea(ranges []extent) bool {
	return slices.ContainsFunc(c.filled, func(a area) bool {
		return slices.ContainsFunc(ranges, a.at.overlaps)
	})
}

// change edits one configuration; it gives nil where nothing has to change.
func (c *customizer) change(name string, lang language, text []byte) ([]byte, error) {
	out, err := lang.change(within(name), string(text), c.edit)
	if err != nil {
		return nil, refuse(name, "%v", err)
	}
	if out.kernels > 0 {
		c.kernels[lang] += out.kernels
	}
	if out.defaults && !out.leans {
		c.global = name
	}
	if out.leans && !out.defaults {
		c.leaning = name
	}
	if out.text == string(text) {
		return nil, nil
	}
	return []byte(out.text), nil
}

// within is the path inside of an EFI boot image, or the path.
func within(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		return name[i+1:]
	}
	return name
}

// editFiles edits the configurations in the tree of the image.
func (c *customizer) editFiles() error {
	return newWalker(c.img.src, c.img.names).walk(func(e *entry) error {
		lang := languageOf(e.path)
		if lang == noConfig || e.dir || e.symlink || e.size == 0 {
			return nil
		}
		if lang == unified {
			return refuse(e.path, "its command line is part of a signed program")
		}
		var ranges []extent
		for _, p := range e.places {
			ranges = append(ranges, p.data)
		}
		if c.hasArea(ranges) || slices.ContainsFunc(c.files, func(f *changed) bool { return f.place.data == ranges[0] }) {
			return nil // done, or another name of one that is
		}
		text, err := c.img.content(e)
		if err != nil {
			return err
		}
		content, err := c.change(e.path, lang, text)
		if err != nil || content == nil {
			return err
		}
		if err := c.patchable(e); err != nil {
			return err
		}
		c.files = append(c.files, &changed{path: e.path, place: e.places[0], content: content})
		return nil
	})
}

// patchable returns an error if the content of an entry cannot be replaced.
func (c *customizer) patchable(e *entry) error {
	switch {
	case e.compressed:
		return refuse(e.path, "it is compressed")
	case len(e.places) != 1 || e.places[0].xattr != 0:
		return refuse(e.path, "it is in several pieces")
	case c.img.volume.udf:
		return refuse(e.path, "the image is also UDF, whose records are not patched")
	}
	return nil
}

// editBootImages edits the configurations in the EFI boot images.
func (c *customizer) editBootImages() error {
	for i := range c.img.boots {
		b := &c.img.boots[i]
		if !b.FAT {
			continue
		}
		fs, err := openFAT(c.patch, b.Off, c.img.src.size-b.Off)
		if err != nil {
			return refuse(b.name(), "%v", err)
		}
		err = fs.walk(func(f *fatFile) error {
			lang := languageOf(f.path)
			if lang == noConfig || f.dir || f.size == 0 {
				return nil
			}
			name := b.inside(f.path)
			if lang == unified {
				return refuse(name, "its command line is part of a signed program")
			}
			chain, err := fs.chainOf(f)
			if err != nil {
				return refuse(name, "%v", err)
			}
			ranges := fs.extents(chain, f.size)
			if c.hasArea(ranges) {
				return nil
			}
			text, err := readRanges(c.img.src, name, ranges, f.size)
			if err != nil {
				return err
			}
			content, err := c.change(name, lang, text)
			if err != nil || content == nil {
				return err
			}
			c.bootFiles = append(c.bootFiles, &changedInside{b, fs, name, *f, content})
			return nil
		})
		if err != nil {
			return named(b.name(), err)
		}
	}
	return nil
}

// named makes sure that an error names a file.
func named(name string, err error) error {
	if _, ok := err.(*PatchError); ok {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func readRanges(src reader, name string, ranges []extent, size int64) ([]byte, error) {
	if size > maxConfig {
		return nil, refuse(name, "it has %d bytes, more than the %d that are read", size, maxConfig)
	}
	buf := make([]byte, size)
	rest := buf
	for _, r := range ranges {
		if err := src.read(rest[:r.size], r.off); err != nil {
			return nil, err
		}
		rest = rest[r.size:]
	}
	return buf, nil
}

func (c *customizer) checkFound() error {
	if len(c.kernels) == 0 {
		return fmt.Errorf("the image has no boot configuration in which a kernel's arguments can be set")
	}
	for _, b := range c.img.boots {
		// The areas of older CoreOS images may have no name to tell by.
		if strings.EqualFold(path.Base(b.Path), "isolinux.bin") && c.kernels[isolinux]+c.kernels[noConfig] == 0 {
			return refuse(b.Path, "no configuration of it has an entry whose kernel arguments can be set")
		}
	}
	if c.leaning != "" && c.global != "" {
		return refuse(c.leaning, "its entries take their arguments from %s", c.global)
	}
	return nil
}
