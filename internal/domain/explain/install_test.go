package explain

import (
	"fmt"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot/labtest"
)

// TestInstallationArguments: a host with a disk for it installs the system of a CoreOS live image, with its config for
// the installed system and none for the live one. The host's own hints count, then the image, then the namespace. Of an
// image that installs nothing explain says so, unless the namespace alone names a disk.
func TestInstallationArguments(t *testing.T) {
	const url = "ignition.config.url=${glowplug}/api/v1/ignition"
	installed := func(device string) string {
		return "[{ignition.firstboot default} {coreos.inst.install_dev=" + device + " installation} " +
			"{coreos.inst.ignition_url=${glowplug}/api/v1/ignition installation}]"
	}
	for name, c := range map[string]struct {
		hints                    *v1.RootDeviceHints
		image, namespace, distro string
		args                     []string // of the host
		want, missing            string
	}{
		"a live system": {distro: "coreos", want: "[{ignition.firstboot default} {" + url + " default}]"},
		"the host": {hints: &v1.RootDeviceHints{WWN: "0x5000c500a1b2c3d4"}, image: "/dev/sda", distro: "coreos",
			want: installed("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4")},
		"the image":     {image: "/dev/sda", namespace: "/dev/sdb", distro: "coreos", want: installed("/dev/sda")},
		"the namespace": {namespace: "/dev/sdb", distro: "coreos", want: installed("/dev/sdb")},
		"another config for the installed system": {
			hints: &v1.RootDeviceHints{DeviceName: "/dev/vda"}, distro: "coreos",
			args: []string{"coreos.inst.ignition_url=http://192.0.2.9/x"},
			want: "[{ignition.firstboot default} {coreos.inst.install_dev=/dev/vda installation} " +
				"{coreos.inst.ignition_url=http://192.0.2.9/x installation}]"},
		"Flatcar": {namespace: "/dev/sda", distro: "flatcar",
			want: "[{ignition.firstboot default} {" + url + "?install=true installation}]"},
		"another distribution": {hints: &v1.RootDeviceHints{DeviceName: "/dev/vda"}, distro: "fedora",
			want: "[{ignition.firstboot default} {" + url + " default}]",
			missing: "image g10/live is no live system of CoreOS or Flatcar, so it installs nothing by itself: spec.rootDeviceHints " +
				"of the host has no effect"},
		"another distribution in the namespace": {namespace: "/dev/sda", distro: "fedora",
			want: "[{ignition.firstboot default} {" + url + " default}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var l lab
			h := l.Host("g10", "h", "52:54:00:00:00:01", "192.168.10.1")
			h.Spec.Image, h.Spec.KernelArgs, h.Spec.RootDeviceHints = "live", c.args, c.hints
			l.Image("g10", "live", "")
			i := l.Images[0]
			i.Status.Phase, i.Status.KernelArgsApplied = v1.PhaseReady, []string{"ignition.firstboot", url}
			i.Status.Distro = c.distro
			i.Annotations = map[string]string{v1.AnnotationInstallDevice: c.image}
			inventory := l.Inventory(t)
			inventory.Namespaces().Put(kvstore.Item{Key: "g10", Revision: 9, Value: fmt.Appendf(nil,
				`{"metadata":{"name":"g10","annotations":{%q:%q}}}`, v1.AnnotationInstallDevice, c.namespace)})
			e, failure := Inquire(decide.New(decide.Options{Inventory: inventory}), &Inquiry{
				Type: decide.Ignition, At: labtest.Epoch, Host: "h", Namespace: "g10",
			})
			if failure != nil {
				t.Fatal(failure)
			}
			if got := fmt.Sprint(e.Boot.Arguments); got != c.want || e.Boot.NoConfig != c.missing {
				t.Errorf("%s, %q; want %s, %q", got, e.Boot.NoConfig, c.want, c.missing)
			}
		})
	}
}
