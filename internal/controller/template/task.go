package template

import (
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	domaintemplate "glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// task is a template with what it is to be merged over, as it is now.
type task struct {
	config *snapshot.Config
	// source names all that a rendering depends on but the host: the hash of the
	// template and of its layers.
	source string
	// stack is what it is merged over, the lowest first; failure says why that cannot
	// be.
	stack    []*compile.Layer
	failure  string
	warnings []string
}

// task finds the layers of a template.
func (c *Cache) task(config *snapshot.Config) task {
	t := task{config: config, source: config.Hash}
	if config.Installer != "" {
		t.source += " " + config.Installer
	}
	if config.Stack == nil {
		return t
	}
	view := c.inv.View()
	stack, pending, found := compile.Stack(config.Name, config.Stack.Layers, view.Layers(config.Namespace))
	view.End()
	t.stack, t.failure, t.warnings = stack, found.Summary(), found.Warnings().Strings()
	if pending {
		t.failure = "spec.layers: a layer is still being compiled"
	}
	var b strings.Builder
	b.WriteString(t.source)
	for _, layer := range stack {
		b.WriteString(" " + layer.Name + " " + layer.Hash)
		if layer.Failing {
			b.WriteString(" failing")
		}
	}
	if t.failure != "" {
		b.WriteString(" " + t.failure)
	}
	t.source = b.String()
	return t
}

func (t *task) key(facts *domaintemplate.Facts) key {
	return key{source: t.source, format: t.config.Format, facts: facts.Key()}
}

// layers are what it is merged over, for the status.
func (t *task) layers() []v1.LayerStatus {
	var all []v1.LayerStatus
	for _, layer := range t.stack {
		all = append(all, v1.LayerStatus{Name: layer.Name, Hash: layer.Hash, Stale: layer.Failing})
	}
	return all
}

// lay merges what was rendered over the layers.
func (t *task) lay(a *compile.Artifact) (merged *Rendered) {
	laid, found := compile.Lay(t.config.Name, a.Bytes, t.stack)
	if laid == nil {
		return &Rendered{Message: found.Summary()}
	}
	return &Rendered{
		Artifact: laid.Artifact.Bytes, Hash: laid.Artifact.Hash, IgnitionVersion: laid.Artifact.IgnitionVersion,
		Warnings: found.Warnings().Strings(),
		stack:    &snapshot.Stack{Layers: t.config.Stack.Layers, Own: a.Bytes, Merged: t.layers()},
	}
}
