package cli

import (
	"fmt"
	"io"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/plan"
	"glowplug/internal/domain/report"
)

// planned reads the disks that configs are planned on; nil: none are planned.
func (o *diskOptions) planned(plans bool, stdin io.Reader) (*disk.Facts, error) {
	facts, err := o.facts(stdin)
	switch {
	case err != nil:
		return nil, err
	case plans && facts == nil:
		return nil, usagef("--plan needs to know the disks: give --disks or --blank")
	case !plans && facts != nil:
		return nil, usagef("--disks and --blank are for --plan")
	}
	return facts, nil
}

// planAll plans the configs of the objects, merged over their layers.
func (c *checker) planAll() error {
	for _, k := range c.order {
		if k.config.Status.Phase != v1.PhaseReady || k.config.Spec.Type != compile.TypeIgnition {
			continue
		}
		var placed report.Report
		for _, f := range c.planned(k.config.Compiled.Artifact) {
			placed = append(placed, k.places.finding(f.Severity, "spec.config", f.Message))
		}
		if err := c.print(k.doc.File, k.places.source, placed.Tidy()); err != nil {
			return err
		}
	}
	return nil
}

// planned returns what the plan of a config on the disks finds: an error for what fails, and
// warnings of data that is lost and of what is unknown.
func (c *checker) planned(config []byte) report.Report {
	if c.disks == nil {
		return nil
	}
	result, err := plan.New(config, c.disks)
	if err != nil {
		return report.Errorf("the config cannot be planned: %v", err)
	}
	var found report.Report
	add := func(severity report.Severity, s *plan.Step, format string, args ...any) {
		found = append(found, report.Finding{Severity: severity, Message: fmt.Sprintf(format, args...) + " [" + s.Field + "]"})
	}
	unknown := ""
	result.Walk(func(s *plan.Step) {
		if s.Action == plan.Fail {
			add(report.Error, s, "Ignition would fail on these disks: %s %s: %s", s.Kind, s.Name, s.Rule)
		}
		if len(s.Loses) > 0 && !s.NotReached {
			add(report.Warning, s, "Ignition would destroy data on these disks: %s", strings.Join(s.Loses, "; "))
		}
		if s.Action == plan.Unknown && s.Rule != unknown { // one warning for consecutive steps of one reason
			unknown = s.Rule
			add(report.Warning, s, "the plan is incomplete: %s %s: %s", s.Kind, s.Name, s.Rule)
		}
	})
	return found
}
