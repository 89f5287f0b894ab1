package iso

import (
	"bytes"
	"fmt"
)

// verify reads the patched image anew: it has to hold what was meant. The
// overlay keeps what was read.
func (c *customizer) verify(o *Overlay) error {
	img, err := Open(o, o.Size())
	if err != nil {
		return fmt.Errorf("the patched image cannot be read: %w", err)
	}
	o.image = img
	for _, f := range c.files {
		got, err := img.readFile(f.path)
		if err != nil || !bytes.Equal(got, f.content) {
			return refuse(f.path, "it does not read as it was patched: its image is damaged")
		}
	}
	for i := range img.boots {
		b := &img.boots[i]
		want := map[string][]byte{}
		for _, f := range c.bootFiles {
			if f.boot.Off == b.Off {
				want[f.file.path] = f.content
			}
		}
		if len(want) == 0 {
			continue
		}
		fs, err := openFAT(img.src, b.Off, img.src.size-b.Off)
		if err != nil {
			return refuse(b.name(), "it does not read as it was patched: %v", err)
		}
		err = fs.walk(func(f *fatFile) error {
			content, ok := want[f.path]
			if !ok {
				return nil
			}
			chain, err := fs.chainOf(f)
			if err != nil {
				return err
			}
			got, err := readRanges(img.src, f.path, fs.extents(chain, f.size), f.size)
			if err == nil && bytes.Equal(got, content) {
				delete(want, f.path)
			}
			return err
		})
		if err != nil || len(want) > 0 {
			return refuse(b.name(), "it does not read as it was patched: its file system is damaged")
		}
	}
	return nil
}
