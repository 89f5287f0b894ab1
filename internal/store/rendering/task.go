package rendering

import (
	"fmt"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// Task is a template with its layers as they are now.
type Task struct {
	config *model.Config
	// Source identifies the template and its layers by their hashes: the input of a
	// rendering without the host.
	Source string
	// stack are the layers, the lowest first.
	stack []*compile.Layer
	// Failure says why the layers cannot be merged; "": they can.
	Failure string
	// Warnings are of the layers.
	Warnings []string
}

// Task finds the layers of a template.
func (c *Cache) Task(config *model.Config) Task {
	t := Task{config: config, Source: config.Hash}
	if config.Installer != "" {
		t.Source += " " + config.Installer
	}
	if config.Stack == nil {
		return t
	}
	view := c.opts.Inventory.View()
	stack, pending, found := compile.Stack(config.Name, config.Stack.Layers, view.Layers(config.Namespace))
	t.stack, t.Failure, t.Warnings = stack, found.Summary(), found.Warnings().Strings()
	if pending {
		t.Failure = compile.OfLayers + "a layer is still being compiled"
	}
	var b strings.Builder
	b.WriteString(t.Source)
	for _, layer := range stack {
		b.WriteString(" " + layer.Name + " " + layer.Hash)
		if layer.Failing {
			b.WriteString(" failing")
		}
	}
	if t.Failure != "" {
		b.WriteString(" " + t.Failure)
	}
	t.Source = b.String()
	return t
}

// Version returns the version of the task's result for a host that claims nothing.
func (t *Task) Version(host *model.Host) Version { return t.version(host.Facts()) }

func (t *Task) version(facts *template.Facts) Version {
	return Version{source: t.Source, format: t.config.Format, facts: facts.Key()}
}

// Layers returns the layers, for a status.
func (t *Task) Layers() []v1.LayerStatus {
	var all []v1.LayerStatus
	for _, layer := range t.stack {
		all = append(all, v1.LayerStatus{Name: layer.Name, Hash: layer.Hash, Stale: layer.Failing})
	}
	return all
}

// layOver merges a rendering onto the layers.
func (t *Task) layOver(a *compile.Artifact) (merged *Result) {
	laid, found := compile.Lay(t.config.Name, a.Bytes, t.stack)
	if laid == nil {
		return &Result{Message: found.Summary()}
	}
	return &Result{
		Artifact: laid.Artifact.Bytes, Hash: laid.Artifact.Hash, IgnitionVersion: laid.Artifact.IgnitionVersion,
		Warnings: found.Warnings().Strings(),
		stack:    &model.Stack{Layers: t.config.Stack.Layers, Own: a.Bytes, Merged: t.Layers()},
	}
}

// execute renders and compiles. A panic is an error of this result alone.
func (c *Cache) execute(task *Task, facts *template.Facts) (r *Result) {
	defer func() {
		if failure := recover(); failure != nil {
			r = &Result{Message: fmt.Sprintf("rendering it failed: %.200v; please report this", failure)}
		}
	}()
	if task.Failure != "" {
		return &Result{Message: task.Failure}
	}
	t, failed := c.parse(task.config)
	if t == nil {
		return &Result{Message: failed}
	}
	var named []template.SecretKey
	here := *facts
	here.Server = c.opts.Server
	if here.Secret == nil {
		here = *here.Recording(&named)
	}
	made := c.opts.Render(t, &here)
	if made.Artifact == nil {
		return &Result{Message: made.Message()}
	}
	a := made.Artifact
	r = &Result{Artifact: a.Bytes, Hash: a.Hash, IgnitionVersion: a.IgnitionVersion}
	if task.config.Stack != nil {
		r = task.layOver(a)
	}
	r.Secrets = named
	switch {
	case r.Message != "":
		return r
	case len(r.Artifact) == 0:
		return &Result{Message: "the rendered text is empty"}
	}
	r.ETag = `"` + r.Hash + `"`
	r.Warnings = append(made.Warnings(), r.Warnings...)
	return r
}

// parse returns a config's template, or why it cannot be parsed.
func (c *Cache) parse(config *model.Config) (*compile.Template, string) {
	key := config.Format + " " + config.Installer + " " + config.Hash
	c.mu.Lock()
	t := c.parsed.get(key)
	c.mu.Unlock()
	if t != nil {
		return t, ""
	}
	t, found := config.ParseTemplate()
	if t == nil {
		return nil, found.Summary()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parsed.put(key, t, len(config.Artifact))
	return t, ""
}
