package cli

import (
	"fmt"
	"io"
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/template"
	"glowplug/internal/domain/wording"
	"glowplug/internal/offline"
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
func (c *checker) renderAll() error {
	c.offline.Render(func(r *offline.HostRendering) { c.configs[r.Config].addRendering(r) })
	for _, k := range c.order {
		if k.config.Compiled == nil || !k.config.Compiled.Template {
			continue
		}
		r := &k.rendering
		what := fmt.Sprintf("a template, rendered for %s", wording.Count(r.hosts, "host", "hosts"))
		switch {
		case r.hosts == 0 && c.broken["BareMetalHost"]:
			what = "a template, for none of the hosts without an error in these files"
		case r.hosts == 0 && len(k.config.Spec.Selector.MatchIPs) > 0:
			what = "a template with matchIPs, for none of the addresses of the hosts in these files"
		case r.hosts == 0:
			what = "a template, for none of the hosts in these files"
		case r.failing > 0:
			what = fmt.Sprintf("a template, rendered for %d of %s", r.hosts-r.failing, wording.Count(r.hosts, "host", "hosts"))
		}
		if _, err := fmt.Fprintf(c.stdout, "%s: %s\n", k.doc.String(), what); err != nil {
			return err
		}
		if r.failing > maxFailing {
			r.found = append(r.found, k.places.finding(report.Error, "spec.config",
				fmt.Sprintf("and it fails for %d more hosts", r.failing-maxFailing)))
		}
		if err := c.print(k.doc.File, k.places.source, r.found.Tidy()); err != nil {
			return err
		}
	}
	return nil
}

// addRendering adds the rendering of a template for one host.
func (k *checkedConfig) addRendering(r *offline.HostRendering) {
	t := &k.rendering
	t.hosts++
	if r.Artifact != nil {
		k.addWarnings(r)
		return
	}
	if k.missing != "" && compile.IsOfLayers(r.Message()) {
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
	f := k.places.finding(report.Error, "spec.config", host+r.Message())
	f.Hint = "glowplug compile --template --host, with a file of the template alone, shows the line of the rendered text"
	t.found = append(t.found, f)
}

// addWarnings adds the warnings of the first host that has some, as the status of the config
// does.
func (k *checkedConfig) addWarnings(r *offline.HostRendering) {
	warnings := r.Warnings()
	if k.rendering.warned || len(warnings) == 0 {
		return
	}
	k.rendering.warned = true
	for _, warning := range warnings {
		k.rendering.found = append(k.rendering.found,
			k.places.finding(report.Warning, "spec.config", "for host "+r.Host.String()+": "+warning))
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
	objects, problems, err := offline.Read(model.IsolateTenants, file)
	if err != nil {
		return nil, fileError(err)
	}
	hosts := objects.Hosts()
	if len(hosts) == 1 {
		return hosts[0], nil
	}
	if len(hosts) == 0 && len(problems) > 0 {
		return nil, problems[0]
	}
	return nil, withHint(fmt.Errorf("--host: %s has %s", file, wording.Count(len(hosts), "BareMetalHost", "BareMetalHosts")),
		"give it a file with the one host to render the template for")
}
