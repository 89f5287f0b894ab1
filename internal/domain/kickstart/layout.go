package kickstart

import (
	"fmt"
	"slices"
	"strings"
)

// declaring are the commands that declare the devices of an installation one by one. Each mount point is the
// first argument, but for mount, where it is the second.
var declaring = []string{"part", "partition", "raid", "volgroup", "logvol", "btrfs", "reqpart"}

// layout is what the commands of a kickstart make of the disks.
type layout struct {
	// lines have the first line of each command that was seen.
	lines map[string]int
	// mounts have the line of each mount point.
	mounts map[string]int
}

// excluded returns the commands that the installer does not take beside one.
func excluded(command string) []string {
	switch {
	case command == "autopart":
		return append([]string{"mount"}, declaring...)
	case command == "mount":
		return append([]string{"autopart"}, declaring...)
	case slices.Contains(declaring, command):
		return []string{"autopart", "mount"}
	}
	return nil
}

// layOut checks a command against those before it. The first of the words is its name.
func (c *checker) layOut(number int, words []word) {
	command := words[0].text
	others := excluded(command)
	if others == nil {
		return
	}
	if c.layout.lines == nil {
		c.layout = layout{map[string]int{}, map[string]int{}}
	}
	if c.layout.lines[command] == 0 {
		c.layout.lines[command] = number
		for _, other := range others {
			if before := c.layout.lines[other]; before > 0 {
				c.add(number, fault{words[0].column, fmt.Sprintf("%s and %s (line %d) cannot be given together", command,
					other, before), "the installer refuses it: let one of them make the layout of the disks"})
			}
		}
	}
	mount, ok := mountPoint(words)
	if !ok {
		return
	}
	if before := c.layout.mounts[mount.text]; before > 0 {
		c.add(number, fault{mount.column, fmt.Sprintf("%s: the mount point is in line %d already", command, before),
			"each mount point is declared once"})
		return
	}
	c.layout.mounts[mount.text] = number
}

// mountPoint returns the mount point that a command declares; swap, none and the parts of volumes are none.
func mountPoint(words []word) (word, bool) {
	command := words[0].text
	if command == "autopart" || command == "volgroup" || command == "reqpart" {
		return word{}, false
	}
	a := call{syntax: syntaxes()[command], name: words[0], given: map[string]string{}}
	a.read(words[1:])
	at := 0
	if command == "mount" {
		at = 1
	}
	if len(a.arguments) <= at || !strings.HasPrefix(a.arguments[at].text, "/") {
		return word{}, false
	}
	return a.arguments[at], true
}
