package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"glowplug/internal/app"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/snapshot"
)

// maxFailing bounds the hosts whose failures are shown for one template.
const maxFailing = 10

// rendering is the rendering of a template for the hosts in the files.
type rendering struct {
	hosts, failing int
	found          report.Report
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
		if r.hosts == 0 {
			what = "a template, for none of the hosts in these files"
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
	if r.Artifact != nil || k.partial && strings.HasPrefix(r.Message(), "spec.layers: ") {
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
	f.Hint = "glowplug compile --template --host shows the rendered text"
	t.found = append(t.found, f)
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
		_, err := fmt.Fprintf(stderr, "%s: a valid template; --host HOST.yaml renders it for a host\n", name)
		return err
	}
	host, err := hostOf(hostFile)
	if err != nil {
		return err
	}
	rendered := t.Render(host.Facts())
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
func hostOf(file string) (*snapshot.Host, error) {
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
		"give it a file with the one host that the template is to be rendered for")
}
