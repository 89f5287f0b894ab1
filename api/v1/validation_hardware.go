package v1

import (
	"fmt"
	"slices"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of status.hardware.
const (
	maxHardwareItems      = 256
	maxHardwareNames      = 64
	maxHardwarePartitions = 128
	maxHardwareText       = 256 // bytes
)

// ValidateHardware checks the number of entries and the texts of what is known of the hardware of a
// machine, which the machine can have said itself.
func ValidateHardware(h *HardwareDetails, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		tooMany(path.Child("nics"), len(h.NICs), maxHardwareItems),
		tooMany(path.Child("storage"), len(h.Storage), maxHardwareItems),
		plainText(path.Child("hostname"), h.Hostname),
	)
	if len(errs) > 0 {
		return errs
	}
	if v := h.SystemVendor; v != nil {
		errs = slices.Concat(errs, plainText(path.Child("systemVendor"), v.Manufacturer, v.ProductName, v.SerialNumber))
	}
	if c := h.CPU; c != nil {
		if errs = append(errs, tooMany(path.Child("cpu", "flags"), len(c.Flags), MaxItems)...); len(c.Flags) <= MaxItems {
			errs = slices.Concat(errs, plainText(path.Child("cpu"), append(slices.Clone(c.Flags), c.Arch, c.Model)...))
		}
	}
	for i, nic := range h.NICs {
		errs = slices.Concat(errs, plainText(path.Child("nics").Index(i), nic.Name, nic.Model, nic.MAC, nic.IP))
	}
	for i := range h.Storage {
		errs = append(errs, validateDisk(&h.Storage[i], path.Child("storage").Index(i))...)
	}
	return errs
}

// CheckHardware returns the first error of ValidateHardware.
func CheckHardware(h *HardwareDetails) error {
	if errs := ValidateHardware(h, field.NewPath("hardware")); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

func validateDisk(d *HardwareDisk, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		tooMany(path.Child("alternateNames"), len(d.AlternateNames), maxHardwareNames),
		tooMany(path.Child("partitions"), len(d.Partitions), maxHardwarePartitions),
	)
	if len(errs) > 0 {
		return errs
	}
	texts := append(slices.Clone(d.AlternateNames), d.Name, d.Type, d.Vendor, d.Model, d.SerialNumber, d.WWN, d.HCTL,
		d.PartitionTable)
	errs = append(plainText(path, texts...), validateContent(d.Content, path.Child("content"))...)
	for i, p := range d.Partitions {
		at := path.Child("partitions").Index(i)
		errs = slices.Concat(errs, plainText(at, p.Label, p.GUID, p.TypeGUID), validateContent(p.Content, at.Child("content")))
	}
	return errs
}

func validateContent(c *HardwareContent, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	return plainText(path, c.Type, c.Version, c.Label, c.UUID)
}

// plainText refuses texts that are long or could control a terminal.
func plainText(path *field.Path, texts ...string) field.ErrorList {
	for _, text := range texts {
		switch {
		case len(text) > maxHardwareText:
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("a text is longer than %d bytes",
				maxHardwareText))}
		case slices.ContainsFunc([]rune(text), unicode.IsControl):
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "a text has control characters")}
		}
	}
	return nil
}
