// Package hardware reads what a machine reports of its hardware: the output of lsblk, sfdisk, lscpu
// and ip, or a document in the shape of Metal3.
package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
)

// Bounds of the document and of the stored hardware, in bytes.
const (
	MaxDocument = 1 << 20
	maxKept     = 64 << 10
)

// report has the outputs of several tools.
type report struct {
	Lsblk     json.RawMessage
	Sfdisk    []json.RawMessage
	Lscpu     json.RawMessage
	IP        []link
	MemoryKiB int64
	DMI       struct{ Vendor, Product, Serial string }
	Hostname  string
}

// Read reads a report: a document of package disk, or an object with the members lsblk, sfdisk (a
// list), lscpu, ip, memoryKiB, dmi and hostname. The result is valid, and bounded.
func Read(document []byte) (*v1.HardwareDetails, error) {
	if len(document) > MaxDocument {
		return nil, fmt.Errorf("the report is larger than %s", disk.Size(MaxDocument))
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, fmt.Errorf("the report is no JSON object: %w", err)
	}
	details := &v1.HardwareDetails{}
	switch {
	case top["lsblk"] != nil:
		r := &report{}
		if err := json.Unmarshal(document, r); err != nil {
			return nil, fmt.Errorf("the report cannot be read: %w", err)
		}
		if err := r.fill(details); err != nil {
			return nil, err
		}
	case top["storage"] != nil:
		if err := json.Unmarshal(document, details); err != nil {
			return nil, fmt.Errorf("the report cannot be read: %w", err)
		}
	default:
		facts, err := disk.Read(document)
		if err != nil {
			return nil, err
		}
		details.Storage = disksOf(facts)
	}
	return details, check(details)
}

// check refuses what status.hardware cannot hold.
func check(details *v1.HardwareDetails) error {
	if err := v1.CheckHardware(details); err != nil {
		return err
	}
	if _, err := disk.OfHardware(details); err != nil {
		return err
	}
	kept, err := json.Marshal(details)
	if err != nil {
		return err
	}
	if len(kept) > maxKept {
		return fmt.Errorf("the report has %s of facts: at most %s are kept", disk.Size(int64(len(kept))), disk.Size(maxKept))
	}
	return nil
}

// notDisks are devices that lsblk lists and that are no disks of the machine.
var notDisks = []string{"/dev/loop", "/dev/ram", "/dev/zram", "/dev/sr", "/dev/fd"}

func disksOf(facts *disk.Facts) []v1.HardwareDisk {
	return slices.DeleteFunc(facts.Hardware(), func(d v1.HardwareDisk) bool {
		return slices.ContainsFunc(notDisks, func(prefix string) bool { return strings.HasPrefix(d.Name, prefix) })
	})
}

func (r *report) fill(details *v1.HardwareDetails) error {
	facts, err := disk.Read(r.Lsblk)
	if err != nil {
		return fmt.Errorf("lsblk: %w", err)
	}
	for _, document := range r.Sfdisk {
		table, err := disk.Read(document)
		if err != nil {
			return fmt.Errorf("sfdisk: %w", err)
		}
		if facts, err = disk.Join(facts, table); err != nil {
			return fmt.Errorf("lsblk and sfdisk: %w", err)
		}
	}
	details.Storage = disksOf(facts)
	details.Hostname, details.RAMMebibytes = r.Hostname, r.MemoryKiB/1024
	if r.DMI.Vendor+r.DMI.Product+r.DMI.Serial != "" {
		details.SystemVendor = &v1.HardwareSystemVendor{
			Manufacturer: strings.TrimSpace(r.DMI.Vendor), ProductName: strings.TrimSpace(r.DMI.Product),
			SerialNumber: strings.TrimSpace(r.DMI.Serial),
		}
	}
	for _, l := range r.IP {
		if l.Type == "ether" {
			details.NICs = append(details.NICs, l.nic())
		}
	}
	details.CPU, err = processor(r.Lscpu)
	return err
}

// link is a network interface as ip -json address lists it.
type link struct {
	Name      string `json:"ifname"`
	Type      string `json:"link_type"`
	Address   string
	Addresses []struct{ Local, Scope string } `json:"addr_info"`
}

func (l *link) nic() v1.HardwareNIC {
	nic := v1.HardwareNIC{Name: l.Name, MAC: l.Address}
	for _, a := range l.Addresses {
		if a.Scope == "global" {
			nic.IP = a.Local
			break
		}
	}
	return nic
}

// processor reads the output of lscpu --json.
func processor(document json.RawMessage) (*v1.HardwareCPU, error) {
	if document == nil {
		return nil, nil
	}
	var list struct{ Lscpu []lscpuField }
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, fmt.Errorf("lscpu: %w", err)
	}
	cpu := &v1.HardwareCPU{}
	return cpu, readFields(cpu, list.Lscpu, 0)
}

// lscpuField is a line of lscpu. Newer releases nest them.
type lscpuField struct {
	Field, Data string
	Children    []lscpuField
}

// maxNesting bounds the levels of lscpu, which has three.
const maxNesting = 8

func readFields(cpu *v1.HardwareCPU, fields []lscpuField, depth int) error {
	if depth > maxNesting {
		return errors.New("lscpu: the document is nested too deeply")
	}
	for _, f := range fields {
		switch f.Field {
		case "Architecture:":
			cpu.Arch = f.Data
		case "CPU(s):":
			cpu.Count, _ = strconv.ParseInt(f.Data, 10, 64) // 0: unknown
		case "Model name:":
			cpu.Model = f.Data
		case "CPU max MHz:":
			cpu.ClockMegahertz, _ = strconv.ParseFloat(f.Data, 64) // 0: unknown
		}
		if err := readFields(cpu, f.Children, depth+1); err != nil {
			return err
		}
	}
	return nil
}
