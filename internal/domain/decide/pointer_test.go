package decide

import (
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/store/snapshot/labtest"
)

// TestPointersHaveNothingOfTheConfig: whether a config can be converted, rendered or served at all is not told
// where the answer only refers to it; whether the machine has one is.
func TestPointersHaveNothingOfTheConfig(t *testing.T) {
	l := &lab{}
	l.Over(t, "newer", labtest.Everything("3.4.0", "newer"))
	template := l.Config("g10", "template", "ignition", sel{MatchHostnames: []string{"template"}})
	template.Compiled = &v1.Compiled{Template: true, Artifact: []byte("{{ .Secret }}"), Generation: 1}
	never := l.Config("g10", "never", "ignition", sel{MatchHostnames: []string{"never"}})
	never.Compiled, never.Status.ErrorMessage = nil, "line 1: a value of the config"
	d := New(Options{Inventory: l.Inventory(t)})
	for _, c := range []struct {
		name  string
		plain fault.Kind
	}{{"newer", fault.NotAcceptable}, {"template", fault.Unavailable}, {"never", fault.Unavailable}} {
		req := ask{Believed: true, Hostname: c.name}.Request(t)
		req.Accept = ignition.AcceptOf("2.0.0")
		if dec := d.Config(req); dec.Err == nil || dec.Err.Kind != c.plain {
			t.Errorf("%s without a pointer: %v", c.name, dec.Err)
		}
		req.Pointer = true
		if dec := d.Config(req); dec.Err != nil || dec.Config == nil || dec.Config.Name != c.name || dec.Form != nil {
			t.Errorf("%s with a pointer: %+v", c.name, dec)
		}
	}
	req := ask{Believed: true, Hostname: "nobody"}.Request(t)
	req.Pointer = true
	if dec := d.Config(req); dec.Err == nil || dec.Err.Kind != fault.NoMatch {
		t.Errorf("a machine without a config: %v", dec.Err)
	}
}
