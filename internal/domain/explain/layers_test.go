package explain

import (
	"fmt"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot/labtest"
)

func origins(e *Explanation) string {
	var all []string
	for _, o := range e.Winner.Origins {
		all = append(all, fmt.Sprintf("%s %s: %s", o.Kind, o.Name, strings.Join(o.From, " ")))
	}
	return strings.Join(all, "\n")
}

func TestExplainLayers(t *testing.T) {
	l := &lab{}
	l.Over(t, "base", labtest.Everything("3.3.0", "base"))
	l.Over(t, "mid", labtest.Everything("3.1.0", "mid"), "base")
	l.Over(t, "side", `{"ignition":{"version":"3.0.0"},"storage":{"directories":[{"path":"/f"}]}}`)
	l.Over(t, "top", `{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet","top"]},"systemd":{"units":[{"name":"a.service","mask":false}]}}`, "mid", "side", "base")
	inv := l.Inventory(t)
	d := decide.New(decide.Options{Inventory: inv})
	ask := ask{Believed: true, Hostname: "top"}
	e := Explain(d, ask.Request(t))
	want := `disk /dev/a: mid base
filesystem /dev/a1: mid base
directory /d: mid base
file /etc/base: base
file /etc/mid: mid
file /f: base
link /l: mid base
group g: mid base
user core: mid base
unit a.service: mid base top
kernel argument quiet: base top
kernel argument top: top
removed kernel argument debug: base`
	// The file /f of base has taken the place of side's directory.
	if got := origins(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(e.Winner.Layers) != 3 || e.Winner.Layers[0].Name != "mid" || e.Winner.Layers[0].Changed {
		t.Errorf("%+v", e.Winner.Layers)
	}

	// A layer that has changed since: what is served was merged over the other one.
	changed := &lab{}
	base := changed.Over(t, "base", labtest.Everything("3.3.0", "base"))
	changed.Over(t, "top", labtest.Everything("3.4.0", "top"), "base")
	base.Compiled.Artifact, base.Compiled.Hash = []byte(labtest.Everything("3.3.0", "other")), "sha256:other"
	e = Explain(decide.New(decide.Options{Inventory: changed.Inventory(t)}), ask.Request(t))
	if len(e.Winner.Origins) != 0 || !e.Winner.Layers[0].Changed {
		t.Errorf("%+v", e.Winner)
	}
	if e = Explain(decide.New(decide.Options{Inventory: (&lab{Configs: l.Configs[:1]}).Inventory(t)}), (askFor("base")).Request(
		t)); e.Winner.Layers != nil || e.Winner.Origins != nil {
		t.Errorf("%+v", e.Winner)
	}
}

func askFor(name string) ask { return ask{Believed: true, Hostname: name} }

// TestExplainEndsInCircles: layers that name one another are no end of work.
func TestExplainEndsInCircles(t *testing.T) {
	l := &lab{}
	a := l.Over(t, "a", labtest.Everything("3.3.0", "a"))
	l.Over(t, "b", labtest.Everything("3.3.0", "b"), "a")
	a.Spec.Layers = []v1.LayerReference{{Name: "b"}}
	a.Compiled.Own = &v1.OwnCompilation{Artifact: a.Compiled.Artifact}
	e := Explain(decide.New(decide.Options{Inventory: l.Inventory(t)}), askFor("b").Request(t))
	if len(e.Winner.Origins) == 0 {
		t.Errorf("%+v", e.Winner)
	}
}

// TestExplainHidesConfidentialLayers: the names of entries, such as kernel arguments, may be secrets.
func TestExplainHidesConfidentialLayers(t *testing.T) {
	for _, confidential := range []bool{false, true} {
		l := &lab{}
		l.Host("g10", "node", "52:54:00:00:00:01", "192.168.10.1").Spec.Hostname = "top"
		base := l.Over(t, "base", labtest.Everything("3.4.0", "base"))
		base.Spec.Confidential = confidential
		l.Over(t, "top", labtest.Everything("3.4.0", "top"), "base")
		e := Explain(decide.New(decide.Options{Inventory: l.Inventory(t)}), ask{From: "192.168.10.1", Accept: labtest.V34}.Request(t))
		if e.Winner == nil || len(e.Winner.Layers) != 1 || (len(e.Winner.Origins) == 0) != confidential {
			t.Errorf("confidential %t: %+v", confidential, e.Winner)
		}
	}
}
