package explain

import (
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"

	v1 "glowplug/api/v1"
)

// Reasons of conditions.
const (
	reasonMatched      = "Matched"
	reasonNotCompiled  = "NotCompiled"
	reasonConfigLost   = "ConfigLost"
	reasonOtherType    = "OtherType"
	reasonLocalBoot    = "LocalBoot"
	reasonReady        = "Ready"
	reasonMissing      = "ImageMissing"
	reasonUnavailable  = decide.ReasonImageUnavailable
	reasonReadable     = "Readable"
	reasonIgnitionLate = "IgnitionTooOld"
	reasonStops        = "IgnitionStops"
	reasonPreserved    = "DataPreserved"
)

// ReasonImagePending is the reason of the condition ImageReady while the image of a host is not ready yet, which is no
// error: most images are ready within seconds.
const ReasonImagePending = "ImagePending"

// ReasonNotRendered is the reason of the condition ConfigMatched of a host for which its template cannot be
// rendered.
const ReasonNotRendered = "NotRendered"

// ReasonDestroysData is the reason of the condition DataPreserved, and of its event, while Ignition
// would destroy data.
const ReasonDestroysData = "WouldDestroyData"

// ConditionOf returns the type of the condition that is False for a reason, of which there is an event then; "": there
// is none.
func ConditionOf(reason string) string {
	switch reason {
	case decide.ReasonDuplicate:
		return v1.ConditionIdentityUnique
	case decide.ReasonNoConfig, reasonConfigLost, reasonNotCompiled, reasonOtherType, ReasonNotRendered:
		return v1.ConditionConfigMatched
	case reasonMissing, ReasonImagePending, reasonUnavailable:
		return v1.ConditionImageReady
	case reasonIgnitionLate, reasonStops:
		return v1.ConditionConfigReadable
	}
	return ""
}

// Condition is the value of a condition of a host.
type Condition struct {
	// Type is the name in a status, and Kind the one in the snapshot.
	Type string
	Kind model.Conditions
	// Met is true where the status of the condition is True.
	Met             bool
	Reason, Message string
	// Unknown is true where a template has not been rendered for the host yet: a stored condition that is False
	// for that stays until it is.
	Unknown bool
}

// ConfigMatched returns whether a host, which need not be stored, receives a config without
// claims: an Ignition config or, without one, a kickstart.
func ConfigMatched(d *decide.Decider, view model.View, h *model.Host) Condition {
	c := Condition{Type: v1.ConditionConfigMatched, Kind: model.ConfigMatched}
	config, tier := d.ConfigOf(view, h)
	lost := ""
	if config == nil {
		lost = d.WhyNoConfig()
	}
	switch {
	case lost != "":
		c.Reason, c.Message = reasonConfigLost, lost
	case config == nil:
		c.Reason = decide.ReasonNoConfig
		c.Message = "no IgnitionConfig matches this host; give one a selector that holds for it, or default: true"
		if view.Islands().Has(h.Namespace) {
			c.Message += "; the namespace " + h.Namespace + " is an island, so only its own configs reach this host"
		}
	case len(config.Artifact) == 0:
		c.Reason = reasonNotCompiled
		c.Message = "IgnitionConfig " + config.Ref.String() + " matches by " + tier.String() +
			" and " + decide.Uncompiled(config)
	default:
		failure, known := failureOf(d, config, h)
		c.Met, c.Reason, c.Unknown = true, reasonMatched, !known
		c.Message = "IgnitionConfig " + config.Ref.String() + ", of type " + config.Type + ", matches by " + tier.String()
		if failure != "" {
			c.Met, c.Reason = false, ReasonNotRendered
			c.Message += ", and cannot be rendered for this host: " + failure
		}
	}
	if image := view.Image(h.Image); c.Met && image != nil {
		if other := otherType(d, view, image, h); other != "" {
			c.Met, c.Reason, c.Message = false, reasonOtherType, other
		}
	}
	if mayDependOnIP(view, d.QueryOf(view, h, ""), decide.AnyInstaller, config, tier) {
		c.Message += "; the host's spec has no address, so configs that match by matchIPs are not counted," +
			" and its machine may receive one"
	}
	return c
}

// failureOf returns why a config, if it is a template, cannot be rendered for a host; "": it can, or known is false.
func failureOf(d *decide.Decider, config *model.Config, h *model.Host) (reason string, known bool) {
	cache, ok := d.Renderer().(interface {
		Failure(config *model.Config, host *model.Host) (reason string, known bool)
	})
	if !config.Template || !ok {
		return "", true
	}
	return cache.Failure(config, h)
}

// ImageReady returns whether a host, which need not be stored, can boot its image. It does
// not check whether the kernel arguments of the host can be set in the image.
func ImageReady(d *decide.Decider, view model.View, h *model.Host) Condition {
	c := Condition{Type: v1.ConditionImageReady, Kind: model.ImageReady}
	if h.Image == (model.Ref{}) {
		c.Met, c.Reason, c.Message = true, reasonLocalBoot, "this host boots its disk or a script"
		return c
	}
	image, failure := d.StoredImage(view, h)
	switch {
	case failure == nil:
		c.Met, c.Reason, c.Message = true, reasonReady, "image "+h.Image.String()+" can be booted"
	case image == nil:
		c.Reason, c.Message = reasonMissing, failure.Sentence
	case decide.IsAwaited(image):
		c.Reason, c.Message = ReasonImagePending, failure.Sentence
	default:
		c.Reason, c.Message = reasonUnavailable, failure.Sentence
	}
	return c
}

// DataPreserved returns the condition of a host on whose known disks Ignition destroys data with a
// config; no losses: there is none.
func DataPreserved(config model.Ref, losses []string) Condition {
	c := Condition{Type: v1.ConditionDataPreserved, Kind: model.DataPreserved}
	if len(losses) == 0 {
		c.Met, c.Reason = true, reasonPreserved
		c.Message = "Ignition would destroy no data on the disks of this host, as far as its hardware tells"
		return c
	}
	c.Reason = ReasonDestroysData
	c.Message = "with IgnitionConfig " + config.String() + " Ignition would destroy " + strings.Join(losses, "; ") +
		"; glowplug plan --host shows the plan"
	return c
}

// ConfigReadable returns the condition of a host with a skew; nil: there is none.
func ConfigReadable(skew *Skew) Condition {
	c := Condition{Type: v1.ConditionConfigReadable, Kind: model.ConfigReadable}
	switch {
	case skew == nil:
		c.Met, c.Reason = true, reasonReadable
		c.Message = "no image of this host is known to be too old for the Ignition version of its config, or to stop on it"
	case skew.Stops != "":
		c.Reason, c.Message = reasonStops, skew.String()
	default:
		c.Reason, c.Message = reasonIgnitionLate, skew.String()
	}
	return c
}
