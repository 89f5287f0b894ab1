package plan

import (
	"fmt"

	"glowplug/internal/domain/ignition"
)

// units plans the units of systemd, as createUnits of Ignition's
// internal/exec/stages/files/units.go writes them: into /etc/systemd/system, and presets for
// those that are enabled or disabled.
func units(list []ignition.Unit, failed bool) []*step {
	var steps []*step
	for i, unit := range list {
		s := planUnit(unit, fmt.Sprintf("systemd.units.%d", i))
		s.NotReached = failed
		for _, below := range s.below {
			below.NotReached = failed
		}
		steps = append(steps, s)
	}
	return steps
}

func planUnit(unit ignition.Unit, field string) *step {
	hasContents := value(unit.Contents) != ""
	s := &step{Step: Step{Kind: "unit", Name: unit.Name, Field: field}}
	switch {
	case value(unit.Mask):
		s.Action, s.Field, s.Rule = Mask, field+".mask", "mask is true: the unit becomes a link to /dev/null, and cannot start"
		if hasContents {
			s.Notes = append(s.Notes, "the contents are written first, and then replaced by the link")
		}
	case hasContents:
		s.Action, s.Rule = Create, "Ignition writes /etc/systemd/system/"+unit.Name+", also over a file of the image"
	case unit.Enabled != nil && *unit.Enabled:
		s.Action, s.Field = Enable, field+".enabled"
	case unit.Enabled != nil:
		s.Action, s.Field = Disable, field+".enabled"
	case len(unit.Dropins) > 0:
		s.Action = Change
	case unit.Mask != nil:
		s.Action, s.Field, s.Rule = Change, field+".mask", "mask is false: Ignition unmasks the unit where the image masks it"
	default:
		s.Action, s.Rule = Keep, "the config says nothing about the unit"
	}
	if enabled := unit.Enabled; enabled != nil {
		s.Detail = map[bool]string{true: "enabled at boot", false: "not enabled at boot"}[*enabled]
	}
	if !hasContents && s.Action != Mask && s.Action != Keep {
		s.Notes = append(s.Notes, "the config has no contents for it: the image needs to have the unit")
	}
	for i, dropin := range unit.Dropins {
		if dropin.Contents == nil {
			continue
		}
		s.below = append(s.below, &step{Step: Step{
			Action: Create, Kind: "drop-in", Name: dropin.Name, Field: fmt.Sprintf("%s.dropins.%d", field, i),
			Rule: "Ignition writes the drop-in, also over a file of the image with its name",
		}})
	}
	return s
}

// kernelArguments plans the kernel arguments, which Ignition changes before all else.
func kernelArguments(config *ignition.Config) []*step {
	var steps []*step
	add := func(action Action, list string, i int, argument ignition.KernelArgument, rule string) {
		steps = append(steps, &step{Step: Step{
			Action: action, Kind: "kernel argument", Name: string(argument),
			Field: fmt.Sprintf("kernelArguments.%s.%d", list, i), Rule: rule,
		}})
	}
	for i, argument := range config.KernelArguments.ShouldExist {
		add(Create, "shouldExist", i, argument, "the machine reboots once if it has to be added")
	}
	for i, argument := range config.KernelArguments.ShouldNotExist {
		add(Delete, "shouldNotExist", i, argument, "the machine reboots once if it has to be removed")
	}
	return steps
}
