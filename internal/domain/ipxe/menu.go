package ipxe

import (
	"fmt"
	"strings"
)

// menuSeconds is the time after which a menu boots the disk.
const menuSeconds = 60

// Menu returns the script of an unknown machine: a screen with its address and the images
// that it may boot. Without a choice it boots the disk.
func Menu(address, mac string, images []Image) (string, error) {
	var items, targets strings.Builder
	for n := range images {
		image := &images[n]
		lines, err := image.Lines()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&items, "item image%d %s\n", n, text(strings.TrimSpace(image.Name+"  "+image.Version)))
		fmt.Fprintf(&targets, ":image%d\n%s", n, lines)
	}
	head := header + "menu glowplug: this machine is not known here\n"
	if address != "" {
		head += "item --gap -- Address " + text(address) + "\n"
	}
	if mac != "" {
		head += "item --gap -- MAC " + text(mac) + "\n"
	}
	head += "item --gap -- To make it known, create a BareMetalHost with one of these\n" +
		"item --gap --\n" +
		"item --key l local Boot the disk\n"
	return head + items.String() +
		fmt.Sprintf("choose --default local --timeout %d selected || goto local\n", menuSeconds*1000) +
		"goto ${selected}\n" +
		targets.String() +
		":local\n" +
		"exit\n", nil
}
