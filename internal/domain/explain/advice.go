package explain

import (
	"fmt"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// Advice is about a valid object that its author probably did not mean as it is.
type Advice struct {
	// Field is the field that it is about, such as spec.image.
	Field, Message string
}

func (a Advice) String() string { return a.Field + ": " + a.Message }

// Texts returns the texts of the elements of a list; nil: there are none.
func Texts[T fmt.Stringer](list []T) (texts []string) {
	for _, one := range list {
		texts = append(texts, one.String())
	}
	return texts
}

// AdviseHost returns the advice about a host by itself.
func AdviseHost(d *decide.Decider, h *model.Host) (advice []Advice) {
	if reason := decide.Unrecognised(d, h); reason != "" {
		advice = append(advice, Advice{"spec", reason})
	}
	if netaddr.IsPlaceholderUUID(h.UUID) {
		advice = append(advice, Advice{"spec.systemUUID", "many machines report this UUID, since their vendor has set " +
			"none of their own: it identifies no machine; leave it out"})
	}
	if image := d.View().Image(h.Image); image != nil {
		if reason := noInstallation(image, h); reason != "" {
			advice = append(advice, Advice{"spec.rootDeviceHints", reason})
		}
	}
	if view := d.View(); view.Limits(h).Token && !view.HasScript(h) {
		advice = append(advice, Advice{"spec.provisioning.token", "the machine gets no token, and without it no " +
			"config: it boots its disk; set image or ipxe, or token: false"})
	}
	return advice
}

// AdviseImage returns the advice about the image of a host, which need not be stored. isMissing
// says where there is no such image. Of an image that the store has lost it says the same as the
// condition ImageReady.
func AdviseImage(d *decide.Decider, view model.View, h *model.Host, isMissing string) []Advice {
	if h.Image == (model.Ref{}) || view.Image(h.Image) != nil {
		return nil
	}
	if failure := d.MissingImage(h.Image); failure != nil {
		return []Advice{{"spec.image", failure.Sentence}}
	}
	return []Advice{{"spec.image", "ISCSICdrom " + h.Image.String() + " " + isMissing +
		": the machine cannot boot it until it exists"}}
}

// AdviseArguments returns the advice about kernel arguments for an image, its own or those of a host, that can be set
// in no image. A nil image is not known.
func AdviseArguments(image *model.Image, args []string) []Advice {
	if image == nil || image.External != nil || image.PXE {
		return nil
	}
	if err := iso.CheckArguments(args); err != nil {
		return []Advice{{"spec.kernelArgs", err.Error() + ". With it the image cannot be booted"}}
	}
	return nil
}

// AdviseImageChange returns the advice about a host whose image is another one than before:
// what boots its disk does not boot the new image.
func AdviseImageChange(h *model.Host) (advice []Advice) {
	if h.Image == (model.Ref{}) {
		return nil
	}
	if armed, reason := decide.Armed(h, h.Progress); !armed {
		advice = append(advice, Advice{"spec.image", "the machine goes on to boot its disk and not the new image: " + reason})
	}
	return advice
}

// AdviseConfig returns the advice about a config, which need not be stored: of the configs
// of its namespace with the same selector only one is served.
func AdviseConfig(view model.View, config *model.Config) (advice []Advice) {
	if other := view.Tied(config); other != nil {
		advice = append(advice, Advice{"spec.selector", "IgnitionConfig " + other.Ref.String() +
			" has the same selector: for a machine that both match the older one counts"})
	}
	return advice
}

// Tie returns two configs that a host matches equally, where their age decides; nil: it
// receives its config for a better reason.
func Tie(d *decide.Decider, view model.View, h *model.Host) (served, other *model.Config) {
	config, _ := d.ConfigOf(view, h)
	if config == nil {
		return nil, nil
	}
	without := view.With(&model.Changes{Configs: map[model.Ref]*model.Config{config.Ref: nil}})
	if other = RunnerUp(d, without, h, config); other == nil {
		return nil, nil
	}
	return config, other
}

// RunnerUp returns the config that a host would receive without its present one, if only their age decides
// between the two; nil: there is none. without is the view without the present config.
func RunnerUp(d *decide.Decider, without model.View, h *model.Host, config *model.Config) *model.Config {
	query := d.QueryOf(without, h, config.Type)
	if other, tier := without.Pick(&query); other != nil && model.MatchEqually(&query, config, other, tier) {
		return other
	}
	return nil
}
