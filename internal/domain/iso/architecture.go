package iso

import (
	"path"
	"strings"

	"glowplug/internal/domain/arch"
)

// findArchitectures finds the architectures of an image: those of its UEFI boot loaders, and
// those in the description of its installer.
func findArchitectures(img *Image) []string {
	var found []string
	add := func(name string) {
		if a := arch.Parse(name); a != "" {
			found = append(found, a)
		}
	}
	for _, p := range img.parts(img.src) {
		// A file system that cannot be read names none.
		_ = listDirectory(p, "/EFI/BOOT", func(name string) {
			name = strings.ToLower(name)
			if base, ok := strings.CutPrefix(name, "boot"); ok && path.Ext(base) == ".efi" {
				add(strings.TrimSuffix(base, ".efi"))
			}
		})
	}
	read := func(name string) string {
		text, _ := img.tree().readFile(name)
		return string(text)
	}
	for line := range strings.Lines(read("/.treeinfo")) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "arch" {
			add(strings.TrimSpace(value))
		}
	}
	// The third line of .discinfo is the architecture.
	if lines := strings.Split(read("/.discinfo"), "\n"); len(lines) > 2 {
		add(strings.TrimSpace(lines[2]))
	}
	for word := range strings.FieldsSeq(read("/.disk/info")) { // Debian and Ubuntu
		add(word)
	}
	return arch.Set(found)
}

// listDirectory calls fn for the name of each file of a directory.
func listDirectory(fs fileSystem, dir string, fn func(name string)) error {
	at := fs.top()
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		var below *entry
		err := fs.list(at, func(e *entry) error {
			if e.dir && strings.EqualFold(e.name, part) {
				below = e.clone()
			}
			return nil
		})
		if err != nil || below == nil {
			return err
		}
		at = below
	}
	return fs.list(at, func(e *entry) error {
		if !e.dir {
			fn(e.name)
		}
		return nil
	})
}
