package cli

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/store/snapshot"
)

// checkedConfig is an IgnitionConfig of the files, for those that it is a layer of.
type checkedConfig struct {
	doc    *manifest.Document
	places *places
	config *v1.IgnitionConfig
	// layer is what it is served as; its Bytes are nil where that is not known.
	layer compile.Layer
	own   []byte
	// begun and partial: it was merged, or is being; and something under it is not
	// among the files.
	begun, partial bool
}

// keep remembers a config with what it compiles to, nil where it does not.
func (c *checker) keep(doc *manifest.Document, p *places, config *v1.IgnitionConfig, artifact *compile.Artifact,
	found report.Report) {
	k := &checkedConfig{doc: doc, places: p, config: config}
	k.layer = compile.Layer{Name: config.Name, Type: config.Spec.Type, Failing: artifact == nil, Failure: found.Summary()}
	for _, layer := range config.Spec.Layers {
		k.layer.Layers = append(k.layer.Layers, layer.Name)
	}
	if artifact != nil {
		k.own, k.layer.Bytes, k.layer.Hash = artifact.Bytes, artifact.Bytes, artifact.Hash
		k.layer.Template = artifact.Template
	}
	if c.configs == nil {
		c.configs = map[string]*checkedConfig{}
	}
	if key := config.Namespace + "/" + config.Name; c.configs[key] == nil {
		c.configs[key] = k
		c.order = append(c.order, k)
	}
}

// layers merges the configs that have layers, once all files are read, and says what
// stands in the way.
func (c *checker) layers() error {
	for _, k := range c.order {
		if err := c.lay(k); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) lay(k *checkedConfig) error {
	if k.begun || k.own == nil || len(k.layer.Layers) == 0 {
		return nil
	}
	k.begun = true
	missing := ""
	for _, name := range k.layer.Layers {
		below := c.configs[k.config.Namespace+"/"+name]
		if below == nil {
			k.partial, missing = true, name
			continue
		}
		if err := c.lay(below); err != nil {
			return err
		}
		if below.partial {
			k.partial, missing = true, name
		}
	}
	stack, _, found := compile.Stack(k.config.Name, k.layer.Layers, func(name string) *compile.Layer {
		if below := c.configs[k.config.Namespace+"/"+name]; below != nil {
			return &below.layer
		}
		return &compile.Layer{Name: name, Type: compile.TypeIgnition, Bytes: []byte("{}")}
	})
	switch {
	case found.HasError():
		k.layer.Bytes = nil
	case k.partial:
		found = append(found, report.Finding{Severity: report.Warning,
			Message: "layer " + missing +
				" is not among the files, or not all that lies under it: the merged config was not checked"})
		if t := c.templates[snapshot.Ref{Namespace: k.config.Namespace, Name: k.config.Name}]; t != nil {
			t.partial = true
		}
	case k.layer.Template: // it is merged for each host
	default:
		laid, more := compile.Lay(k.config.Name, k.own, stack)
		found = append(found, more...)
		if k.layer.Bytes = nil; laid != nil {
			k.layer.Bytes, k.layer.Hash = laid.Artifact.Bytes, laid.Artifact.Hash
			compile.Judge(laid.Artifact)
			if err := c.servable(k.doc.String(), laid.Artifact); err != nil {
				return err
			}
		}
	}
	k.layer.Failing, k.layer.Failure = found.HasError(), found.Summary()
	var placed report.Report
	for _, f := range found {
		at := k.places.finding("spec.layers", f.Message)
		at.Severity = f.Severity
		placed = append(placed, at)
	}
	return c.print(k.doc.File, k.places.source, placed.Tidy())
}
