package api

import (
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// templated is a config whose source is a template.
func templated(name, source string) *v1.IgnitionConfig {
	c := config(name, source)
	c.Spec.Template = true
	return c
}

func TestTemplateAwaitsItsHosts(t *testing.T) {
	a := start(t)
	source := goodSource + "# {{ .Name }}\n"
	created := a.must(http.StatusCreated, "POST", configs, templated("x", source))
	if len(created.warnings) != 1 || !strings.Contains(created.warnings[0], "a template, which is being rendered for its hosts") {
		t.Errorf("%q", created.warnings)
	}
	got := a.stored("x")
	if s := got.Status; s.Phase != v1.PhasePending || s.ObservedGeneration != 1 || s.ConfigHash != "" || s.CompiledSize != 0 || len(s.Servable) > 0 {
		t.Errorf("%+v", s)
	}
	if c := got.Compiled; c == nil || !c.Template || string(c.Artifact) != source || c.Generation != 1 {
		t.Errorf("%+v", c)
	}

	// A selector may make it one for other hosts.
	got.Status.Phase = v1.PhaseReady
	selected := templated("x", source)
	selected.Spec.Selector.Default = true
	a.must(http.StatusOK, "PUT", configs+"/x", selected)
	if got = a.stored("x"); got.Status.Phase != v1.PhasePending || got.Compiled.Generation != 2 || got.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", got.Status)
	}

	// A syntax error is told at once, and the last template kept.
	bad := a.must(http.StatusOK, "PUT", configs+"/x", templated("x", goodSource+"# {{ .Name "))
	if len(bad.warnings) != 2 || bad.warnings[0] != "spec.config: line 3:3: unclosed action" {
		t.Errorf("%q", bad.warnings)
	}
	if got = a.stored("x"); got.Status.Phase != v1.PhaseError || string(got.Compiled.Artifact) != source || got.Compiled.Generation != 2 {
		t.Errorf("%+v", got.Status)
	}

	// Without template: true the same text is what it is.
	plain := a.must(http.StatusOK, "PUT", configs+"/x", config("x", source))
	got = a.stored("x")
	if len(plain.warnings) > 0 || got.Status.Phase != v1.PhaseReady || got.Compiled.Template || got.Status.Hosts != nil || got.Status.ConfigHash == "" {
		t.Errorf("%q %+v", plain.warnings, got.Status)
	}
	// And the other way round, although the source is the same.
	a.must(http.StatusOK, "PUT", configs+"/x", templated("x", source))
	if got = a.stored("x"); got.Status.Phase != v1.PhasePending || !got.Compiled.Template || got.Status.ConfigHash != "" {
		t.Errorf("%+v", got.Status)
	}
}

// forNames stands in for the cache of renderings: it names the host.
type forNames struct{}

func (forNames) Render(config *snapshot.Config, host *snapshot.Host, _ *template.Facts, _ decide.Asker) (*snapshot.Config, *fault.Error) {
	if host.Name == "bad" {
		return nil, fault.New(fault.Unavailable, "config "+config.Ref.String()+" cannot be rendered for host "+host.Ref.String())
	}
	out := *config
	out.Artifact = []byte(`{"ignition": {"version": "3.2.0"}, "systemd": {"units": [{"name": "` + host.Name + `.service"}]}}`)
	out.Stale = host.Name == "old"
	return &out, nil
}

func TestTemplateIsRenderedForAHost(t *testing.T) {
	a := start(t, func(o *Options) { o.Templates = forNames{} })
	a.must(http.StatusCreated, "POST", configs, templated("x", goodSource+"# {{ .Name }}\n"))
	for _, name := range []string{"good", "bad", "old"} {
		a.must(http.StatusCreated, "POST", hosts, host(name))
	}
	answer := a.must(http.StatusBadRequest, "GET", configs+"/x/rendered", nil)
	if message := answer.status(t).Message; !strings.Contains(message, "is a template: name the host to render it for") {
		t.Errorf("for nobody: %q", message)
	}
	for _, query := range []string{"good", "g10/good"} {
		if got := a.must(http.StatusOK, "GET", configs+"/x/rendered?host="+query, nil); !strings.Contains(string(got.body), "good.service") {
			t.Errorf("for %s: %s", query, got.body)
		}
	}
	a.must(http.StatusServiceUnavailable, "GET", configs+"/x/rendered?host=bad", nil)
	// That it fails for one host says nothing of the others.
	a.setStatus("x", func(s *v1.IgnitionConfigStatus) { s.Phase, s.ErrorMessage = v1.PhaseError, "1 of 3 hosts fails" })
	for name, want := range map[string]string{"good": "", "old": "true"} {
		if got := a.must(http.StatusOK, "GET", configs+"/x/rendered?host="+name, nil).header.Get("X-Glowplug-Stale"); got != want {
			t.Errorf("for %s it is stale: %q", name, got)
		}
	}
	relabelled := templated("x", goodSource+"# {{ .Name }}\n")
	relabelled.Labels = map[string]string{"site": "a"}
	if got := a.must(http.StatusOK, "PUT", configs+"/x", relabelled).warnings; len(got) != 1 || got[0] != "spec.config: 1 of 3 hosts fails" {
		t.Errorf("%q", got)
	}
	a.must(http.StatusNotFound, "GET", configs+"/x/rendered?host=other/good", nil)
}

// A config of another type is given to another installer, which can do nothing with
// the last good source.
func TestTypeChangesWithAnError(t *testing.T) {
	a := start(t)
	change := func(typ, format, source string, template bool) *v1.IgnitionConfig {
		c := config("x", source)
		c.Spec.Type, c.Spec.Format, c.Spec.Template = typ, format, template
		a.must(http.StatusOK, "PUT", configs+"/x", c)
		return a.stored("x")
	}
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	for _, template := range []bool{true, false} {
		for _, c := range []*v1.IgnitionConfig{
			change(v1.TypeKickstart, v1.FormatKickstart, "text\x00{{ ", template),
			func() *v1.IgnitionConfig {
				change(v1.TypeKickstart, v1.FormatKickstart, "text\n", template)
				return change(v1.TypeIgnition, v1.FormatIgnition, "{{ ", template)
			}(),
		} {
			if s := c.Status; s.Phase != v1.PhaseError || s.ErrorMessage == "" || s.ConfigHash != "" || s.CompiledSize != 0 || s.CompiledGeneration != 0 || len(s.Servable) > 0 || c.Compiled != nil {
				t.Errorf("%+v %+v", s, c.Compiled)
			}
			change(v1.TypeIgnition, v1.FormatButane, goodSource, template)
		}
	}
	// Within a type the last good source is as it was, whatever the newest says it is.
	if c := change(v1.TypeIgnition, v1.FormatButane, goodSource, true); c.Compiled.Format != v1.FormatButane {
		t.Errorf("%+v", c.Compiled)
	}
	if c := change(v1.TypeIgnition, v1.FormatIgnition, "{{ ", true); c.Status.Phase != v1.PhaseError || string(c.Compiled.Artifact) != goodSource || c.Compiled.Format != v1.FormatButane {
		t.Errorf("%+v %+v", c.Status, c.Compiled)
	}
}
