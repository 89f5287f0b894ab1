// Package impacttest says, for tests, which effects a change has by what was observed before and
// after it.
package impacttest

import (
	"maps"
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/impact"
)

// OK is the status of an answer without an error.
const OK = 200

// Observed is what the machine of a host was answered; the zero value is that of no host.
type Observed struct {
	Exists bool
	// Configs are the answers at the endpoints for ignition and for kickstart.
	Configs [2]Config
	// Boot identifies what it boots, and BootFails is true where that is an error.
	Boot      string
	BootFails bool
	// Address has all by which the machine is recognised.
	Address string
	// Shares is true where another host has one of its addresses.
	Shares bool
}

// Config is the answer to a request for a config.
type Config struct {
	// Name is the config that matches; "": none does.
	Name   string
	Status int
	// Body is what was served, or its hash.
	Body  string
	Stale bool
	// Tied is true where only the age of two configs decides.
	Tied bool
}

// Effects returns the effects in the order of their names.
func Effects(before, after Observed) []impact.Effect {
	if !after.Exists {
		if before.Exists {
			return []impact.Effect{impact.HostDeleted}
		}
		return nil
	}
	found := effects{}
	found.add(impact.HostAdded, !before.Exists)
	found.add(impact.Ambiguous, after.Shares && !before.Shares)
	found.add(impact.AddressChanged, before.Exists && before.Address != after.Address)
	for i := range after.Configs {
		found.ofConfig(&before.Configs[i], &after.Configs[i])
	}
	found.ofTypes(&before, &after)
	if before.Boot != after.Boot {
		found.add(impact.Unbootable, after.BootFails)
		found.add(impact.Mended, before.BootFails)
		found.add(impact.BootChanged, before.Exists && !before.BootFails && !after.BootFails)
	}
	return slices.Sorted(maps.Keys(found))
}

// effects is a set.
type effects map[impact.Effect]bool

func (found effects) add(e impact.Effect, holds bool) {
	if holds {
		found[e] = true
	}
}

func (found effects) ofConfig(was, is *Config) {
	newly := func(status int) bool { return is.Name != "" && is.Status == status && was.Status != status }
	served, wasServed, isSame := is.Status == OK, was.Status == OK, was.Name == is.Name
	found.add(impact.Unreadable, newly(fault.NotAcceptable.Status()))
	found.add(impact.Unserved, newly(fault.Unavailable.Status()))
	found.add(impact.Mended, served && !wasServed && isSame)
	found.add(impact.Stale, is.Stale && !(was.Stale && isSame))
	found.add(impact.Ambiguous, is.Tied && !was.Tied)
	found.add(impact.ContentChanged, served && wasServed && isSame && is.Body != was.Body)
}

func (found effects) ofTypes(before, after *Observed) {
	lost, gained := false, false
	for i := range after.Configs {
		was, is := before.Configs[i].Name, after.Configs[i].Name
		lost, gained = lost || was != "" && is == "", gained || was == "" && is != ""
		found.add(impact.ConfigChanged, was != "" && is != "" && was != is)
	}
	found.add(impact.ConfigChanged, lost && gained)
	found.add(impact.Unmatched, lost && !gained)
	found.add(impact.Mended, gained && !lost && before.Exists)
}
