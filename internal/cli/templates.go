package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"glowplug/internal/app"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/store/snapshot"
)

// maxFailing bounds the hosts whose failures are shown of one template.
const maxFailing = 10

// checkedTemplate is a template in a manifest, which is rendered once all files have
// been read.
type checkedTemplate struct {
	doc    *manifest.Document
	places *places
	config string

	// partial is true where not all of its layers are among the files.
	partial        bool
	hosts, failing int
	found          report.Report
}

// renderAll renders the templates for the hosts in the files.
func (c *checker) renderAll(files []string) error {
	if len(c.templates) == 0 {
		return nil
	}
	manifests := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		return !slices.Contains(manifestFiles,
			strings.ToLower(filepath.Ext(name)))
	})
	err := app.RenderManifests(func(r *app.HostRendering) {
		if t := c.templates[r.Config]; t != nil {
			t.add(r)
		}
	}, manifests...)
	if err != nil {
		return fileError(err)
	}
	refs := make([]snapshot.Ref, 0, len(c.templates))
	for ref := range c.templates {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, snapshot.Ref.Compare)
	for _, ref := range refs {
		t := c.templates[ref]
		what := fmt.Sprintf("a template, rendered for %s", count(t.hosts, "host", "hosts"))
		if t.hosts == 0 {
			what = "a template, for none of the hosts in these files"
		}
		if _, err := fmt.Fprintf(c.forms, "%s: %s\n", t.doc.String(), what); err != nil {
			return err
		}
		if t.failing > maxFailing {
			t.found = append(t.found, t.places.finding("spec.config", fmt.Sprintf("and it fails for %d more hosts",
				t.failing-maxFailing)))
		}
		if err := c.print(t.doc.File, t.places.source, t.found.Tidy()); err != nil {
			return err
		}
	}
	return nil
}

// add notes what the template comes to for a host.
func (t *checkedTemplate) add(r *app.HostRendering) {
	t.hosts++
	if r.Artifact != nil || t.partial && strings.HasPrefix(r.Message(), "spec.layers: ") {
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
		t.found = append(t.found, t.places.inConfig(found, t.config)...)
		return
	}
	f := t.places.finding("spec.config", host+r.Message())
	f.Hint = "glowplug compile --template --host shows the rendered text"
	t.found = append(t.found, f)
}

// compileTemplate is compile with --template: hostFile is a manifest with the host,
// "" where the template is only read.
func compileTemplate(stdout, stderr io.Writer, name, hostFile string, src compile.Source) error {
	src.Template = true
	t, found := compile.ParseTemplate(src)
	if err := report.Fprint(stderr, name, []byte(src.Config), found, colored(stderr)); err != nil {
		return err
	}
	if t == nil {
		return errSilent
	}
	if hostFile == "" {
		_, err := fmt.Fprintf(stderr, "%s: a template that can be read; --host HOST.yaml renders it for a host\n", name)
		return err
	}
	host, err := hostOf(hostFile)
	if err != nil {
		return err
	}
	made := t.Render(host.Facts())
	text := []byte(src.Config)
	if made.Text != nil {
		text, name = made.Text, name+" rendered for "+host.Ref.String()
	}
	if err := report.Fprint(stderr, name, text, made.Found, colored(stderr)); err != nil {
		return err
	}
	if made.Artifact == nil {
		return errSilent
	}
	_, err = stdout.Write(made.Artifact.Bytes)
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
