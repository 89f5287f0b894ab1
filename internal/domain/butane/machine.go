package butane

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// butaneKeys has the keys of Butane that Ignition spells in another way.
var butaneKeys = strings.NewReplacer("sshAuthorizedKeys", "ssh_authorized_keys", "sizeMiB", "size_mib",
	"startMiB", "start_mib")

// machineWarnings finds in the output what fails only on the machine, and the places of
// the source. The entries of boot_device move those of storage: these have no position then.
func (d *document) machineWarnings(output []byte) report.Report {
	r := ignition.MachineWarnings(output)
	for i := range r {
		f := &r[i]
		f.Line, f.Column = 0, 0
		f.Path = butaneKeys.Replace(f.Path)
		if d.root.value("boot_device") == nil || !strings.HasPrefix(f.Path, "$.storage.") {
			f.Line, f.Column = d.nearest(f.Path)
		}
	}
	return r
}

// nearest returns the position of a path, or of the last object on the way to it.
func (d *document) nearest(path string) (line, column int) {
	at := (*yaml.Node)(d.root)
	for _, part := range strings.Split(path, ".")[1:] {
		next := (*mapping)(at).value(part)
		if index, err := strconv.Atoi(part); err == nil && at.Kind == yaml.SequenceNode && index < len(at.Content) {
			next = resolve(at.Content[index])
		}
		if next == nil {
			break
		}
		at = next
	}
	return at.Line, at.Column
}
