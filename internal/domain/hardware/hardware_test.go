package hardware

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
)

const lsblk = `{"blockdevices":[
	{"name":"sda","type":"disk","size":1073741824,"serial":"S1","rota":true,"pttype":"gpt","fstype":null,"children":[
		{"name":"sda1","type":"part","size":1048576,"start":2048,"partuuid":"aa","partlabel":"data","fstype":"ext4","label":"x"}]},
	{"name":"loop0","type":"loop","size":4096,"pttype":null,"fstype":"squashfs"}]}`

const sfdisk = `{"partitiontable":{"label":"gpt","device":"/dev/sda","unit":"sectors","firstlba":34,"lastlba":2097118,"sectorsize":512,
	"partitions":[{"node":"/dev/sda1","start":2048,"size":2048,"type":"T","uuid":"aa","name":"data"}]}}`

func TestRead(t *testing.T) {
	whole := `{"lsblk":` + lsblk + `,"sfdisk":[` + sfdisk + `],"memoryKiB":8388608,"hostname":"node-7",
		"lscpu":{"lscpu":[{"field":"Architecture:","data":"x86_64"},{"field":"CPU(s):","data":"8","children":[]},
			{"field":"Vendor ID:","data":"V","children":[{"field":"Model name:","data":"M","children":[
				{"field":"CPU max MHz:","data":"3500.0000"}]}]}]},
		"ip":[{"ifname":"lo","link_type":"loopback","address":"00:00:00:00:00:00"},
			{"ifname":"eno1","link_type":"ether","address":"52:54:00:00:00:07","addr_info":[{"local":"fe80::1","scope":"link"},
				{"local":"10.0.0.7","scope":"global"}]}],
		"dmi":{"vendor":"Maker \n","product":"P","serial":"S"}}`
	got, err := Read([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.HardwareDetails{
		SystemVendor: &v1.HardwareSystemVendor{Manufacturer: "Maker", ProductName: "P", SerialNumber: "S"},
		RAMMebibytes: 8192, Hostname: "node-7",
		CPU:  &v1.HardwareCPU{Arch: "x86_64", Count: 8, Model: "M", ClockMegahertz: 3500},
		NICs: []v1.HardwareNIC{{Name: "eno1", MAC: "52:54:00:00:00:07", IP: "10.0.0.7"}},
		Storage: []v1.HardwareDisk{{
			Name: "/dev/sda", SizeBytes: 1073741824, SerialNumber: "S1", Rotational: true, PartitionTable: "gpt", SectorBytes: 512,
			FirstSector: 34, LastSector: 2097118, Partitions: []v1.HardwarePartition{{
				Number: 1, StartSector: 2048, SizeSectors: 2048, Label: "data", GUID: "aa", TypeGUID: "T",
				Content: &v1.HardwareContent{Type: "ext4", Label: "x"},
			}},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("got  %s\nwant %s", a, b)
	}
	alone, err := Read([]byte(lsblk))
	if err != nil || len(alone.Storage) != 1 {
		t.Errorf("lsblk alone: %+v, %v", alone, err)
	}
	metal3, err := Read([]byte(`{"cpu":{"count":4},"storage":[{"name":"/dev/sda","sizeBytes":1000,"type":"SSD"}]}`))
	if err != nil || metal3.CPU.Count != 4 || metal3.Storage[0].Type != "SSD" {
		t.Errorf("Metal3: %+v, %v", metal3, err)
	}
}

// TestReportKeepsTheLengthOfTheTable: a plan for the host knows how many partitions its table has room for.
func TestReportKeepsTheLengthOfTheTable(t *testing.T) {
	table := strings.Replace(sfdisk, `"unit"`, `"table-length":"4","unit"`, 1)
	details, err := Read([]byte(`{"lsblk":` + lsblk + `,"sfdisk":[` + table + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := disk.OfHardware(details)
	if err != nil || facts.Disks[0].Entries != 4 {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestBadReports: each mistake, and each attempt to store too much, has its error.
func TestBadReports(t *testing.T) {
	var disks []string
	for i := range 200 {
		disks = append(disks, fmt.Sprintf(`{"name":"/dev/sd%d","model":%q,"vendor":%q}`, i, strings.Repeat("m", 200), strings.Repeat("v", 200)))
	}
	for document, want := range map[string]string{
		"":                                      "is no JSON object",
		`{}`:                                    "of no known tool",
		`{"lsblk":{}}`:                          "lsblk: the document about disks is of no known tool",
		`{"lsblk":` + lsblk + `,"sfdisk":[{}]}`: "sfdisk: the document about disks is of no known tool",
		`{"lsblk":` + lsblk + `,"lscpu":[]}`:    "lscpu: ",
		`{"lsblk":` + lsblk + `,"memoryKiB":"much"}`:                                                                              "the report cannot be read",
		`{"lsblk":` + lsblk + `,"hostname":"a\u001b[2J"}`:                                                                         "control characters",
		`{"storage":[{"name":"/dev/sda","model":"` + strings.Repeat("x", 300) + `"}]}`:                                            "longer than 256 bytes",
		`{"storage":[{"name":"/dev/sda","partitionTableLength":-1}]}`:                                                             "a partition table of -1 entries",
		`{"storage":[{"name":"sda"}]}`:                                                                                            "has to be that of a device",
		`{"storage":[` + strings.Join(disks, ",") + `]}`:                                                                          "at most 64 KiB are kept",
		`{"storage":[` + strings.Repeat(`{"name":"/dev/a"},`, 300) + `{"name":"/dev/b"}]}`:                                        "storage",
		strings.Repeat(" ", MaxDocument+1):                                                                                        "is larger than 1 MiB",
		`{"lsblk":` + lsblk + `,"lscpu":{"lscpu":` + strings.Repeat(`[{"children":`, 20) + `[]` + strings.Repeat(`}]`, 20) + `}}`: "nested too deeply",
	} {
		if _, err := Read([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v; want %q", document, err, want)
		}
	}
}

// FuzzRead: whatever is read is valid, and reading it again gives the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(lsblk))
	f.Add([]byte(sfdisk))
	f.Add([]byte(`{"lsblk":` + lsblk + `,"sfdisk":[` + sfdisk + `],"ip":[{"ifname":"a","link_type":"ether"}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		details, err := Read(document)
		if err != nil || len(details.Storage) == 0 {
			return
		}
		kept, err := json.Marshal(details)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(kept)
		if err != nil {
			t.Fatalf("%s: %v", kept, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(kept) {
			t.Errorf("%s\n%s", kept, twice)
		}
	})
}
