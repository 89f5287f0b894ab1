package cli

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
)

// checkedConfig is an IgnitionConfig of the files.
type checkedConfig struct {
	doc    *manifest.Document
	places *places
	ref    model.Ref
	// config is what a server with these files would store. missing is a layer that is not among the files or
	// has an error, or is merged over one like that; "": there is none.
	config  *v1.IgnitionConfig
	missing string
	// rendering is that of a template for its hosts.
	rendering rendering
}

// keep adds a valid object to those that are checked together.
func (c *checker) keep(doc *manifest.Document, p *places, kind *kinds.Kind, object runtime.Object) {
	if c.offline == nil {
		return
	}
	_ = c.offline.Add(kind, object, doc.String()) // its own errors are printed with their places
	config, ok := object.(*v1.IgnitionConfig)
	if !ok {
		return
	}
	ref := model.Ref{Namespace: config.Namespace, Name: config.Name}
	if c.configs[ref] == nil {
		c.configs[ref] = &checkedConfig{doc: doc, places: p, ref: ref}
		c.order = append(c.order, c.configs[ref])
	}
}

// layers merges the configs that have layers, once all files are read.
func (c *checker) layers() error {
	_ = c.offline.Load() // the errors are those of the configs
	for _, k := range c.order {
		k.config, k.missing = c.offline.Config(k.ref)
		if k.config.Compiled == nil || len(k.config.Spec.Layers) == 0 {
			continue
		}
		if k.config.Status.Phase == v1.PhaseReady {
			artifact := &compile.Artifact{Bytes: k.config.Compiled.Artifact, IgnitionVersion: k.config.Compiled.IgnitionVersion}
			compile.Judge(artifact)
			if err := c.printVersions(k.doc.String(), artifact); err != nil {
				return err
			}
		}
		if err := c.print(k.doc.File, k.places.source, k.ofLayers().Tidy()); err != nil {
			return err
		}
	}
	return nil
}

// ofLayers returns the findings about the layers of a config.
func (k *checkedConfig) ofLayers() (found report.Report) {
	add := func(severity report.Severity, message string) {
		if text, ok := strings.CutPrefix(message, compile.OfLayers); ok {
			found = append(found, k.places.finding(severity, "spec.layers", text))
		}
	}
	if k.missing != "" {
		add(report.Warning, compile.OfLayers+"layer "+k.missing+
			", or one of its own layers, is not among the files or has an error: the merged config was not checked")
		return found
	}
	add(report.Error, k.config.Status.ErrorMessage)
	for _, warning := range k.config.Status.Warnings {
		add(report.Warning, warning)
	}
	return found
}
