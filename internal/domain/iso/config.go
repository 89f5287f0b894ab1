package iso

import (
	"path"
	"slices"
	"strings"
)

// language is what a boot configuration is written in.
type language uint8

const (
	noConfig language = iota
	grub
	isolinux
	systemdBoot
	// unified is a kernel with its command line inside one signed program.
	unified
)

// languageOf tells the boot configurations by their path.
func languageOf(name string) language {
	name = strings.ToLower(name)
	dir, base := path.Split(name)
	ext := path.Ext(base)
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	under := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(parts, n) })
	}
	switch {
	case ext == ".conf" && strings.HasSuffix(dir, "/loader/entries/"):
		return systemdBoot
	case ext == ".efi" && strings.HasSuffix(dir, "/efi/linux/"):
		return unified
	case base == "isolinux.cfg" || base == "syslinux.cfg" || base == "extlinux.conf",
		(ext == ".cfg" || ext == ".conf") && under("isolinux", "syslinux", "extlinux"):
		return isolinux
	case ext == ".cfg" && (strings.HasPrefix(base, "grub") || base == "loopback.cfg" || under("grub", "grub2", "efi")):
		return grub
	}
	return noConfig
}

// change edits a configuration.
func (l language) change(name, text string, e *edit) (outcome, error) {
	switch l {
	case grub:
		return editGRUB(text, e)
	case isolinux:
		return editIsolinux(text, e, path.Dir(name))
	case systemdBoot:
		return editEntry(text, e)
	}
	return outcome{text: text}, nil
}
