package decide

import (
	"maps"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// Renderer renders templates for machines.
type Renderer interface {
	// Render returns the config with the rendering in the place of its template:
	// Artifact, Hash, ETag and IgnitionVersion, and Stale where it is an earlier
	// rendering. host is the machine, nil where it is no known host; facts are what
	// the template can name, nil: those of the host.
	Render(config *snapshot.Config, host *snapshot.Host, facts *template.Facts, asker Asker) (
		*snapshot.Config, *fault.Error)
}

// Asker is who waits for a rendering.
type Asker struct {
	// Caller is what a machine that is no known host is counted by.
	Caller identity.Caller
	// Gone is closed when it waits no longer; nil: never.
	Gone <-chan struct{}
}

// render puts the rendering for the machine in the place of the template, and chooses
// the spec version that the client is given.
func (q *configQuestion) render() *fault.Error {
	dec := &q.dec
	if q.opts.Renderer == nil {
		return fault.New(fault.Unavailable, "config "+dec.Config.Ref.String()+" is a template, which nothing renders here")
	}
	rendered, err := q.opts.Renderer.Render(dec.Config, dec.Host, q.facts(), Asker{Caller: q.req.Caller, Gone: q.req.Gone})
	if err != nil {
		return err
	}
	dec.Config = rendered
	if rendered.Type != Ignition {
		return nil
	}
	return q.form(q.accept())
}

// facts are what the template can name: of a known host what its object says, so
// that it is given what was checked before it asked (nil); of another machine what
// it brings.
func (q *configQuestion) facts() *template.Facts {
	if h := q.dec.Host; h != nil && (q.role == "" || q.role == h.Labels[match.RoleLabel]) {
		return nil
	}
	var f *template.Facts
	if h := q.dec.Host; h != nil {
		f = h.Facts()
	} else {
		f = &template.Facts{Hostname: q.hostname}
		if q.addr.IsValid() {
			f.IP = q.addr.String()
		}
		switch {
		case q.mac != zeroMAC:
			f.MAC = q.mac.String()
		case q.neighbor != zeroMAC:
			f.MAC = q.neighbor.String()
		}
	}
	if q.role != "" {
		labels := maps.Clone(f.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[match.RoleLabel] = q.role
		f.Labels = labels
	}
	return f
}
