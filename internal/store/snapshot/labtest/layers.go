package labtest

import (
	"fmt"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
)

// Over adds a config that was merged over layers of the lab.
func (l *Lab) Over(t *testing.T, name, own string, layers ...string) *v1.IgnitionConfig {
	t.Helper()
	c := l.Config("g10", name, "ignition", v1.IgnitionConfigSelector{MatchHostnames: []string{name}})
	c.Spec.Config = own
	var stack []*compile.Layer
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
		for _, below := range l.Configs {
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

// Everything returns an Ignition config that has one entry of each kind, and a file of its own.
func Everything(version, name string) string {
	kernel := `,"kernelArguments":{"shouldExist":["quiet"],"shouldNotExist":["debug"]}`
	if version < "3.3.0" {
		kernel = ""
	}
	return fmt.Sprintf(`{"ignition":{"version":%q}%s,"passwd":{"users":[{"name":"core"}],"groups":[{"name":"g"}]},`+
		`"systemd":{"units":[{"name":"a.service","enabled":true}]},`+
		`"storage":{"disks":[{"device":"/dev/a"}],"filesystems":[{"device":"/dev/a1","format":"ext4","path":"/a"}],`+
		`"directories":[{"path":"/d"}],"links":[{"path":"/l","target":"/%s"}],`+
		`"files":[{"path":"/f","mode":420},{"path":"/etc/%s"}]}}`, version, kernel, name, name)
}
