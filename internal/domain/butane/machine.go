package butane

import (
	"strings"

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
			n, _ := d.nearest(f.Path)
			f.Line, f.Column = n.Line, n.Column
		}
	}
	return r
}
