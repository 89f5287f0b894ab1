package iso

import (
	"bytes"
	"fmt"
	"slices"
)

// verify opens the patched image, and compares the files that were changed with their
// new content. It returns the opened image.
func (c *customizer) verify(o *Overlay) (*Image, error) {
	img, err := Open(o, o.Size())
	if err != nil {
		return nil, fmt.Errorf("the patched image cannot be read: %w", err)
	}
	for _, f := range c.files {
		parts := img.parts(img.src)
		i := slices.IndexFunc(parts, func(p part) bool {
			return p.boot == f.boot || p.boot != nil && f.boot != nil && p.boot.Off == f.boot.Off
		})
		if i >= 0 {
			got, err := parts[i].readFile(f.entry.path)
			if err == nil && bytes.Equal(got, f.content) {
				continue
			}
		}
		return nil, refuse(f.name(), "it does not read as it was patched: its file system is damaged")
	}
	return img, nil
}
