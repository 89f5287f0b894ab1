package iso

import (
	"bytes"
	"fmt"
)

// verify opens the patched image and compares the files that were changed with their
// new content. The overlay keeps the opened image.
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
		if err := verifyFAT(fs, want); err != nil || len(want) > 0 {
			return refuse(b.name(), "it does not read as it was patched: its file system is damaged")
		}
	}
	return nil
}

// verifyFAT removes from want, by path, the files that have the expected content.
func verifyFAT(fs *fat, want map[string][]byte) error {
	return fs.walk(func(f *fatFile) error {
		content, ok := want[f.path]
		if !ok {
			return nil
		}
		chain, err := fs.chainOf(f)
		if err != nil {
			return err
		}
		got, err := readRanges(fs.src, f.path, fs.extents(chain, f.size), f.size)
		if err == nil && bytes.Equal(got, content) {
			delete(want, f.path)
		}
		return err
	})
}
