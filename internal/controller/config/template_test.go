package config

import (
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// templated is a config whose source is a template.
func templated(name, source string) *v1.IgnitionConfig {
	c := plain(name, source)
	c.Spec.Template = true
	return c
}

func TestTemplateAwaitsItsHosts(t *testing.T) {
	s := start(t)
	source := goodSource + "# {{ .Name }}\n"
	s.put(templated("x", source))
	got := s.stored("x")
	if s := got.Status; s.Phase != v1.PhasePending || s.ObservedGeneration != 1 || s.ConfigHash != "" ||
		s.CompiledSize != 0 || len(s.Servable) > 0 {
		t.Errorf("%+v", s)
	}
	if c := got.Compiled; c == nil || !c.Template || string(c.Artifact) != source || c.Generation != 1 {
		t.Errorf("%+v", c)
	}

	// A selector may make it one for other hosts.
	got.Status.Phase = v1.PhaseReady
	selected := templated("x", source)
	selected.Spec.Selector.Default = true
	s.put(selected)
	if got = s.stored("x"); got.Status.Phase != v1.PhasePending || got.Compiled.Generation != 2 ||
		got.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", got.Status)
	}

	// A syntax error is told at once, and the last template kept.
	if message := s.put(templated("x", goodSource+
		"# {{ .Name ")).Status.ErrorMessage; !strings.HasPrefix(message, "line 3:3: unclosed action (") {
		t.Errorf("%q", message)
	}
	if got = s.stored("x"); got.Status.Phase != v1.PhaseError || string(got.Compiled.Artifact) != source ||
		got.Compiled.Generation != 2 {
		t.Errorf("%+v", got.Status)
	}

	// Without template: true the same text is what it is.
	s.put(plain("x", source))
	got = s.stored("x")
	if got.Status.Phase != v1.PhaseReady || got.Compiled.Template || got.Status.Hosts != nil ||
		got.Status.ConfigHash == "" {
		t.Errorf("%+v", got.Status)
	}
	// And the other way round, although the source is the same.
	s.put(templated("x", source))
	if got = s.stored("x"); got.Status.Phase != v1.PhasePending || !got.Compiled.Template || got.Status.ConfigHash != "" {
		t.Errorf("%+v", got.Status)
	}
}

// A config of another type is given to another installer, which can do nothing with
// the last good source.
func TestTypeChangesWithAnError(t *testing.T) {
	s := start(t)
	change := func(typ, format, source string, template bool) *v1.IgnitionConfig {
		c := plain("x", source)
		c.Spec.Type, c.Spec.Format, c.Spec.Template = typ, format, template
		s.put(c)
		return s.stored("x")
	}
	s.put(plain("x", goodSource))
	for _, template := range []bool{true, false} {
		for _, c := range []*v1.IgnitionConfig{
			change(v1.TypeKickstart, v1.FormatKickstart, "text\x00{{ ", template),
			func() *v1.IgnitionConfig {
				change(v1.TypeKickstart, v1.FormatKickstart, "text\n", template)
				return change(v1.TypeIgnition, v1.FormatIgnition, "{{ ", template)
			}(),
		} {
			if s := c.Status; s.Phase != v1.PhaseError || s.ErrorMessage == "" || s.ConfigHash != "" || s.CompiledSize != 0 ||
				s.CompiledGeneration != 0 || len(s.Servable) > 0 || c.Compiled != nil {
				t.Errorf("%+v %+v", s, c.Compiled)
			}
			change(v1.TypeIgnition, v1.FormatButane, goodSource, template)
		}
	}
	// Within a type the last good source is as it was, whatever the newest says it is.
	if c := change(v1.TypeIgnition, v1.FormatButane, goodSource, true); c.Compiled.Format != v1.FormatButane {
		t.Errorf("%+v", c.Compiled)
	}
	if c := change(v1.TypeIgnition, v1.FormatIgnition, "{{ ", true); c.Status.Phase != v1.PhaseError ||
		string(c.Compiled.Artifact) != goodSource || c.Compiled.Format != v1.FormatButane {
		t.Errorf("%+v %+v", c.Status, c.Compiled)
	}
}
