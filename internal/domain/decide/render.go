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
	// Render returns the config with the rendering instead of its template: Artifact,
	// Hash, ETag and IgnitionVersion, and Stale where it is an earlier rendering. host is
	// the machine, nil where it is no known host; nil facts are those of the host.
	Render(config *snapshot.Config, host *snapshot.Host, facts *template.Facts, asker Asker) (
		*snapshot.Config, *fault.Error)
}

// Asker is the client that waits for a rendering.
type Asker struct {
	// Caller identifies a machine that is no known host, for limits.
	Caller identity.Caller
	// Gone is closed when the client has gone away; nil: never.
	Gone <-chan struct{}
}

// render replaces the template by its rendering for the machine, and chooses the Ignition
// version of the answer.
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

// facts returns the facts of the template. Those of a known host are in its object, so
// that it receives the rendering that was checked before (nil); those of another machine
// are its claims and address.
func (q *configQuestion) facts() *template.Facts {
	if h := q.dec.Host; h != nil && (q.role == "" || q.role == h.Labels[match.RoleLabel]) {
		return nil
	}
	f := &template.Facts{Hostname: q.hostname}
	switch {
	case q.dec.Host != nil:
		f = q.dec.Host.Facts()
	case q.mac != zeroMAC:
		f.MAC = q.mac.String()
	case q.neighbor != zeroMAC:
		f.MAC = q.neighbor.String()
	}
	if q.dec.Host == nil && q.addr.IsValid() {
		f.IP = q.addr.String()
	}
	if q.role != "" {
		labels := map[string]string{}
		maps.Copy(labels, f.Labels)
		labels[match.RoleLabel] = q.role
		f.Labels = labels
	}
	return f
}
