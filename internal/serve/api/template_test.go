package api

import (
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// templated is a config whose source is a template.
func templated(name, source string) *v1.IgnitionConfig {
	c := config(name, source)
	c.Spec.Template = true
	return c
}

// forNames is a fake of the cache of renderings: it names the host.
type forNames struct{}

func (forNames) Render(config *model.Config, host *model.Host, _ *template.Facts,
	_ decide.Asker) (*model.Config, *fault.Error) {
	if host.Name == "bad" {
		return nil, fault.New(fault.Unavailable, "config "+config.Ref.String()+" cannot be rendered for host "+
			host.Ref.String())
	}
	out := *config
	out.Artifact = []byte(`{"ignition": {"version": "3.2.0"}, "systemd": {"units": [{"name": "` + host.Name +
		`.service"}]}}`)
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
		if got := a.must(http.StatusOK, "GET", configs+"/x/rendered?host="+query, nil); !strings.Contains(string(got.body),
			"good.service") {
			t.Errorf("for %s: %s", query, got.body)
		}
	}
	a.must(http.StatusServiceUnavailable, "GET", configs+"/x/rendered?host=bad", nil)
	// That it fails for one host says nothing of the others.
	a.setStatus("x", func(s *v1.IgnitionConfigStatus) { s.Phase, s.ErrorMessage = v1.PhaseError, "1 of 3 hosts fails" })
	for name, want := range map[string]string{"good": "", "old": "true"} {
		if got := a.must(http.StatusOK, "GET", configs+"/x/rendered?host="+name,
			nil).header.Get("X-Glowplug-Stale"); got != want {
			t.Errorf("for %s it is stale: %q", name, got)
		}
	}
	relabelled := templated("x", goodSource+"# {{ .Name }}\n")
	relabelled.Labels = map[string]string{"site": "a"}
	if got := a.must(http.StatusOK, "PUT", configs+"/x", relabelled).warnings; len(got) != 1 ||
		got[0] != "spec.config: when it was last rendered: 1 of 3 hosts fails" {
		t.Errorf("%q", got)
	}
	a.must(http.StatusNotFound, "GET", configs+"/x/rendered?host=other/good", nil)
}
