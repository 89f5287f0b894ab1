package iso

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
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
		c.fillAreas, c.editFiles, c.checkFound, c.placeFiles, c.placeBootFiles, c.blankMD5, c.extendVolume, c.extendDisk,
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
	overlay.ownArgs = slices.Sorted(maps.Keys(e.kept))
	if overlay.image, err = c.verify(overlay); err != nil {
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
	// others are the configurations that start no Linux kernel.
	others  []otherConfig
	filled  []area
	files   []*changed
	patched []string
}

// changed is a file with new content.
type changed struct {
	part
	entry   *entry
	content []byte
	// records are the directory records of all trees that point to it.
	records []int64
}

func (f *changed) name() string { return f.part.name(f.entry.path) }

func (c *customizer) fillAreas() error {
	areas, err := c.img.areas()
	if err != nil {
		return err
	}
	for _, a := range areas {
		content := make([]byte, a.at.Len)
		if err := c.img.src.read(content, a.at.Off); err != nil {
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
		if err := c.patch.write(filled, a.at.Off); err != nil {
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

// editFiles edits the configurations in the tree of the image and in its boot images.
func (c *customizer) editFiles() error {
	for _, p := range c.img.parts(c.patch) {
		err := walk(p, func(e *entry) error { return c.editFile(p, e) })
		var refused *PatchError
		if err != nil && p.boot != nil && !errors.As(err, &refused) {
			return fmt.Errorf("%s: %w", p.boot.name(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// editFile edits a file if it is a configuration.
func (c *customizer) editFile(p part, e *entry) error {
	lang := languageOf(e.path)
	if lang == noConfig || e.dir || e.symlink || e.size == 0 {
		return nil
	}
	file, err := p.file(e)
	if lang == unified {
		return refuse(file.Path, "its command line is part of a signed program")
	}
	if err != nil || c.isEdited(p, &file) {
		return err
	}
	text, err := p.readEntry(e)
	if err != nil {
		return err
	}
	out, err := lang.change(e.path, string(text), c.edit)
	if err != nil {
		return refuse(file.Path, "%v", err)
	}
	if out.kernels > 0 {
		c.kernels[lang] += out.kernels
	} else if out.other != "" {
		c.others = append(c.others, otherConfig{lang, file.Path, out.other})
	}
	if out.defaults && !out.leans {
		c.global = file.Path
	}
	if out.leans && !out.defaults {
		c.leaning = file.Path
	}
	if out.text == string(text) {
		return nil
	}
	c.files = append(c.files, &changed{part: p, entry: e.clone(), content: []byte(out.text)})
	return c.patchable(p, e)
}

// isEdited reports whether a file has a karg area, or is another name of one that was edited.
func (c *customizer) isEdited(p part, file *File) bool {
	for _, a := range c.filled {
		if slices.ContainsFunc(file.Extents, a.at.overlaps) {
			return true
		}
	}
	return p.boot == nil && slices.ContainsFunc(c.files, func(f *changed) bool {
		return f.entry.places[0].data == file.Extents[0]
	})
}

// patchable returns an error if the content of an entry cannot be replaced.
func (c *customizer) patchable(p part, e *entry) error {
	switch {
	case p.boot != nil:
		return nil
	case e.compressed:
		return refuse(e.path, "it is compressed")
	case len(e.places) != 1 || e.places[0].xattr != 0:
		return refuse(e.path, "it is in several pieces")
	case c.img.volume.udf:
		return refuse(e.path, "the image is also UDF, whose records are not patched")
	}
	return nil
}

func (c *customizer) checkFound() error {
	if len(c.kernels) == 0 {
		return c.noKernel()
	}
	for _, b := range c.img.boots {
		// The areas of older CoreOS images may have no name to tell by.
		if !strings.EqualFold(path.Base(b.Path), "isolinux.bin") || c.kernels[isolinux]+c.kernels[noConfig] > 0 {
			continue
		}
		for _, o := range c.others {
			if o.language == isolinux {
				return o.refusal()
			}
		}
		return refuse(b.Path, "no configuration of it has an entry whose kernel arguments can be set")
	}
	if c.leaning != "" && c.global != "" {
		return refuse(c.leaning, "its entries take their arguments from %s", c.global)
	}
	return nil
}
