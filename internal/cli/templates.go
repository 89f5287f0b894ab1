package cli

import (
	"fmt"
	"io"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/app"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/template"
	"glowplug/internal/manifest"
)

// maxFailing bounds the hosts whose failures are shown for one template.
const maxFailing = 10

// rendering is the rendering of a template for the hosts in the files.
type rendering struct {
	hosts, failing int
	// warned is true once a host had warnings: mostly all hosts have the same.
	warned bool
	found  report.Report
}

// renderAll renders the templates for the hosts in the files.
func (c *checker) renderAll(files []string) error {
	templates := slices.DeleteFunc(slices.Clone(c.order), func(k *checkedConfig) bool { return !k.layer.Template })
	if len(templates) == 0 {
		return nil
	}
	manifests := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		return !hasExtension(name, manifestFiles...)
	})
	err := app.RenderManifests(func(r *app.HostRendering) {
		if k := c.configs[r.Config]; k != nil {
			k.addRendering(r)
		}
	}, manifests...)
	if err != nil {
		return fileError(err)
	}
	for _, k := range templates {
		r := &k.rendering
		what := fmt.Sprintf("a template, rendered for %s", count(r.hosts, "host", "hosts"))
		switch {
		case r.hosts == 0 && c.broken["BareMetalHost"]:
			what = "a template, for none of the hosts without an error in these files"
		case r.hosts == 0 && len(k.config.Spec.Selector.MatchIPs) > 0:
			what = "a template with matchIPs, for none of the addresses of the hosts in these files"
		case r.hosts == 0:
			what = "a template, for none of the hosts in these files"
		case r.failing > 0:
			what = fmt.Sprintf("a template, rendered for %d of %s", r.hosts-r.failing, count(r.hosts, "host", "hosts"))
		}
		if _, err := fmt.Fprintf(c.stdout, "%s: %s\n", k.doc.String(), what); err != nil {
			return err
		}
		if r.failing > maxFailing {
			r.found = append(r.found, k.places.finding("spec.config", fmt.Sprintf("and it fails for %d more hosts",
				r.failing-maxFailing)))
		}
		if err := c.print(k.doc.File, k.places.source, r.found.Tidy()); err != nil {
			return err
		}
	}
	return nil
}

// addRendering adds the rendering of a template for one host.
func (k *checkedConfig) addRendering(r *app.HostRendering) {
	t := &k.rendering
	t.hosts++
	if r.Artifact != nil {
		k.addWarnings(r)
		return
	}
	if k.partial && compile.IsOfLayers(r.Message()) {
		return
	}
	if t.failing++; t.failing > maxFailing {
		return
	}
	host := "for host " + r.Host.String() + ": "
	if r.Text == nil {
		found := slices.Clone(r.Found)
		for i := range found {
			found[i].Message = host + found[i].Message
		}
		t.found = append(t.found, k.places.inConfig(found, k.config.Spec.Config)...)
		return
	}
	f := k.places.finding("spec.config", host+r.Message())
	f.Hint = "glowplug compile --template --host, with a file of the template alone, shows the line of the rendered text"
	t.found = append(t.found, f)
}

// addWarnings adds the warnings of the first host that has some, as the status of the config
// does.
func (k *checkedConfig) addWarnings(r *app.HostRendering) {
	warnings := r.Warnings()
	if k.rendering.warned || len(warnings) == 0 {
		return
	}
	k.rendering.warned = true
	for _, warning := range warnings {
		f := k.places.finding("spec.config", "for host "+r.Host.String()+": "+warning)
		f.Severity = report.Warning
		k.rendering.found = append(k.rendering.found, f)
	}
}

// compileTemplate is compile with --template: hostFile is a manifest with the host, ""
// to check the template alone.
func compileTemplate(stdout, stderr io.Writer, name, hostFile string, src compile.Source) error {
	src.Template = true
	t, found := compile.ParseTemplate(src)
	if err := printReport(stderr, name, []byte(src.Config), found); err != nil {
		return err
	}
	if t == nil {
		return errSilent
	}
	if hostFile == "" {
		_, err := fmt.Fprintf(stderr, "%s: a template with valid syntax; --host HOST.yaml renders it for a host\n", name)
		return err
	}
	host, err := hostOf(hostFile)
	if err != nil {
		return err
	}
	facts := host.Facts()
	facts.Server = template.PlaceholderServer
	rendered := t.Render(facts)
	text := []byte(src.Config)
	if rendered.Text != nil {
		text, name = rendered.Text, name+" rendered for "+host.Ref.String()
	}
	if err := printReport(stderr, name, text, rendered.Found); err != nil {
		return err
	}
	if rendered.Artifact == nil {
		return errSilent
	}
	_, err = stdout.Write(rendered.Artifact.Bytes)
	return err
}

// hostOf returns the one host of a manifest.
func hostOf(file string) (*model.Host, error) {
	hosts, problems, err := app.ManifestHosts(file)
	if err != nil {
		return nil, fileError(err)
	}
	if len(hosts) == 1 {
		return hosts[0], nil
	}
	if len(hosts) == 0 && len(problems) > 0 {
		return nil, problems[0]
	}
	return nil, withHint(fmt.Errorf("--host: %s has %s", file, count(len(hosts), "BareMetalHost", "BareMetalHosts")),
		"give it a file with the one host to render the template for")
}

// checkedConfig is an IgnitionConfig of the files.
type checkedConfig struct {
	doc    *manifest.Document
	places *places
	config *v1.IgnitionConfig
	// layer is the config as a layer of others; its Bytes are nil where they are unknown.
	layer compile.Layer
	own   []byte
	// begun is true once its merge has begun, partial where one of its layers, or of
	// theirs, is not among the files or has an error.
	begun, partial bool
	// rendering is of a template.
	rendering rendering
}

func (k *checkedConfig) ref(name string) model.Ref {
	return model.Ref{Namespace: k.config.Namespace, Name: name}
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
			", or one of its own layers, is not among the files or has an error: the merged config was not checked"})
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
