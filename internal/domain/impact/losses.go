package impact

import (
	"fmt"
	"slices"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/plan"
)

// maxLosses bounds the losses of one host.
const maxLosses = 5

// LossesOf returns what Ignition destroys on disks with the config after, and not with the one
// before; either may be nil. A config that cannot be planned destroys nothing that is known.
func LossesOf(before, after []byte, facts *disk.Facts) []string {
	was := destroyed(before, facts)
	lost := slices.DeleteFunc(destroyed(after, facts), func(s string) bool { return slices.Contains(was, s) })
	if more := len(lost) - maxLosses; more > 0 {
		lost = append(lost[:maxLosses], fmt.Sprintf("and %d more", more))
	}
	return lost
}

func destroyed(config []byte, facts *disk.Facts) []string {
	if config == nil {
		return nil
	}
	made, err := plan.New(config, facts)
	if err != nil {
		return nil
	}
	return made.Losses()
}
