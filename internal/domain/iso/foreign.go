package iso

import (
	"errors"
	"strings"
)

// otherConfig is a boot configuration that starts no Linux kernel, and what it starts.
type otherConfig struct {
	language     language
	path, starts string
}

func (o *otherConfig) refusal() error {
	return refuse(o.path, "it has no entry of a Linux kernel, whose arguments could be set; it has %q", clipped(o.starts))
}

// foreign are the boot files of images without a Linux kernel: what the file is, and the
// beginnings of the lines that show it. A file without such lines is known by its name.
var foreign = []struct {
	path, is string
	lines    []string
}{
	{"/boot.cfg", "the configuration of VMware's boot loader", []string{"kernel=", "kernelopt="}},
	{"/efi/boot/boot.cfg", "the configuration of VMware's boot loader", []string{"kernel=", "kernelopt="}},
	{"/sources/boot.wim", "the Windows PE system, which the Windows boot manager starts", nil},
	{"/boot/bcd", "the configuration of the Windows boot manager", nil},
	{"/bootmgr", "the Windows boot manager", nil},
	{"/boot/kernel/kernel", "the kernel of FreeBSD", nil},
	{"/readme.txt", "the note that the files of the image are in its UDF file system, which is not read, as on Windows" +
		" images", []string{"This disc contains a \"UDF\" file system"}},
}

// noKernel returns the error for an image in which no kernel's arguments can be set. It
// names the boot file that was found, and what is in it.
func (c *customizer) noKernel() error {
	const advice = "no kernel arguments can be set in it; serve the image without any"
	tree := c.img.tree()
	for _, f := range foreign {
		e, err := find(tree, f.path)
		if err != nil {
			continue
		}
		if len(f.lines) == 0 {
			return refuse(e.path, "it is %s: %s", f.is, advice)
		}
		text, err := tree.readEntry(e)
		if shown := linesWith(string(text), f.lines); err == nil && shown != "" {
			return refuse(e.path, "it is %s (%s): %s", f.is, clipped(shown), advice)
		}
	}
	if len(c.others) > 0 {
		return c.others[0].refusal()
	}
	return errors.New("the image has no boot configuration in which a kernel's arguments can be set")
}

// linesWith returns the lines of a text with one of the beginnings, separated by commas.
func linesWith(text string, beginnings []string) string {
	var found []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, beginning := range beginnings {
			if strings.HasPrefix(line, beginning) {
				found = append(found, line)
			}
		}
	}
	return strings.Join(found, ", ")
}

// maxShown bounds the text of an image in a message.
const maxShown = 120

// clipped returns a text of an image for a message.
func clipped(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxShown {
		return text[:maxShown] + "…"
	}
	return text
}
