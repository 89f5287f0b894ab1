package app

import (
	"fmt"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/store/snapshot"
)

// ConfigReadable implements skew.Journal.
func (l lateJournal) ConfigReadable(host *snapshot.Host, sentence string) {
	l.app.journal.ConfigReadable(host, sentence)
}

// fewSkews is how many hosts the answer to a write names.
const fewSkews = 5

// hostWarnings says what is wrong with a host that is being written: with whom it
// shares an address, and that its image cannot read its config.
func (a *App) hostWarnings(host *v1.BareMetalHost) []string {
	var sentences []string
	for _, c := range a.inventory.ConflictsOf(host) {
		sentences = append(sentences, c.String())
	}
	// Most hosts name no image; those need not be read for the decision.
	if host.Spec.Image == "" || host.Spec.Image == v1.ImageLocalBoot {
		return sentences
	}
	if h := snapshot.HostFrom(host); h != nil {
		if s := a.decider.SkewOf(h); s != nil {
			sentences = append(sentences, s.String())
		}
	}
	return sentences
}

// imageWarnings names the hosts whose config an image that is being written cannot
// read.
func (a *App) imageWarnings(cdrom *v1.ISCSICdrom) []string {
	image := snapshot.ImageFrom(cdrom)
	if image == nil {
		return nil
	}
	image.MaxIgnition = a.imageController.MaxIgnition(cdrom)
	return a.skews(decide.Changed{Image: image})
}

// configWarnings names the hosts whose image cannot read a config that is being
// written.
func (a *App) configWarnings(config *v1.IgnitionConfig) []string {
	if config.Spec.Type != v1.TypeIgnition || config.Compiled == nil {
		return nil
	}
	c := snapshot.ConfigFrom(config)
	if c == nil || c.Servable.Reads(ignition.Oldest) && c.Servable.Reads("3.0.0") {
		return nil
	}
	return a.skews(decide.Changed{Config: c})
}

func (a *App) skews(changed decide.Changed) []string {
	found := a.decider.Skews(changed, fewSkews+1)
	var sentences []string
	for i, s := range found {
		if i == fewSkews {
			sentences = append(sentences, fmt.Sprintf("and more hosts; kubectl get bmh -A -o json shows those with the condition %s=False", v1.ConditionConfigReadable))
			break
		}
		sentences = append(sentences, s.String())
	}
	return sentences
}
