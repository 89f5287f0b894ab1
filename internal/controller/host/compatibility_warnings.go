package host

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// maxNamed bounds the hosts that the answer to a write names.
const maxNamed = 5

// HostWarnings returns the warnings for a host that is being written: the hosts that share
// an address with it, and that its image cannot read its config.
func (c *Compatibility) HostWarnings(host *v1.BareMetalHost) []string {
	var sentences []string
	for _, conflict := range c.opts.Inventory.ConflictsOf(host) {
		sentences = append(sentences, conflict.String())
	}
	// Most hosts name no image; those need not be read for the decision.
	if host.Spec.Image == "" || host.Spec.Image == v1.ImageLocalBoot {
		return sentences
	}
	if h := snapshot.HostFrom(host); h != nil {
		if skew := c.opts.Decider.SkewOf(h); skew != nil {
			sentences = append(sentences, skew.String())
		}
	}
	return sentences
}

// ImageWarnings names the hosts whose config an image that is being written cannot read.
// maxIgnition is the newest Ignition spec version that it reads; "": that is not known.
func (c *Compatibility) ImageWarnings(cdrom *v1.ISCSICdrom, maxIgnition string) []string {
	image := snapshot.ImageFrom(cdrom)
	if image == nil {
		return nil
	}
	image.MaxIgnition = maxIgnition
	return c.warnings(decide.Changed{Image: image})
}

// ConfigWarnings names the hosts whose image cannot read a config that is being written.
func (c *Compatibility) ConfigWarnings(config *v1.IgnitionConfig) []string {
	if config.Spec.Type != v1.TypeIgnition || config.Compiled == nil ||
		!c.opts.Decider.Misread(config.Compiled.IgnitionVersion) {
		return nil
	}
	changed := snapshot.ConfigFrom(config)
	if changed == nil {
		return nil
	}
	return c.warnings(decide.Changed{Config: changed})
}

func (c *Compatibility) warnings(changed decide.Changed) []string {
	var sentences []string
	for i, skew := range c.opts.Decider.Skews(changed, maxNamed+1) {
		if i == maxNamed {
			return append(sentences, "and more hosts; kubectl get bmh -A -o json shows those with the condition "+
				v1.ConditionConfigReadable+"=False")
		}
		sentences = append(sentences, skew.String())
	}
	return sentences
}
