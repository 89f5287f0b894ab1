package iso

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// language is the language of a boot configuration.
type language uint8

const (
	noConfig language = iota
	grub
	isolinux
	systemdBoot
	// unified is a kernel with its command line inside one signed program.
	unified
)

// languageOf returns the language of a boot configuration by its path, and noConfig for
// other files.
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

// outcome is the result of editing a boot configuration.
type outcome struct {
	text string
	// kernels is the number of its command lines of Linux kernels.
	kernels int
	// kernelPaths and initrdPaths are the files that it loads.
	kernelPaths, initrdPaths []string
	// defaults is true if it sets arguments for entries of other files as well.
	defaults bool
	// leans is true if one of its entries uses the arguments of such defaults.
	leans bool
	// tellsConfig is true if an argument tells a system where its config is.
	tellsConfig bool
	// other is the first command that starts something else than a Linux kernel, "": none.
	other string
}

// change edits a configuration. On an error the text is unchanged, and the files are
// those found so far.
func (l language) change(name, text string, e *edit) (outcome, error) {
	c := &editor{outcome: outcome{text: text}, edit: e}
	switch l {
	case grub:
		c.editGRUB()
	case isolinux:
		c.editIsolinux(path.Dir(name))
	case systemdBoot:
		c.editEntry()
	}
	if c.err == nil {
		c.text = apply(text, c.changes)
	}
	return c.outcome, c.err
}

// editor edits one boot configuration.
type editor struct {
	outcome
	edit    *edit
	changes []splice
	err     error // the first one
}

// change changes one command line, as splices does.
func (c *editor) change(e *edit, words []word, from int, encode func(argument) (string, error), file string) {
	c.tellsConfig = c.tellsConfig || slices.ContainsFunc(words, func(w word) bool { return TellsConfig(w.text) })
	changes, err := e.splices(words, from, encode, file)
	c.changes = append(c.changes, changes...)
	c.err = cmp.Or(c.err, err)
}

// sawOther notes a command that starts something else than a Linux kernel.
func (c *editor) sawOther(command string) { c.other = cmp.Or(c.other, strings.TrimSpace(command)) }

// words returns the arguments in a line.
func (c *editor) words(line *configLine) []word {
	words, err := splitWords(c.text, line.start, line.end)
	c.err = cmp.Or(c.err, err)
	return words
}

// insertLine inserts a line with the new arguments behind another one. file is as for splices.
func (c *editor) insertLine(behind *configLine, keyword, file string) {
	changes, err := c.edit.splices(nil, behind.end, unquoted, file)
	c.err = cmp.Or(c.err, err)
	if len(changes) == 0 {
		return
	}
	newline := "\n"
	if strings.Contains(c.text, "\r\n") {
		newline = "\r\n"
	}
	c.changes = append(c.changes, splice{behind.end, behind.end, newline + keyword + changes[0].text})
}
