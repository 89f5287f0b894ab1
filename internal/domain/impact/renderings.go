package impact

import (
	"fmt"
	"strings"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

const (
	// maxRenderings bounds the renderings of templates for one side, each of which takes some
	// milliseconds, and maxRendered their bytes.
	maxRenderings = 256
	maxRendered   = 64 << 20
)

// errNotRendered is the error of a rendering beyond the bound, or after the end of the time.
var errNotRendered = fault.New(fault.Unavailable, "the template was not rendered for this host")

// earlierRendering returns the rendering that a host receives while the newest version of a
// template cannot be rendered for it; nil: there is none.
type earlierRendering func(config *model.Config, host *model.Host) *model.Config

// earlierOf returns the earlier renderings that a server has; nil: it has none.
func earlierOf(d *decide.Decider) earlierRendering {
	if cache, ok := d.Renderer().(interface {
		Earlier(config *model.Config, host *model.Host) *model.Config
	}); ok {
		return cache.Earlier
	}
	return func(*model.Config, *model.Host) *model.Config { return nil }
}

// serverOf returns the URL of the server in its renderings; "": it is not known.
func serverOf(d *decide.Decider) string {
	if cache, ok := d.Renderer().(interface{ Server() string }); ok {
		return cache.Server()
	}
	return ""
}

// renderings renders the templates of a view. It implements decide.Renderer.
type renderings struct {
	view model.View
	// server is the URL of the server.
	server string
	// ended reports whether nobody waits for the impact any more.
	ended   func() bool
	earlier earlierRendering
	// vault has the values of Secrets, of which the renderings of the configs in changed may have others on
	// the other side; nil: placeholders stand for all values.
	vault   Vault
	changed map[model.Ref]bool
	parsed  map[*model.Config]*compile.Template
	done    map[string]*rendered
	bytes   int // of all that is done
	// lastKey is the key of the last rendering.
	lastKey string
}

func newRenderings(view model.View, ended func() bool, earlier earlierRendering) *renderings {
	return &renderings{
		view: view, ended: ended, earlier: earlier,
		parsed: map[*model.Config]*compile.Template{}, done: map[string]*rendered{},
	}
}

// Render implements decide.Renderer.
func (r *renderings) Render(config *model.Config, host *model.Host, facts *template.Facts, asker decide.Asker) (
	*model.Config, *fault.Error) {
	if facts == nil {
		facts = host.Facts()
	}
	r.lastKey = r.key(config, facts)
	made, known := r.done[r.lastKey]
	if !known {
		if len(r.done) == maxRenderings || r.bytes > maxRendered {
			return nil, errNotRendered
		}
		if made = r.render(config, facts); r.ended() {
			return nil, errNotRendered
		}
		r.bytes += sizeOf(made.masked) + sizeOf(made.revealed)
		r.done[r.lastKey] = made
	}
	const cannot = ", a template, cannot be rendered for this host"
	switch {
	case made.masked == nil:
		if host != nil {
			// No machine receives an earlier rendering with Secrets.
			if earlier := r.earlier(config, host); earlier != nil && len(earlier.Secrets) == 0 {
				return earlier, nil
			}
		}
		return nil, fault.New(fault.Unavailable, "config "+config.Ref.String()+cannot)
	case made.reason != "":
		return nil, fault.New(fault.Unavailable, "config "+config.Ref.String()+cannot+": "+made.reason)
	}
	out := *config
	out.Template, out.Artifact, out.Hash = false, made.masked.Bytes, made.masked.Hash
	out.IgnitionVersion, out.Secrets = made.masked.IgnitionVersion, made.named
	if asker.Reveal && made.revealed != nil {
		out.Artifact, out.IgnitionVersion, out.Revealed = made.revealed.Bytes, made.revealed.IgnitionVersion, true
		out.ETag = made.revealed.Hash
	}
	return &out, nil
}

func sizeOf(a *compile.Artifact) int {
	if a == nil {
		return 0
	}
	return len(a.Bytes)
}

// key identifies all that a rendering is made of: the template, its layers, the facts and the Secrets.
func (r *renderings) key(config *model.Config, facts *template.Facts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s %x", config.Ref, config.Hash, config.Format, config.Installer, facts.Key())
	if config.Stack != nil {
		for _, name := range config.Stack.Layers {
			layer := r.view.Config(model.Ref{Namespace: config.Namespace, Name: name})
			if layer == nil {
				fmt.Fprintf(&b, " %s", name)
				continue
			}
			fmt.Fprintf(&b, " %s %s %t", name, layer.Hash, layer.Template)
		}
	}
	if r.changed[config.Ref] {
		fmt.Fprintf(&b, " %p", r) // the Secrets of this side
	}
	return b.String()
}

// render returns the result for a host with these facts.
func (r *renderings) render(config *model.Config, facts *template.Facts) *rendered {
	made := &rendered{}
	made.masked = r.execute(config, facts.Recording(&made.named))
	if made.masked != nil && len(made.named) > 0 && r.vault != nil {
		r.reveal(made, config, facts)
	}
	return made
}

// execute renders a template once; nil: that fails, or the time is over.
func (r *renderings) execute(config *model.Config, facts *template.Facts) (artifact *compile.Artifact) {
	defer func() {
		if recover() != nil { // of the library, on this template
			artifact = nil
		}
	}()
	within := *facts
	within.Ended, within.Server = r.ended, r.server
	parsed, known := r.parsed[config]
	if !known {
		parsed, _ = config.ParseTemplate()
		r.parsed[config] = parsed
	}
	if parsed == nil || r.ended() {
		return nil
	}
	made := parsed.Render(&within)
	if config.Stack != nil {
		made.LayOver(config.Name, config.Stack.Layers, r.view.Layers(config.Namespace))
	}
	if made.Artifact == nil || len(made.Artifact.Bytes) == 0 {
		return nil
	}
	return made.Artifact
}

// lastRendering returns what a host receives on this side where it receives a template with the
// same UID; else an earlier rendering.
func (s *side) lastRendering(config *model.Config, host *model.Host) *model.Config {
	was, h := s.view.Config(config.Ref), s.view.Host(host.Ref)
	if was != nil && h != nil && was.UID == config.UID && h.UID == host.UID && was.Type == config.Type && was.Template &&
		s.decider.Assigned(s.view, h, was.Type) == was {
		if served, err := s.renderings.Render(was, h, nil, decide.Asker{}); err == nil {
			out := *served
			out.Stale = true
			return &out
		}
	}
	return s.renderings.earlier(config, host)
}
