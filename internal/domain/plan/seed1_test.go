package plan

import (
	"fmt"
	"strings"
	"testing"

	"glowplug/internal/domain/disk"
)

// gib500 is the disk of the tests: 500 GiB with a GPT of sgdisk, and one partition of 1 GiB at
// 1 MiB that contains ext4.
func testDisk() *disk.Facts {
	d := disk.Blank("/dev/sda", 500<<30)
	d.Table, d.First, d.Last = disk.TableGPT, 34, d.Sectors()-34
	d.Partitions = []disk.Partition{{
		Number: 1, Path: "/dev/sda1", Start: 2048, Size: 1 << 21, Label: "old", GUID: "11111111-2222-3333-4444-555555555555",
		TypeGUID: linuxData,
		Content: disk.Content{Known: true, Type: "ext4", Label: "fs", UUID: "0a8b4d0e-6c5f-4f5b-9d0a-0f4f3c1b2a10",
			Bytes: 1 << 30},
	}}
	return &disk.Facts{Source: disk.SourceLsblk, Disks: []disk.Disk{d}}
}

func blankDisk() *disk.Facts {
	return &disk.Facts{Source: disk.SourceBlank, Disks: []disk.Disk{disk.Blank("/dev/sda", 500<<30)}}
}

// planOf plans a config whose members are given without the ignition section.
func planOf(t *testing.T, facts *disk.Facts, members string) *Plan {
	t.Helper()
	p, err := New([]byte(`{"ignition":{"version":"3.4.0"},`+members+`}`), facts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// partitions are the members of a config with partitions of /dev/sda.
func partitions(parts ...string) string {
	return `"storage":{"disks":[{"device":"/dev/sda","partitions":[` + strings.Join(parts, ",") + `]}]}`
}

// summary lists the steps of a plan, apart from those of the machine, one a line.
func summary(p *Plan) string {
	var lines []string
	for i := range p.Devices {
		walk(p.Devices[i].Steps, func(s *Step) {
			line := fmt.Sprintf("%s %s %s", s.Action, s.Kind, s.Name)
			if len(s.Loses) > 0 {
				line += ", loses " + strings.Join(s.Loses, " and ")
			}
			lines = append(lines, line)
		})
	}
	return strings.Join(lines, "\n")
}

func wantSteps(t *testing.T, p *Plan, outcome string, lines ...string) {
	t.Helper()
	if got := summary(p); got != strings.Join(lines, "\n") || p.Outcome != outcome {
		t.Errorf("outcome %s, want %s; steps:\n%s\nwant:\n%s", p.Outcome, outcome, got, strings.Join(lines, "\n"))
	}
}

const lostOld = `, loses partition 1 "old", 1 GiB, ext4 "fs"`

// TestSeed1Partitions has a test for each row of the table of the operator notes: whether a
// partition with the number is present, shouldExist, and wipePartitionEntry.
func TestSeed1Partitions(t *testing.T) {
	for _, row := range []struct {
		present, shouldExist, wipe bool
		action                     string // of the notes
		outcome, want              string
	}{
		{false, false, false, "Do nothing", Safe, "keep partition 1"},
		{false, false, true, "Do nothing", Safe, "keep partition 1"},
		{false, true, false, "Create specified partition", Safe, "create partition 1"},
		{false, true, true, "Create specified partition", Safe, "create partition 1"},
		{true, false, false, "Fail", Fails, "fail partition 1"},
		{true, false, true, "Delete existing partition", Destroys, "delete partition 1" + lostOld},
		{true, true, false, "Check if existing partition matches the specified one: it does", Safe, "reuse partition 1"},
		{true, true, true, "Check if existing partition matches the specified one: it does", Safe, "reuse partition 1"},
	} {
		t.Run(fmt.Sprintf("present %v, shouldExist %v, wipePartitionEntry %v: %s", row.present, row.shouldExist, row.wipe,
			row.action), func(t *testing.T) {
			facts := blankDisk()
			if row.present {
				facts = testDisk()
			}
			config := partitions(fmt.Sprintf(`{"number":1,"shouldExist":%v,"wipePartitionEntry":%v}`, row.shouldExist, row.wipe))
			wantSteps(t, planOf(t, facts, config), row.outcome, row.want)
		})
	}
	for _, row := range []struct {
		name          string
		wipe          bool
		outcome, want string
	}{
		{"present true, shouldExist true, wipePartitionEntry false: fail if it does not match", false, Fails,
			`fail partition 1 "new"`},
		{"present true, shouldExist true, wipePartitionEntry true: delete existing partition and create specified " +
			"partition if it does not match", true, Destroys, `wipe partition 1 "new"` + lostOld},
	} {
		t.Run(row.name, func(t *testing.T) {
			part := fmt.Sprintf(`{"number":1,"label":"new","startMiB":2048,"sizeMiB":64,"wipePartitionEntry":%v}`, row.wipe)
			wantSteps(t, planOf(t, testDisk(), partitions(part)), row.outcome, row.want)
		})
	}
}

// TestSeed1Matching has a test for each sentence of the notes on when a partition matches.
func TestSeed1Matching(t *testing.T) {
	matches := func(attribute string) string {
		t.Helper()
		return summary(planOf(t, testDisk(), partitions(`{"number":1,`+attribute+`}`)))
	}
	t.Run("A partition matches if all of the specified attributes (label, start, size, uuid, and typeGuid) are the same.",
		func(t *testing.T) {
			for _, c := range []struct{ same, other string }{
				{`"label":"old"`, `"label":"other"`},
				{`"startMiB":1`, `"startMiB":2`},
				{`"sizeMiB":1024`, `"sizeMiB":1023`},
				{`"guid":"11111111-2222-3333-4444-555555555555"`, `"guid":"21111111-2222-3333-4444-555555555555"`},
				{`"typeGuid":"0fc63daf-8483-4772-8e79-3d69d8477de4"`, `"typeGuid":"C12A7328-F81F-11D2-BA4B-00A0C93EC93B"`},
			} {
				if got := matches(c.same); !strings.HasPrefix(got, "reuse ") {
					t.Errorf("%s: %s", c.same, got)
				}
				if got := matches(c.other); !strings.HasPrefix(got, "fail ") {
					t.Errorf("%s: %s", c.other, got)
				}
			}
		})
	t.Run("Specifying uuid or typeGuid as an empty string is the same as not specifying them.", func(t *testing.T) {
		if got := matches(`"guid":"","typeGuid":""`); got != "reuse partition 1" {
			t.Error(got)
		}
	})
	t.Run("When 0 is specified for start or size, Ignition checks if the existing partition's start / size match what "+
		"they would be if all of the partitions specified were to be deleted (if allowed by wipePartitionEntry), then "+
		"recreated if shouldExist is true.", func(t *testing.T) {
		if got := matches(`"startMiB":0`); got != "reuse partition 1" { // the disk would be empty, and 1 MiB is its begin
			t.Error(got)
		}
		if got := matches(`"sizeMiB":0`); got != "fail partition 1" { // it would have the whole disk
			t.Error(got)
		}
		whole := testDisk()
		whole.Disks[0].Partitions[0].Size = whole.Disks[0].Last - 2048 + 1
		wantSteps(t, planOf(t, whole, partitions(`{"number":1,"startMiB":0,"sizeMiB":0}`)), Safe, "reuse partition 1")
	})
	t.Run("resize: a partition that matches in all but its size is resized", func(t *testing.T) {
		got := planOf(t, testDisk(), partitions(`{"number":1,"label":"old","sizeMiB":2048,"resize":true}`))
		wantSteps(t, got, Safe, `resize partition 1 "old"`)
		got = planOf(t, testDisk(), partitions(`{"number":1,"label":"old","sizeMiB":512,"resize":true}`))
		wantSteps(t, got, Destroys, `resize partition 1 "old"`+lostOld+`: only the first 512 MiB are left`)
	})
}

// TestSeed1Numbers has a test for each sentence of the notes on number, start and size.
func TestSeed1Numbers(t *testing.T) {
	after := func(t *testing.T, facts *disk.Facts, config string) string {
		t.Helper()
		p := planOf(t, facts, config)
		var parts []string
		for _, d := range p.Devices {
			for _, part := range d.After {
				if part.Number > 0 {
					parts = append(parts, fmt.Sprintf("%d: %d+%d", part.Number, part.Start>>20, part.Size>>20))
				}
			}
		}
		return p.Outcome + " " + strings.Join(parts, ", ")
	}
	check := func(name string, facts func() *disk.Facts, want string, parts ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			if got := after(t, facts(), partitions(parts...)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	const rest = 500<<10 - 1025 - 1 // MiB behind the old partition, without the copy of the table
	// hole is a disk with free blocks of 99 MiB and 400 GiB.
	hole := func() *disk.Facts {
		facts := testDisk()
		d := &facts.Disks[0]
		d.Partitions[0].Start = 100 << 11
		return facts
	}
	check("Specifying number as 0 will use the next available partition number.", testDisk,
		"safe 1: 1+1024, 2: 1025+64", `{"number":0,"label":"a","sizeMiB":64}`)
	check("If number is not specified it will be treated as 0.", testDisk, "safe 1: 1+1024, 2: 1025+64",
		`{"label":"a","sizeMiB":64}`)
	check("Specifying start as 0 will use the starting sector of the largest available block. This is not necessarily the "+
		"first available block large enough.", hole, "safe 1: 100+1024, 2: 1124+64", `{"number":2,"startMiB":0,"sizeMiB":64}`)
	check("If start is not specified and a partition with the same number exists, Ignition will use the start of the existing "+
		"partition, unless wipePartitionEntry is set.", hole, "safe 1: 100+2048",
		`{"number":1,"label":"old","sizeMiB":2048,"resize":true}`)
	check("If start is not specified and there is no existing partition, Ignition will use the starting sector of the "+
		"largest block.", hole, "safe 1: 100+1024, 2: 1124+64", `{"number":2,"sizeMiB":64}`)
	check("If start is not specified and wipePartitionEntry is set, Ignition will use the starting sector of the largest block.",
		hole, "destroys 1: 1+2048", `{"number":1,"label":"new","sizeMiB":2048,"wipePartitionEntry":true}`)
	check("Specifying size as 0 means the partition should span to the end of the largest available block.", testDisk,
		fmt.Sprintf("safe 1: 1+1024, 2: 1025+%d", rest), `{"number":2,"sizeMiB":0}`)
	check("If the starting sector is not within the largest available block, Ignition will fail.", hole, "fails ",
		`{"number":2,"startMiB":10,"sizeMiB":0}`)
	check("If size is not specified and a partition with the same number exists, it will use the value of the existing "+
		"partition.", testDisk, "safe 1: 1+1024", `{"number":1,"label":"old"}`)
	check("If size is not specified and there is no existing partition, size acts as if it were set to 0.", testDisk,
		fmt.Sprintf("safe 1: 1+1024, 2: 1025+%d", rest), `{"number":2}`)
}

// TestSeed1Filesystems has a test for each possibility of the notes on file systems.
func TestSeed1Filesystems(t *testing.T) {
	const lost = `, loses ext4 "fs" on /dev/sda1, 1 GiB`
	plain := testDisk()
	plain.Disks[0].Partitions[0].Content = disk.Content{Known: true}
	for _, c := range []struct {
		name          string
		facts         *disk.Facts
		fs            string
		outcome, want string
	}{
		{"When there is no preexisting filesystem, Ignition will always create the desired filesystem.", plain,
			`"format":"xfs"`, Safe, "create filesystem xfs"},
		{"When there is no preexisting filesystem, Ignition will always create the desired filesystem: also with wipeFilesystem.",
			plain, `"format":"xfs","wipeFilesystem":true`, Safe, "create filesystem xfs"},
		{"If wipeFilesystem is set to true, Ignition will always wipe any preexisting filesystem: one of the correct type",
			testDisk(), `"format":"ext4","wipeFilesystem":true`, Destroys, "wipe filesystem ext4" + lost},
		{"If wipeFilesystem is set to true, Ignition will always wipe any preexisting filesystem: one of an incorrect type",
			testDisk(), `"format":"xfs","wipeFilesystem":true`, Destroys, "wipe filesystem xfs" + lost},
		{"If the filesystem is of the correct type, has a matching label, and has a matching UUID, then Ignition will reuse " +
			"the filesystem.", testDisk(), `"format":"ext4","label":"fs","uuid":"0A8B4D0E-6c5f-4f5b-9d0a-0f4f3c1b2a10"`, Safe,
			`reuse filesystem ext4 "fs"`},
		{"If the label or UUID is not set in the Ignition config, they don't need to match for Ignition to reuse the " +
			"filesystem.", testDisk(), `"format":"ext4"`, Safe, "reuse filesystem ext4"},
		{"If the preexisting filesystem is not of the correct type, then Ignition will fail: the type", testDisk(),
			`"format":"btrfs"`, Fails, "fail filesystem btrfs"},
		{"If the preexisting filesystem is not of the correct type, then Ignition will fail: the label", testDisk(),
			`"format":"ext4","label":"x"`, Fails, `fail filesystem ext4 "x"`},
		{"If the preexisting filesystem is not of the correct type, then Ignition will fail: the UUID", testDisk(),
			`"format":"ext4","uuid":"1a8b4d0e-6c5f-4f5b-9d0a-0f4f3c1b2a10"`, Fails, "fail filesystem ext4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantSteps(t, planOf(t, c.facts, `"storage":{"filesystems":[{"device":"/dev/sda1",`+c.fs+`}]}`), c.outcome, c.want)
		})
	}
}
