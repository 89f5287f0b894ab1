package v1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestRootDeviceHints: of Metal3's hints, one that a kernel argument can carry names the disk; the others are refused
// with the reason.
func TestRootDeviceHints(t *testing.T) {
	rotational := true
	for _, c := range []struct {
		hints           RootDeviceHints
		device, refused string
		mode            string
	}{
		{hints: RootDeviceHints{}},
		{hints: RootDeviceHints{DeviceName: "/dev/sda"}, device: "/dev/sda"},
		{hints: RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-0000:01:00.0-nvme-1"},
			device: "/dev/disk/by-path/pci-0000:01:00.0-nvme-1"},
		{hints: RootDeviceHints{WWN: "0x5000c500a1b2c3d4"}, device: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"},
		{hints: RootDeviceHints{WWNWithExtension: "0x5000c500a1b2c3d40001000200030004"},
			device: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d40001000200030004"},
		{hints: RootDeviceHints{WWN: "eui.0025385b71b00001"}, device: "/dev/disk/by-id/nvme-eui.0025385b71b00001"},
		{hints: RootDeviceHints{DeviceName: "sda"}, refused: "spec.rootDeviceHints.deviceName: Invalid value"},
		{hints: RootDeviceHints{DeviceName: "/dev/sda quiet"}, refused: "spec.rootDeviceHints.deviceName: Invalid value"},
		{hints: RootDeviceHints{DeviceName: "/dev/../etc/passwd"}, refused: "spec.rootDeviceHints.deviceName: Invalid value"},
		{hints: RootDeviceHints{WWN: "${net0/mac}"}, refused: "spec.rootDeviceHints.wwn: Invalid value"},
		{hints: RootDeviceHints{DeviceName: "/dev//sda"}, refused: "spec.rootDeviceHints.deviceName: Invalid value"},
		{hints: RootDeviceHints{WWN: "0x5000C500A1B2C3D4"}, refused: "spec.rootDeviceHints.wwn: Invalid value"},
		{hints: RootDeviceHints{DeviceName: "/dev/sda"}, mode: BootForever,
			refused: "spec.rootDeviceHints: Forbidden: a machine with bootMode forever would be installed at each boot"},
		{hints: RootDeviceHints{DeviceName: "/dev/sda", WWN: "0x5000c500a1b2c3d4"}, refused: "spec.rootDeviceHints: Forbidden: more than one hint"},
		{hints: RootDeviceHints{SerialNumber: "S1"}, refused: "spec.rootDeviceHints.serialNumber: Forbidden: a path has"},
		{hints: RootDeviceHints{Model: "x"}, refused: "spec.rootDeviceHints.model: Forbidden: a kernel argument cannot"},
		{hints: RootDeviceHints{Rotational: &rotational}, refused: "spec.rootDeviceHints.rotational: Forbidden"},
		{hints: RootDeviceHints{MinSizeGigabytes: 100}, refused: "spec.rootDeviceHints.minSizeGigabytes: Forbidden"},
	} {
		errs := validateRootDevice(field.NewPath("spec", "rootDeviceHints"), &c.hints, c.mode)
		text := ""
		if len(errs) > 0 {
			text = errs.ToAggregate().Error()
		}
		if !strings.Contains(text, c.refused) || (text == "") != (c.refused == "") {
			t.Errorf("%+v: %q, want %q", c.hints, text, c.refused)
		}
		if got := c.hints.Device(); c.refused == "" && got != c.device {
			t.Errorf("%+v: %q, want %q", c.hints, got, c.device)
		}
	}
}
