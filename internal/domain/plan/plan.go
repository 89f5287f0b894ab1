// Package plan says what Ignition will do on a machine before the machine boots: for each
// partition, file system, path, user and unit of a config, by the rules of Ignition's operator
// notes and of its source (release 2.26).
package plan

import (
	"fmt"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// Action is what Ignition does with a thing.
type Action string

// The actions. Unknown: the facts do not say what it does.
const (
	Create    Action = "create"
	Reuse     Action = "reuse"
	Resize    Action = "resize"
	Wipe      Action = "wipe"
	Delete    Action = "delete"
	Overwrite Action = "overwrite"
	Append    Action = "append"
	Change    Action = "change"
	Mount     Action = "mount"
	Enable    Action = "enable"
	Disable   Action = "disable"
	Mask      Action = "mask"
	Fetch     Action = "fetch"
	Fail      Action = "fail"
	Unknown   Action = "unknown"
	// Keep: Ignition does nothing with it.
	Keep Action = "keep"
)

// Outcomes of a plan. The first that applies is the outcome.
const (
	// Fails: Ignition would fail on the machine.
	Fails = "fails"
	// Destroys: data would be lost.
	Destroys = "destroys"
	// IsUnknown: the facts do not say what would happen.
	IsUnknown = "unknown"
	// Safe: Ignition destroys no data.
	Safe = "safe"
)

// Plan is what Ignition does with a config on a machine.
type Plan struct {
	// Config and Host are namespace/name, or the name of a file; Host is empty where the plan is
	// for no host. IgnitionVersion is that of the config.
	Config          string `json:"config,omitempty"`
	Host            string `json:"host,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Facts is the kind of document that the disks were read from; empty: none are known.
	Facts string `json:"facts,omitempty"`
	// Outcome is fails, destroys, unknown or safe. The numbers are those of the steps; what is not
	// reached destroys nothing.
	Outcome string `json:"outcome"`
	Fail    int    `json:"fails"`
	Destroy int    `json:"destroys"`
	Unknown int    `json:"unknown"`
	// Devices are the disks of the config with what is done on them, in the order of Ignition, and
	// Machine is what is done with the machine apart from its disks.
	Devices []Device `json:"devices,omitempty"`
	Machine []Step   `json:"machine,omitempty"`
	// Warnings are about the whole config.
	Warnings []string `json:"warnings,omitempty"`
}

// Device is a disk, an array or an encrypted volume, and what is done on it.
type Device struct {
	// Device is its path in the config, Path that of the facts, where it is another.
	Device string `json:"device"`
	Path   string `json:"path,omitempty"`
	// Name is its model and serial number. Size is in bytes; 0 where it is unknown.
	Name string `json:"name,omitempty"`
	Size int64  `json:"size,omitempty"`
	// Before and After are the parts of a disk; empty where they are unknown.
	Before []Part `json:"before,omitempty"`
	After  []Part `json:"after,omitempty"`
	Steps  []Step `json:"steps,omitempty"`
}

// Part is a partition or a free part of a disk. Start and Size are in bytes.
type Part struct {
	// Number is 0 for a free part, and for a disk without a partition table.
	Number int    `json:"number,omitempty"`
	Label  string `json:"label,omitempty"`
	Start  int64  `json:"start"`
	Size   int64  `json:"size"`
	// Content is what it contains, such as: ext4 "data".
	Content string `json:"content,omitempty"`
}

// Step is one thing that Ignition does.
type Step struct {
	Action Action `json:"action"`
	// Kind is what the step is about, such as partition, filesystem, file or user, and Name which.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Detail is how it is made: size, place, mode, target.
	Detail string `json:"detail,omitempty"`
	// Rule says why Ignition does this, as a sentence without a full stop.
	Rule string `json:"rule,omitempty"`
	// Field is the field of the config that decides, such as storage.disks.0.wipeTable.
	Field string `json:"field,omitempty"`
	// Loses are the data that are lost, one entry for a partition, file system or volume.
	Loses []string `json:"loses,omitempty"`
	// NotReached is true where an earlier step fails: Ignition does not execute this step.
	NotReached bool `json:"notReached,omitempty"`
	// Notes are conditions and warnings.
	Notes []string `json:"notes,omitempty"`
	// Steps are done on what this step makes or finds.
	Steps []Step `json:"steps,omitempty"`
}

// MaxConfig bounds the configs that are planned, in bytes of compiled Ignition.
const MaxConfig = 16 << 20

// New returns the plan of a compiled Ignition config on a machine with these disks; nil or
// without disks: they are unknown. It is pure, and the same for the same arguments.
func New(config []byte, facts *disk.Facts) (*Plan, error) {
	if len(config) > MaxConfig {
		return nil, fmt.Errorf("the config is larger than %s", disk.Size(MaxConfig))
	}
	typed, err := ignition.Typed(config)
	if err != nil {
		return nil, err
	}
	if facts == nil {
		facts = &disk.Facts{}
	}
	p := newPlanner(typed, facts)
	result := p.run()
	result.IgnitionVersion = ignition.VersionOf(config)
	result.Facts = facts.Source
	result.conclude()
	return result, nil
}

// conclude counts the steps and sets the outcome.
func (p *Plan) conclude() {
	p.Walk(func(s *Step) {
		switch {
		case s.Action == Fail:
			p.Fail++
		case s.Action == Unknown:
			p.Unknown++
		}
		if len(s.Loses) > 0 && !s.NotReached {
			p.Destroy++
		}
	})
	switch {
	case p.Fail > 0:
		p.Outcome = Fails
	case p.Destroy > 0:
		p.Outcome = Destroys
	case p.Unknown > 0:
		p.Outcome = IsUnknown
	default:
		p.Outcome = Safe
	}
}

// Walk calls f for each step, those of devices first, each before the steps below it.
func (p *Plan) Walk(f func(*Step)) {
	for i := range p.Devices {
		walk(p.Devices[i].Steps, f)
	}
	walk(p.Machine, f)
}

// Losses returns what Ignition destroys, in the order of the steps.
func (p *Plan) Losses() (all []string) {
	p.Walk(func(s *Step) {
		if !s.NotReached {
			all = append(all, s.Loses...)
		}
	})
	return all
}

func walk(steps []Step, f func(*Step)) {
	for i := range steps {
		f(&steps[i])
		walk(steps[i].Steps, f)
	}
}
