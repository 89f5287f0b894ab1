package decide

import (
	"maps"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// Renderer gives what a template comes to for a machine.
type Renderer interface {
	// Render gives the config with what is rendered in the place of its template:
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

// RenderWith makes the decider render templates. It is to be called before the
// first decision.
func (d *Decider) RenderWith(r Renderer) { d.renderer = r }

// render puts what the template comes to for the machine in the place of the
// template, and chooses the version that the client is given.
func (q *question) render(r Renderer) *fault.Error {
	dec := q.dec
	if r == nil {
		return fault.New(fault.Unavailable, "config "+dec.Config.Ref.String()+" is a template, which nothing renders here")
	}
	rendered, err := r.Render(dec.Config, dec.Host, q.facts(), Asker{Caller: q.req.Caller, Gone: q.req.Gone})
	if err != nil {
		return err
	}
	dec.Config = rendered
	if rendered.Type != Ignition {
		return nil
	}
	accept := ignition.Accept{}
	if q.req.Type == Ignition {
		accept = ignition.ParseAccept(q.req.Accept)
	}
	return q.form(accept)
}

// facts are what the template can name: of a known host what its object says, so
// that it is given what was checked before it asked (nil); of another machine what
// it brings.
func (q *question) facts() *template.Facts {
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

// Assigned gives the config of a type that a host is given when it asks and claims
// nothing; nil: none. The view is the caller's, and so is the room, which is used
// again.
func (d *Decider) Assigned(view snapshot.View, host *snapshot.Host, typ string, room *Decision) *snapshot.Config {
	room.reset()
	room.Host = host
	q := d.question(view, &Request{Type: typ}, room)
	query := q.query(&room.room)
	config, _ := view.Pick(&query)
	return config
}
