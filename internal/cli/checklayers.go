package cli

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/store/snapshot"
)

// checkedConfig is an IgnitionConfig of the files.
type checkedConfig struct {
	doc    *manifest.Document
	places *places
	config *v1.IgnitionConfig
	// layer is the config as a layer of others; its Bytes are nil where they are unknown.
	layer compile.Layer
	own   []byte
	// begun is true once its merge has begun, partial where one of its layers, or of
	// theirs, is not among the files.
	begun, partial bool
	// rendering is of a template.
	rendering rendering
}

func (k *checkedConfig) ref(name string) snapshot.Ref {
	return snapshot.Ref{Namespace: k.config.Namespace, Name: name}
}

// keep stores a config with its artifact, nil where it does not compile.
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
	if ref := k.ref(config.Name); c.configs[ref] == nil {
		c.configs[ref] = k
		c.order = append(c.order, k)
	}
}

// layers merges the configs that have layers, once all files are read.
func (c *checker) layers() error {
	for _, k := range c.order {
		if err := c.merge(k); err != nil {
			return err
		}
	}
	return nil
}

// merge merges a config onto its layers, after their own merges.
func (c *checker) merge(k *checkedConfig) error {
	if k.begun || k.own == nil || len(k.layer.Layers) == 0 {
		return nil
	}
	k.begun = true
	missing := ""
	for _, name := range k.layer.Layers {
		below := c.configs[k.ref(name)]
		if below == nil {
			k.partial, missing = true, name
			continue
		}
		if err := c.merge(below); err != nil {
			return err
		}
		if below.partial {
			k.partial, missing = true, name
		}
	}
	stack, _, found := compile.Stack(k.config.Name, k.layer.Layers, func(name string) *compile.Layer {
		if below := c.configs[k.ref(name)]; below != nil {
			return &below.layer
		}
		return &compile.Layer{Name: name, Type: compile.TypeIgnition, Bytes: []byte("{}")}
	})
	switch {
	case found.HasError():
		k.layer.Bytes = nil
	case k.partial:
		found = append(found, report.Finding{Severity: report.Warning, Message: "layer " + missing +
			" or one of its own layers is not among the files: the merged config was not checked"})
	case k.layer.Template: // it is merged for each host
	default:
		laid, more := compile.Lay(k.config.Name, k.own, stack)
		found = append(found, more...)
		if k.layer.Bytes = nil; laid != nil {
			k.layer.Bytes, k.layer.Hash = laid.Artifact.Bytes, laid.Artifact.Hash
			compile.Judge(laid.Artifact)
			if err := c.printVersions(k.doc.String(), laid.Artifact); err != nil {
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
