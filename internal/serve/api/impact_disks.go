package api

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
)

// maxPlanned bounds the hosts whose plans are compared: each takes some milliseconds.
const maxPlanned = 32

// disks compares the plans of the hosts that receive other bytes; nil: the disks of none of them
// are known.
func (p *impacts) disks(ctx context.Context, result *impact.Impact) *impact.Disks {
	found := &impact.Disks{}
	for _, h := range result.Inspected() {
		if found.Known++; found.Planned == maxPlanned || ctx.Err() != nil {
			continue
		}
		facts := p.factsOf(ctx, h)
		if facts == nil {
			continue
		}
		found.Planned++
		before, after := result.Bytes(h)
		if loses := impact.LossesOf(before, after, facts); len(loses) > 0 {
			found.Hosts = append(found.Hosts, impact.Loss{Host: h.String(), Loses: loses})
		}
	}
	if found.Known == 0 {
		return nil
	}
	return found
}

// factsOf returns the disks of a host; nil: they are not known.
func (p *impacts) factsOf(ctx context.Context, ref model.Ref) *disk.Facts {
	host := &v1.BareMetalHost{}
	err := p.opts.Stores[kinds.BareMetalHosts].Get(ctx, "/"+kinds.BareMetalHosts+"/"+ref.String(),
		storage.GetOptions{ResourceVersion: "0"}, host)
	if err != nil || host.Status.Hardware == nil {
		return nil
	}
	facts, err := disk.OfHardware(host.Status.Hardware)
	if err != nil {
		return nil
	}
	return facts
}

// warnLosses returns the warning of what is lost; "": nothing is. It names only hosts for which nameable
// is true.
func warnLosses(d *impact.Disks, nameable func(host string) bool) string {
	if d == nil || len(d.Hosts) == 0 {
		return ""
	}
	var names []string
	for _, h := range d.Hosts {
		if nameable(h.Host) {
			names = append(names, h.Host+": "+strings.Join(h.Loses, "; "))
		}
	}
	more := ""
	if d.Known > d.Planned {
		more = fmt.Sprintf("; the disks of %d more were not compared", d.Known-d.Planned)
	}
	return fmt.Sprintf("impact on %d of %d hosts whose disks are known: Ignition would destroy data (%s); "+
		"glowplug plan --host NAMESPACE/NAME shows it%s", len(d.Hosts), d.Planned, first(names, maxWarned, len(d.Hosts)), more)
}
