package disk

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// lsblkOutput is what lsblk --bytes --json writes, cut to the columns that are read.
const lsblkOutput = `{"blockdevices": [
  {"name":"loop9","path":"/dev/loop9","type":"rom","size":0},
  {"name":"nvme0n1","path":"/dev/nvme0n1","type":"disk","size":512110190592,"log-sec":512,"model":"Model X ","serial":"S1",
   "wwn":"eui.1","pttype":"gpt","fstype":null,"children":[
    {"name":"nvme0n1p1","path":"/dev/nvme0n1p1","type":"part","size":1073741824,"start":2048,"partlabel":"boot",
     "partuuid":"aa","parttype":"bb","fstype":"vfat","fsver":"FAT32","label":"EFI","uuid":"1111-2222"},
    {"name":"nvme0n1p2","path":"/dev/nvme0n1p2","type":"part","size":"2147483648","start":"2099200","partuuid":"cc","fstype":null}]},
  {"name":"sdb","path":"/dev/sdb","type":"disk","size":4000787030016,"log-sec":4096,"fstype":"xfs","label":"data","pttype":null}]}`

func TestReadLsblk(t *testing.T) {
	facts, err := Read([]byte(lsblkOutput))
	if err != nil {
		t.Fatal(err)
	}
	want := &Facts{Source: SourceLsblk, Disks: []Disk{
		{
			Path: "/dev/nvme0n1", Model: "Model X", Serial: "S1", WWN: "eui.1", Size: 512110190592, SectorSize: 512,
			Table: TableGPT, Content: Content{Known: true, Bytes: 512110190592}, Partitions: []Partition{
				{Number: 1, Path: "/dev/nvme0n1p1", Start: 2048, Size: 1 << 21, Label: "boot", GUID: "aa", TypeGUID: "bb",
					Content: Content{Known: true, Type: "vfat", Version: "FAT32", Label: "EFI", UUID: "1111-2222", Bytes: 1 << 30}},
				{Number: 2, Path: "/dev/nvme0n1p2", Start: 2099200, Size: 1 << 22, GUID: "cc",
					Content: Content{Known: true, Bytes: 2 << 30}},
			},
		},
		{Path: "/dev/sdb", Size: 4000787030016, SectorSize: 4096, Content: Content{Known: true, Type: "xfs", Label: "data",
			Bytes: 4000787030016}},
	}}
	if !reflect.DeepEqual(facts, want) {
		t.Errorf("got  %+v\nwant %+v", facts, want)
	}
}

// TestLsblkWithoutUdev: without udev, lsblk knows no contents, and says so nowhere.
func TestLsblkWithoutUdev(t *testing.T) {
	facts, err := Read([]byte(`{"blockdevices":[{"name":"sda","type":"disk","size":1073741824,"fstype":null,"pttype":null,
		"children":[{"name":"sda1","type":"part","size":1048576,"start":2048,"partuuid":null,"fstype":null}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := facts.Disks[0]; d.Table != TableUnknown || d.Partitions[0].Content.Known || d.Content.Known {
		t.Errorf("%+v", d)
	}
	columns, err := Read([]byte(`{"blockdevices":[{"name":"sda","type":"disk","size":1073741824}]}`))
	if err != nil || columns.Disks[0].Table != TableUnknown {
		t.Errorf("without the columns fstype and pttype: %+v, %v", columns, err)
	}
}

// TestLsblkRoundsSizes without --bytes.
func TestLsblkRoundsSizes(t *testing.T) {
	facts, err := Read([]byte(`{"blockdevices":[{"name":"sda","type":"disk","size":"931.5G","fstype":null,"pttype":null}]}`))
	if err != nil || !facts.Disks[0].Rounded || facts.Disks[0].Size != 1000190509056 {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestLsblkAsAList: without the column NAME, lsblk does not nest partitions.
func TestLsblkAsAList(t *testing.T) {
	facts, err := Read([]byte(`{"blockdevices":[{"path":"/dev/sda","type":"disk","size":1073741824,"fstype":null,"pttype":"gpt"},
		{"path":"/dev/sda3","type":"part","size":1048576,"start":2048,"partuuid":"x","fstype":"swap"}]}`))
	if err != nil || len(facts.Disks) != 1 || facts.Disks[0].Partitions[0].Number != 3 {
		t.Errorf("%+v, %v", facts, err)
	}
}

const sfdiskOutput = `{"partitiontable":{"label":"gpt","id":"X","device":"/dev/sdb","unit":"sectors","firstlba":34,
	"lastlba":976754640,"sectorsize":4096,"partitions":[{"node":"/dev/sdb1","start":256,"size":512,"type":"T","uuid":"U","name":"n"}]}}`

func TestReadSfdisk(t *testing.T) {
	facts, err := Read([]byte(sfdiskOutput))
	if err != nil {
		t.Fatal(err)
	}
	d := facts.Disks[0]
	if d.First != 34 || d.Last != 976754640 || d.SectorSize != 4096 || d.Partitions[0].Content.Known {
		t.Errorf("%+v", d)
	}
}

// TestJoin takes the table from sfdisk and the contents from lsblk, in any order.
func TestJoin(t *testing.T) {
	read := func(document string) *Facts {
		facts, err := Read([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	lsblk := `{"blockdevices":[{"name":"sdb","type":"disk","size":4000787030016,"log-sec":4096,"pttype":"gpt","fstype":null,
		"children":[{"name":"sdb1","type":"part","size":"2M","start":2048,"partuuid":"U","fstype":"ext4"}]}]}`
	for _, order := range [][]*Facts{{read(lsblk), read(sfdiskOutput)}, {read(sfdiskOutput), read(lsblk)}} {
		facts, err := Join(order...)
		if err != nil {
			t.Fatal(err)
		}
		d := facts.Disks[0]
		if len(facts.Disks) != 1 || d.First != 34 || d.Rounded || d.Partitions[0].Start != 256 || d.Partitions[0].Content.Type != "ext4" {
			t.Errorf("%s: %+v", facts.Source, d)
		}
	}
	if _, err := Join(read(lsblk), read(lsblk)); err == nil {
		t.Error("a disk that two documents of lsblk have is refused")
	}
}

func TestReadHardware(t *testing.T) {
	const hardware = `{"storage":[{"name":"/dev/disk/by-path/pci-1","alternateNames":["/dev/sda"],"sizeBytes":500107862016,
		"serialNumber":"S2","model":"A Disk","wwn":"0x5","rotational":false}],"cpu":{"count":8}}`
	for _, document := range []string{hardware, `{"kind":"BareMetalHost","status":{"hardware":` + hardware + `}}`} {
		facts, err := Read([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		index := NewIndex(facts)
		if d := index.Find("/dev/sda"); d == nil || d.Size != 500107862016 || d.Table != TableUnknown {
			t.Errorf("%+v", facts)
		}
		if index.Find("/dev/disk/by-id/wwn-0x5") == nil || index.Find("/dev/disk/by-id/ata-A_Disk_S2") == nil ||
			index.Find("/dev/disk/by-id/ata-Other_S2") != nil {
			t.Error("a disk has names with its WWN and its serial number")
		}
	}
}

// TestBadDocuments: each mistake has an error that says what it is.
func TestBadDocuments(t *testing.T) {
	device := func(fields string) string {
		return `{"blockdevices":[{"name":"sda","type":"disk","fstype":null,` + fields + `}]}`
	}
	part := func(fields string) string {
		return device(`"pttype":"gpt","size":1073741824,"children":[{"name":"sda1","type":"part","partuuid":"x",` + fields + `}]`)
	}
	many := strings.Repeat(`{"name":"sda1","type":"part","size":512,"start":2048},`, 9_999) + `{"name":"sda2","type":"part"}`
	for document, want := range map[string]string{
		``:                         "is no JSON object",
		`[]`:                       "is no JSON object",
		`{"volumes":[]}`:           "of no known tool: want lsblk --bytes --json -O, sfdisk --json, or a BareMetalHost",
		`{"blockdevices":{}}`:      "the output of lsblk cannot be read",
		`{"partitiontable":[]}`:    "the output of sfdisk cannot be read",
		`{"partitiontable":{}}`:    "names no device",
		`{"storage":[]}`:           "the hardware of the host has no disks",
		`{"kind":"BareMetalHost"}`: "has no status.hardware: its disks are unknown",
		`{"partitiontable":{"device":"/dev/sda","unit":"cylinders"}}`: `counts in "cylinders"`,
		device(`"size":-1`):                                                  "a size of -1 bytes cannot be",
		device(`"size":9000000000000000000`):                                 "a size of 9000000000000000000 bytes cannot be",
		device(`"size":"much"`):                                              `"much" is no size`,
		device(`"size":512,"log-sec":520`):                                   "a logical sector of 520 bytes cannot be",
		part(`"size":1048576,"start":4194304`):                               "behind the end of the disk",
		part(`"size":-5,"start":2048`):                                       "an impossible start or size",
		part(`"size":512,"start":"2.5M"`):                                    `"2.5M" is no whole number`,
		device(`"pttype":"gpt","size":1073741824,"children":[` + many + `]`): "it has 10000 partitions: at most 128",
		`{"blockdevices":[{"name":"sda","type":"disk","size":512},{"name":"sda","type":"disk","size":512}]}`:   "is listed twice",
		`{"storage":[{"name":"","partitions":[{"number":1}]}]}`:                                                "has to be that of a device",
		`{"storage":[{"name":"/dev/a","partitionTable":"none","partitions":[{"number":1}]}]}`:                  "and no partition table",
		`{"storage":[{"name":"sda","sizeBytes":512}]}`:                                                         "has to be that of a device",
		part(`"size":4096,"start":2048},{"name":"sda2","type":"part","partuuid":"y","size":4096,"start":2050`): "1 and 2 overlap",
	} {
		if _, err := Read([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v; want %q", document, err, want)
		}
	}
	var disks []string
	for i := range 1_001 {
		disks = append(disks, fmt.Sprintf(`{"name":"sd%d","type":"disk","size":512}`, i))
	}
	if _, err := Read([]byte(`{"blockdevices":[` + strings.Join(disks, ",") + `]}`)); err == nil {
		t.Error("1,001 disks are refused")
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1024": 1024, "500GB": 500_000_000_000, "64GiB": 64 << 30, "64G": 64 << 30, "1.5TiB": 3 << 39, "1Ki": 1024,
	} {
		if got, err := ParseSize(text); err != nil || got != want/512*512 {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "GB", "-1", "0", "1XB", "1GiBB", "2EiB", "1iB", "NaN", "Inf", "9e99"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func TestNumberOf(t *testing.T) {
	for _, c := range []struct {
		disk, partition string
		want            int
	}{
		{"/dev/sda", "/dev/sda1", 1}, {"/dev/sda", "/dev/sdab1", 0}, {"/dev/nvme0n1", "/dev/nvme0n1p12", 12},
		{"/dev/nvme0n1", "/dev/nvme0n12", 0}, {"/dev/sda", "/dev/sda", 0}, {"/dev/sda", "/dev/sda+1", 0},
		{"/dev/disk/by-id/a1", "/dev/disk/by-id/a1-part3", 3}, {"/dev/disk/by-id/a", "/dev/disk/by-id/a3", 0},
	} {
		if got := NumberOf(c.disk, c.partition); got != c.want {
			t.Errorf("%s %s: %d", c.disk, c.partition, got)
		}
	}
}

// FuzzRead: whatever is read can be used, and comes from no panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(lsblkOutput))
	f.Add([]byte(sfdiskOutput))
	f.Add([]byte(`{"storage":[{"name":"/dev/sda","sizeBytes":512}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		facts, err := Read(document)
		if err != nil {
			return
		}
		for i := range facts.Disks {
			d := &facts.Disks[i]
			table := GPTOf(d)
			part, err := table.Create(0, 0, 0)
			if err == nil && (part.Size < 1 || part.Start < table.First || part.Start+part.Size-1 > table.Last) {
				t.Errorf("%+v in %+v", part, table)
			}
			table.Free()
		}
	})
}

// TestHardwareRoundTrip: the hardware of a host has all that lsblk and sfdisk say.
func TestHardwareRoundTrip(t *testing.T) {
	for _, document := range []string{lsblkOutput, sfdiskOutput} {
		facts, err := Read([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		back, err := OfHardware(&v1.HardwareDetails{Storage: facts.Hardware()})
		if err != nil {
			t.Fatal(err)
		}
		back.Source = facts.Source
		if !reflect.DeepEqual(back, facts) {
			t.Errorf("got  %+v\nwant %+v", back, facts)
		}
	}
}

// TestContentBesideAPartitionTable: blkid takes the boot sector of an exFAT for a DOS table, and says
// both. What the disk contains is in the facts, and in the hardware of a host.
func TestContentBesideAPartitionTable(t *testing.T) {
	const lsblk = `{"blockdevices":[{"name":"sda","type":"disk","size":1073741824,"fstype":"exfat","label":"DATA","pttype":"dos"}]}`
	const sfdisk = `{"partitiontable":{"label":"dos","device":"/dev/sda","unit":"sectors","sectorsize":512}}`
	read := func(document string) *Facts {
		facts, err := Read([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	vfat := strings.NewReplacer("exfat", "vfat", `"dos"`, "null").Replace(lsblk) // of which sfdisk says dos
	for _, documents := range [][]string{{lsblk}, {lsblk, sfdisk}, {sfdisk, lsblk}, {vfat}, {vfat, sfdisk}} {
		var all []*Facts
		for _, document := range documents {
			all = append(all, read(document))
		}
		facts, err := Join(all...)
		if err != nil {
			t.Fatal(err)
		}
		back, err := OfHardware(&v1.HardwareDetails{Storage: facts.Hardware()})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []Disk{facts.Disks[0], back.Disks[0]} {
			if c := d.Content; !c.Known || !strings.HasSuffix(c.Type, "fat") || c.Label != "DATA" || c.Bytes != 1<<30 {
				t.Errorf("%s: %+v", facts.Source, c)
			}
		}
	}
	if d := read(sfdisk).Disks[0]; d.Content.Known {
		t.Errorf("sfdisk alone does not say what a disk without partitions contains: %+v", d)
	}
}

// TestSfdiskTable: the length of the table, and labels without the white space at their end, which
// libblkid trims and sfdisk does not.
func TestSfdiskTable(t *testing.T) {
	facts, err := Read([]byte(`{"partitiontable":{"label":"gpt","device":"/dev/sda","unit":"sectors","firstlba":2048,
		"lastlba":409597,"table-length":"4","sectorsize":512,"partitions":[{"node":"/dev/sda1","start":2048,"size":40960,"name":" old "}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := facts.Disks[0]; d.Entries != 4 || d.Partitions[0].Label != " old" || d.Sectors() != 409600 {
		t.Errorf("%+v", d)
	}
	if _, err := Read([]byte(`{"partitiontable":{"label":"gpt","device":"/dev/sda","unit":"sectors","table-length":"-1"}}`)); err == nil {
		t.Error("a table of -1 entries is read")
	}
}
