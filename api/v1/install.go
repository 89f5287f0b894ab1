package v1

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AnnotationInstallDevice, on an ISCSICdrom or a Namespace, is the disk, as /dev/sda, on which hosts without
// spec.rootDeviceHints install the system of a live image of CoreOS or Flatcar.
const AnnotationInstallDevice = "glowplug.dev/install-device"

// RootDeviceHints name the disk on which a host installs a system, as in Metal3. The installer finds it by a kernel
// argument, which can carry a path alone: of the hints of Metal3, deviceName, wwn and wwnWithExtension are allowed, and
// one of them.
type RootDeviceHints struct {
	// deviceName is the path of the disk, as /dev/sda or /dev/disk/by-path/pci-0000:01:00.0-nvme-1.
	// +optional
	DeviceName string `json:"deviceName,omitempty"`
	// wwn is the World Wide Name of the disk, as 0x5000c500a1b2c3d4, or of an NVMe disk as
	// eui.0025385b71b00001. A disk that has one with an extension is found by that alone.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name of a disk with its vendor's extension.
	// +optional
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// hctl is refused: a kernel argument cannot carry it.
	// +optional
	HCTL string `json:"hctl,omitempty"`
	// model is refused: a kernel argument cannot carry it.
	// +optional
	Model string `json:"model,omitempty"`
	// vendor is refused: a kernel argument cannot carry it.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is refused: the path of a disk has it only together with the name of the bus and the model.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// minSizeGigabytes is refused: a kernel argument cannot carry it.
	// +optional
	MinSizeGigabytes int64 `json:"minSizeGigabytes,omitempty"`
	// wwnVendorExtension is refused: a kernel argument cannot carry it.
	// +optional
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// rotational is refused: a kernel argument cannot carry it.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// Device returns the path of the disk; "": none is named.
func (h *RootDeviceHints) Device() string {
	if h == nil {
		return ""
	}
	wwn := cmp.Or(h.WWNWithExtension, h.WWN)
	switch {
	case h.DeviceName != "" || wwn == "":
		return h.DeviceName
	// The links of udev (60-persistent-storage.rules).
	case strings.HasPrefix(wwn, "eui."), strings.HasPrefix(wwn, "nvme."):
		return "/dev/disk/by-id/nvme-" + wwn
	}
	return "/dev/disk/by-id/wwn-" + wwn
}

var errDevice = errors.New("want the path of a disk, as /dev/sda or /dev/disk/by-id/wwn-0x5000c500a1b2c3d4")

// parseDevice checks the path of a disk, which becomes a part of the kernel arguments.
func parseDevice(s string) (string, error) {
	unsafe := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("/._:+-", r)
	}
	name, isDevice := strings.CutPrefix(s, "/dev/")
	if !isDevice || name == "" || len(s) > 255 || strings.ContainsFunc(s, unsafe) || path.Clean(s) != s {
		return "", errDevice
	}
	return s, nil
}

// wwnForm is a World Wide Name as udev writes it.
var wwnForm = regexp.MustCompile(`^(0x[0-9a-f]{16}([0-9a-f]{16})?|(eui|nvme)\.[0-9A-Za-z._-]{1,200})$`)

func parseWWN(s string) (string, error) {
	if !wwnForm.MatchString(s) {
		return "", errors.New("want a World Wide Name as udev writes it, as 0x5000c500a1b2c3d4 or eui.0025385b71b00001 " +
			"(lsblk -o NAME,WWN)")
	}
	return s, nil
}

const (
	noArgument = "a kernel argument cannot carry it; use deviceName, wwn or wwnWithExtension"
	noSerial   = "a path has the serial number only together with the bus and the model; write the path into deviceName, " +
		"as /dev/disk/by-id/ata-MODEL_SERIAL, or use wwn"
)

// validateRootDevice checks the hints.
func validateRootDevice(at *field.Path, h *RootDeviceHints, bootMode string) (errs field.ErrorList) {
	if h == nil {
		return nil
	}
	if bootMode == BootForever && h.Device() != "" {
		errs = append(errs, field.Forbidden(at, "a machine with bootMode forever would be installed at each boot; remove the "+
			"field, or set bootMode once"))
	}
	named := 0
	for _, hint := range []struct {
		name, value string
		parse       func(string) (string, error)
	}{{"deviceName", h.DeviceName, parseDevice}, {"wwn", h.WWN, parseWWN}, {"wwnWithExtension", h.WWNWithExtension, parseWWN}} {
		if hint.value != "" {
			named++
		}
		errs = append(errs, parsed(at.Child(hint.name), hint.value, hint.parse)...)
	}
	if named > 1 {
		errs = append(errs, field.Forbidden(at, "more than one hint: a kernel argument names one disk; keep the surest"))
	}
	for name, isSet := range map[string]bool{
		"hctl": h.HCTL != "", "model": h.Model != "", "vendor": h.Vendor != "", "minSizeGigabytes": h.MinSizeGigabytes != 0,
		"wwnVendorExtension": h.WWNVendorExtension != "", "rotational": h.Rotational != nil,
	} {
		if isSet {
			errs = append(errs, field.Forbidden(at.Child(name), noArgument))
		}
	}
	if h.SerialNumber != "" {
		errs = append(errs, field.Forbidden(at.Child("serialNumber"), noSerial))
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}
