package decide

import (
	"fmt"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
)

// over adds a config that was merged over layers of the lab.
func (l *lab) over(t *testing.T, name, own string, layers ...string) *v1.IgnitionConfig {
	t.Helper()
	c := l.config("g10", name, "ignition", sel{MatchHostnames: []string{name}})
	c.Spec.Config = own
	var stack []*compile.Layer
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
		for _, below := range l.configs {
			if below.Name == layer {
				stack = append(stack, &compile.Layer{Name: layer, Type: compile.TypeIgnition, Bytes: below.Compiled.Artifact,
					Hash: below.Compiled.Hash})
				c.Status.Layers = append(c.Status.Layers, v1.LayerStatus{Name: layer, Hash: below.Compiled.Hash})
			}
		}
	}
	laid, found := compile.Lay(name, []byte(own), stack)
	if laid == nil {
		t.Fatal(found)
	}
	c.Compiled = &v1.Compiled{Artifact: laid.Artifact.Bytes, Hash: laid.Artifact.Hash,
		IgnitionVersion: laid.Artifact.IgnitionVersion, Generation: 1}
	if len(layers) > 0 {
		c.Compiled.Own = &v1.OwnCompilation{Artifact: []byte(own)}
	}
	return c
}

// everything has one entry of each kind, and a file of its own.
func everything(version, name string) string {
	kernel := `,"kernelArguments":{"shouldExist":["quiet"],"shouldNotExist":["debug"]}`
	if version < "3.3.0" {
		kernel = ""
	}
	return fmt.Sprintf(`{"ignition":{"version":%q}%s,"passwd":{"users":[{"name":"core"}],"groups":[{"name":"g"}]},"systemd":{"units":[{"name":"a.service","enabled":true}]},`+
		`"storage":{"disks":[{"device":"/dev/a"}],"filesystems":[{"device":"/dev/a1","format":"ext4","path":"/a"}],"directories":[{"path":"/d"}],"links":[{"path":"/l","target":"/%s"}],`+
		`"files":[{"path":"/f","mode":420},{"path":"/etc/%s"}]}}`, version, kernel, name, name)
}

func origins(e *Explanation) string {
	var all []string
	for _, o := range e.Winner.Origins {
		all = append(all, fmt.Sprintf("%s %s: %s", o.Kind, o.Name, strings.Join(o.From, " ")))
	}
	return strings.Join(all, "\n")
}

func TestExplainLayers(t *testing.T) {
	l := &lab{}
	l.over(t, "base", everything("3.3.0", "base"))
	l.over(t, "mid", everything("3.1.0", "mid"), "base")
	l.over(t, "side", `{"ignition":{"version":"3.0.0"},"storage":{"directories":[{"path":"/f"}]}}`)
	l.over(t, "top", `{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet","top"]},"systemd":{"units":[{"name":"a.service","mask":false}]}}`, "mid", "side", "base")
	inv := l.inventory(t)
	d := New(Options{Inventory: inv})
	ask := ask{believed: true, hostname: "top"}
	e := d.Explain(ask.request(t))
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
	base := changed.over(t, "base", everything("3.3.0", "base"))
	changed.over(t, "top", everything("3.4.0", "top"), "base")
	base.Compiled.Artifact, base.Compiled.Hash = []byte(everything("3.3.0", "other")), "sha256:other"
	e = New(Options{Inventory: changed.inventory(t)}).Explain(ask.request(t))
	if len(e.Winner.Origins) != 0 || !e.Winner.Layers[0].Changed {
		t.Errorf("%+v", e.Winner)
	}
	if e = New(Options{Inventory: (&lab{configs: l.configs[:1]}).inventory(t)}).Explain((askFor("base")).request(
		t)); e.Winner.Layers != nil || e.Winner.Origins != nil {
		t.Errorf("%+v", e.Winner)
	}
}

func askFor(name string) ask { return ask{believed: true, hostname: name} }

// TestExplainEndsInCircles: layers that name one another are no end of work.
func TestExplainEndsInCircles(t *testing.T) {
	l := &lab{}
	a := l.over(t, "a", everything("3.3.0", "a"))
	l.over(t, "b", everything("3.3.0", "b"), "a")
	a.Spec.Layers = []v1.LayerReference{{Name: "b"}}
	a.Compiled.Own = &v1.OwnCompilation{Artifact: a.Compiled.Artifact}
	e := New(Options{Inventory: l.inventory(t)}).Explain(askFor("b").request(t))
	if len(e.Winner.Origins) == 0 {
		t.Errorf("%+v", e.Winner)
	}
}

// TestExplainHidesConfidentialLayers: the names of entries, such as kernel arguments, may be secrets.
func TestExplainHidesConfidentialLayers(t *testing.T) {
	for _, confidential := range []bool{false, true} {
		l := &lab{}
		l.host("g10", "node", "52:54:00:00:00:01", "192.168.10.1").Spec.Hostname = "top"
		base := l.over(t, "base", everything("3.4.0", "base"))
		base.Spec.Confidential = confidential
		l.over(t, "top", everything("3.4.0", "top"), "base")
		e := New(Options{Inventory: l.inventory(t)}).Explain(ask{from: "192.168.10.1", accept: v34}.request(t))
		if e.Winner == nil || len(e.Winner.Layers) != 1 || (len(e.Winner.Origins) == 0) != confidential {
			t.Errorf("confidential %t: %+v", confidential, e.Winner)
		}
	}
}
