// Package impacttest says, for tests, which effects a change has by what was observed before and
// after it.
package impacttest

import (
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

func (o *Observed) matched() bool { return o.Configs[0].Name != "" || o.Configs[1].Name != "" }

// Effects returns the effects in the order of their names.
func Effects(before, after Observed) []impact.Effect {
	found := map[impact.Effect]bool{}
	switch {
	case !after.Exists && !before.Exists:
		return nil
	case !after.Exists:
		return []impact.Effect{impact.HostDeleted}
	case !before.Exists:
		found[impact.HostAdded] = true
	case before.matched() && !after.matched():
		found[impact.Unmatched] = true
	case !before.matched() && after.matched():
		found[impact.Mended] = true
	}
	if after.Shares && !before.Shares {
		found[impact.Ambiguous] = true
	}
	bothMatch := before.matched() && after.matched()
	for i := range after.Configs {
		addConfig(&before.Configs[i], &after.Configs[i], before.Exists, bothMatch, found)
	}
	switch {
	case before.Boot == after.Boot && before.Exists:
	case after.BootFails && !before.BootFails:
		found[impact.Unbootable] = true
	case !before.Exists:
	case before.BootFails && !after.BootFails:
		found[impact.Mended] = true
	default:
		found[impact.BootChanged] = true
	}
	var all []impact.Effect
	for e := range found {
		all = append(all, e)
	}
	slices.Sort(all)
	return all
}

func addConfig(was, is *Config, existed, bothMatch bool, found map[impact.Effect]bool) {
	newly := func(status int) bool { return is.Name != "" && is.Status == status && was.Status != status }
	served := is.Status == OK
	switch {
	case newly(fault.NotAcceptable.Status()):
		found[impact.Unreadable] = true
	case newly(fault.Unavailable.Status()):
		found[impact.Unserved] = true
	case served && was.Status != OK && was.Name == is.Name:
		found[impact.Mended] = true
	}
	if is.Stale && (!was.Stale || was.Name != is.Name) {
		found[impact.Stale] = true
	}
	if is.Tied && !was.Tied {
		found[impact.Ambiguous] = true
	}
	switch {
	case !existed:
	case is.Name != was.Name && bothMatch:
		found[impact.ConfigChanged] = true
	case is.Name == was.Name && served && was.Status == OK && is.Body != was.Body:
		found[impact.ContentChanged] = true
	}
}
