package decide

import (
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

const (
	// ConfigGap ends a boot of a machine that receives no script here: a config request
	// later than this after the previous one is of a new boot. Ignition's own retries
	// come sooner.
	ConfigGap = 2 * time.Minute
	// ScriptGap is the same for scripts: iPXE's own retries, and those of a machine whose
	// first network card finds nothing to boot, come sooner. After a config request every
	// script request is of a new boot.
	ScriptGap = 10 * time.Second
)

// Step is a step of a boot.
type Step uint8

// The steps.
const (
	// ImageStep: the machine received the script that boots its image, or its own.
	ImageStep Step = iota
	// AgainStep: the same after a failed boot, for the script that every machine starts
	// with.
	AgainStep
	// DiskStep: it received the script that boots its disk.
	DiskStep
	// ConfigStep: it received its config.
	ConfigStep
	// CompleteStep: it reported that its installation is complete.
	CompleteStep
	// FailStep: it received an error, since its image or its script is not available.
	FailStep
)

// scriptStep returns the step of a machine that receives the script that boots its image, again in the same
// boot or not.
func scriptStep(again bool) Step {
	if again {
		return AgainStep
	}
	return ImageStep
}

// Armed reports whether a host boots its image or script now, and the reason: with
// bootMode once until it is provisioned, with forever always. A boot that has not reached
// the config does not count.
func Armed(h *model.Host, p model.Progress) (armed bool, reason string) {
	const rearm = " (a new value of the annotation " + v1.AnnotationRearm + " arms it again)"
	b := h.Booting()
	switch {
	case b.Forever:
		return true, "bootMode is forever"
	case isRearmed(h, &p):
		return true, "it was armed again by the annotation " + v1.AnnotationRearm
	case p.State == v1.StateProvisioned:
		return false, "it is provisioned" + rearm
	case p.State == v1.StateProvisioning:
		return false, "it was given its config in an earlier boot" + rearm
	}
	return true, "bootMode is once, and it is not provisioned yet"
}

// Advance returns the progress of a host after a step; began is true where the
// step is the first of a new boot.
func Advance(h *model.Host, p model.Progress, step Step, at time.Time) (next model.Progress, began bool) {
	began = beginsBoot(p, step, at)
	p.Window = useWindow(h, &p, step, at)
	p.State = stateAfter(h, p.State, step, began)
	switch step {
	case ImageStep, AgainStep:
		p.Script, p.Rearmed = at, h.Booting().Rearm
	case DiskStep:
		p.Script = at
	case CompleteStep:
		if hasTakenEffect(h, &p) {
			p.Rearmed = h.Booting().Rearm
		}
	}
	// Later steps are compared with Seen, which never goes back: a clock may have been
	// set, and that of another server may be ahead.
	if at.After(p.Seen) {
		p.Seen = at
	}
	if began {
		p.Boot = at
		p.Boots++
	}
	return p, began
}

// hasTakenEffect reports whether the annotation that arms a host has taken effect although no script says
// so: the boot of a machine without scripts began after it was written. Times of arming have whole seconds.
func hasTakenEffect(h *model.Host, p *model.Progress) bool {
	return p.Script.IsZero() && (p.Boot.IsZero() || !h.ArmedAt().After(p.Boot.Add(time.Second)))
}

// beginsBoot reports whether a step is the first of a new boot.
func beginsBoot(p model.Progress, step Step, at time.Time) bool {
	switch step {
	case ImageStep:
		return p.State != v1.StateBooting || apart(p.Script, at, ScriptGap)
	case AgainStep:
		return p.State != v1.StateBooting
	case DiskStep:
		return p.State == v1.StateProvisioning || p.Script.IsZero() || apart(p.Script, at, ScriptGap)
	case ConfigStep:
		// Where a machine receives scripts, they mark the beginning of a boot.
		return p.Script.IsZero() && (p.Seen.IsZero() || apart(p.Seen, at, ConfigGap))
	}
	return false
}

// stateAfter returns the state of a host after a step.
func stateAfter(h *model.Host, state string, step Step, began bool) string {
	given := state == v1.StateProvisioning || state == v1.StateProvisioned
	switch {
	case step == ImageStep || step == AgainStep:
		return v1.StateBooting
	case step == DiskStep && state == v1.StateProvisioning, step == CompleteStep:
		return v1.StateProvisioned
	case step == DiskStep && state == v1.StateError: // it wants no image any more
		return v1.StateAvailable
	case step == ConfigStep && (began || state != v1.StateProvisioned):
		return v1.StateProvisioning
	// A host that was armed again stays provisioned: without the annotation it boots its
	// disk.
	case step == FailStep && (h.Booting().Forever || !given):
		return v1.StateError
	}
	return state
}

// apart reports whether two times are of two boots. The clock may have been set back.
func apart(before, after time.Time, gap time.Duration) bool { return after.Sub(before).Abs() > gap }

// Same reports whether two states lead to the same next boot. A state that does not is stored within a second.
func Same(a, b model.Progress) bool {
	return a.State == b.State && a.Rearmed == b.Rearmed && a.Boots == b.Boots && sameWindow(a.Window, b.Window)
}
