package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// step finds a step by kind and name.
func find(t *testing.T, p *Plan, kind, name string) *Step {
	t.Helper()
	var found *Step
	p.Walk(func(s *Step) {
		if s.Kind == kind && s.Name == name {
			found = s
		}
	})
	if found == nil {
		t.Fatalf("there is no step %s %s", kind, name)
	}
	return found
}

// TestPaths says what Ignition does with files, directories and links, and on which file system.
func TestPaths(t *testing.T) {
	p := planOf(t, testDisk(), `"storage":{
		"filesystems":[{"device":"/dev/sda1","format":"ext4","path":"/var/data"}],
		"directories":[{"path":"/var/data/d","overwrite":true},{"path":"/srv"}],
		"files":[
			{"path":"/etc/a","mode":420,"contents":{"source":"data:,x"}},
			{"path":"/etc/b","overwrite":true,"contents":{"source":"data:,x"}},
			{"path":"/etc/c","append":[{"source":"data:,x"}]},
			{"path":"/etc/d","user":{"name":"core"}},
			{"path":"/var/data/e","contents":{"source":"data:,x"}}],
		"links":[{"path":"/etc/l","target":"/x","hard":true},{"path":"/etc/s","target":"../x"}]}`)
	for _, want := range []struct {
		kind, name string
		action     Action
		detail     string
	}{
		{"file", "/etc/a", Create, "in the config, mode 0644"},
		{"file", "/etc/b", Overwrite, "in the config"},
		{"file", "/etc/c", Append, "1 part is appended"},
		{"file", "/etc/d", Change, "user core"},
		{"directory", "/srv", Create, ""},
		{"link", "/etc/l", Create, "hard, to /x"},
		{"link", "/etc/s", Create, "to ../x"},
	} {
		if s := find(t, p, want.kind, want.name); s.Action != want.action || s.Detail != want.detail {
			t.Errorf("%s: %s, %q", want.name, s.Action, s.Detail)
		}
	}
	if last := p.Machine[len(p.Machine)-2]; last.Name != "/etc/l" {
		t.Errorf("hard links come last: %v", last)
	}
	fs := find(t, p, "filesystem", "ext4")
	if len(fs.Steps) != 2 || fs.Steps[0].Name != "/var/data/d" || fs.Steps[1].Name != "/var/data/e" {
		t.Errorf("below the file system: %v", fs.Steps)
	}
	if d := find(t, p, "directory", "/var/data/d"); len(d.Loses) != 1 || p.Outcome != Destroys {
		t.Errorf("a directory that is overwritten on a file system that is reused: %v, %s", d, p.Outcome)
	}
}

// TestNewFilesystem: nothing is on a file system that this boot makes.
func TestNewFilesystem(t *testing.T) {
	p := planOf(t, blankDisk(), `"storage":{"disks":[{"device":"/dev/sda","partitions":[{"number":1}]}],
		"filesystems":[{"device":"/dev/sda1","format":"ext4","path":"/var"}],
		"files":[{"path":"/var/a","overwrite":true,"contents":{"source":"data:,x"}}]}`)
	if s := find(t, p, "file", "/var/a"); s.Action != Create || p.Outcome != Safe {
		t.Errorf("%v, %s", s, p.Outcome)
	}
}

// TestHiddenByMountUnit: a file is below a place where a unit mounts something after Ignition.
func TestHiddenByMountUnit(t *testing.T) {
	p := planOf(t, nil, `"storage":{"files":[{"path":"/srv/x/a","contents":{"source":"data:,x"}},{"path":"/srv/y"}]},
		"systemd":{"units":[{"name":"srv-x.mount","contents":"[Mount]\nWhat=/dev/sdb\nWhere = /srv/x\n"}]}`)
	if s := find(t, p, "file", "/srv/x/a"); len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "hides it") {
		t.Errorf("%v", s)
	}
	if s := find(t, p, "file", "/srv/y"); len(s.Notes) != 0 {
		t.Errorf("%v", s)
	}
}

func TestAccounts(t *testing.T) {
	p := planOf(t, nil, `"passwd":{"users":[
		{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA"]},{"name":"op","passwordHash":"$6$secret","groups":["sudo"]},
		{"name":"gone","shouldExist":false},{"name":"locked","passwordHash":""}],
		"groups":[{"name":"g"},{"name":"h","shouldExist":false}]}`)
	for _, want := range []struct {
		kind, name string
		action     Action
		detail     string
	}{
		{"user", "core", Change, "1 SSH key in place of those that an earlier Ignition wrote"},
		{"user", "op", Create, "the password is set, groups sudo"},
		{"user", "gone", Delete, ""},
		{"user", "locked", Create, "login by password is disabled"},
		{"group", "g", Create, ""},
		{"group", "h", Delete, ""},
	} {
		if s := find(t, p, want.kind, want.name); s.Action != want.action || s.Detail != want.detail {
			t.Errorf("%s: %s, %q", want.name, s.Action, s.Detail)
		}
	}
	text, err := json.Marshal(p)
	if err != nil || bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("AAAA")) {
		t.Errorf("a plan has neither keys nor hashes of passwords: %s", text)
	}
}

// TestNobodyCanLogIn warns of a config after which nobody gets into the machine.
func TestNobodyCanLogIn(t *testing.T) {
	const warning = "no user of the config can log in"
	for users, warns := range map[string]bool{
		`[]`:                                   true,
		`[{"name":"core"}]`:                    true,
		`[{"name":"core","passwordHash":"!"}]`: true,
		`[{"name":"core","sshAuthorizedKeys":["k"],"shouldExist":false}]`:         true,
		`[{"name":"core","sshAuthorizedKeys":["k"],"shell":"/usr/sbin/nologin"}]`: true,
		`[{"name":"core","sshAuthorizedKeys":["k"]}]`:                             false,
		`[{"name":"core"},{"name":"root","passwordHash":"$y$j9T$x"}]`:             false,
	} {
		p := planOf(t, nil, `"passwd":{"users":`+users+`}`)
		if got := strings.Contains(strings.Join(p.Warnings, "\n"), warning); got != warns {
			t.Errorf("%s: %v", users, p.Warnings)
		}
	}
	merging, err := New([]byte(`{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"http://x/"}]}}}`), nil)
	if err != nil || len(merging.Warnings) > 0 {
		t.Errorf("the users of a merged config are unknown: %v, %v", merging, err)
	}
}

func TestUnits(t *testing.T) {
	p := planOf(t, nil, `"systemd":{"units":[
		{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=x"},{"name":"b.service","mask":true},
		{"name":"c.service","enabled":true},{"name":"d.service","enabled":false},
		{"name":"e.service","dropins":[{"name":"x.conf","contents":"[Unit]"}]},{"name":"f.service"}]}`)
	for name, want := range map[string]Action{
		"a.service": Create, "b.service": Mask, "c.service": Enable, "d.service": Disable, "e.service": Change,
		"f.service": Keep,
	} {
		s := find(t, p, "unit", name)
		if s.Action != want {
			t.Errorf("%s: %s", name, s.Action)
		}
		needsImage := name == "c.service" || name == "d.service" || name == "e.service"
		if got := strings.Contains(strings.Join(s.Notes, ""), "the image needs to have the unit"); got != needsImage {
			t.Errorf("%s: %v", name, s.Notes)
		}
	}
	if e := find(t, p, "unit", "e.service"); len(e.Steps) != 1 || e.Steps[0].Name != "x.conf" {
		t.Errorf("drop-ins: %v", e)
	}
}

// TestSeed1Fetches has what a plan says of the operator notes on fetching.
func TestSeed1Fetches(t *testing.T) {
	p, err := New([]byte(`{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"https://u:pw@x/m.ign?token=secret"}]},
		"security":{"tls":{"certificateAuthorities":[{"source":"https://x/ca.pem"}]}}},
		"storage":{"files":[{"path":"/a","contents":{"source":"http://x/a","verification":{"hash":"sha256-`+
		strings.Repeat("0", 64)+`"}},"append":[{"source":"s3://bucket/b"},{"source":"data:,c"}]}]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"https://x/m.ign?…": "the content is not verified: Ignition takes what the server sends",
		"https://x/ca.pem":  "the content is not verified: Ignition takes what the server sends",
		"http://x/a":        "the content is verified by its sha256",
		"s3://bucket/b":     "the content is not verified: Ignition takes what the server sends",
	}
	p.Walk(func(s *Step) {
		if s.Kind != "source" {
			return
		}
		if want[s.Name] != s.Rule {
			t.Errorf("%s: %s", s.Name, s.Rule)
		}
		delete(want, s.Name)
		retries := strings.Contains(strings.Join(s.Notes, ""), "asks again while the server does not answer or answers with 5xx")
		if retries != strings.HasPrefix(s.Name, "http") {
			t.Errorf("%s: %v", s.Name, s.Notes)
		}
	})
	if len(want) > 0 {
		t.Errorf("not planned: %v", want)
	}
}

// TestSeed1SELinux: Ignition needs setfiles and a kernel where the image has SELinux.
func TestSeed1SELinux(t *testing.T) {
	p := planOf(t, nil, `"storage":{"files":[{"path":"/a"}]}`)
	s := find(t, p, "SELinux labels", "of what Ignition writes")
	if s.Action != Change || !strings.Contains(s.Rule, "setfiles") || !strings.Contains(s.Rule, "5.5") {
		t.Errorf("%v", s)
	}
}

func TestKernelArguments(t *testing.T) {
	p := planOf(t, nil, `"kernelArguments":{"shouldExist":["a=b"],"shouldNotExist":["quiet"]}`)
	if s := find(t, p, "kernel argument", "a=b"); s.Action != Create || !strings.Contains(s.Rule, "reboots once") {
		t.Errorf("%v", s)
	}
	if s := find(t, p, "kernel argument", "quiet"); s.Action != Delete {
		t.Errorf("%v", s)
	}
}

// twoDisks are two disks of 1 TiB, blank or with one content each.
func twoDisks(contents ...disk.Content) *disk.Facts {
	facts := &disk.Facts{Source: disk.SourceLsblk}
	for i, name := range []string{"/dev/sdb", "/dev/sdc"} {
		d := disk.Blank(name, 1<<40)
		if i < len(contents) {
			d.Content = contents[i]
			d.Content.Known, d.Content.Bytes = true, 1<<40
		}
		facts.Disks = append(facts.Disks, d)
	}
	return facts
}

// TestRaid: no kernel without md can hold this against Ignition; the rules are those of its source.
func TestRaid(t *testing.T) {
	const config = `"storage":{"raid":[{"name":"md","level":"raid1","devices":["/dev/sdb","/dev/sdc"]}],
		"filesystems":[{"device":"/dev/md/md","format":"ext4"}]}`
	wantSteps(t, planOf(t, twoDisks(), config), Safe, "create raid md", "create filesystem ext4")
	wantSteps(t, planOf(t, twoDisks(disk.Content{}, disk.Content{Type: "xfs", Label: "x"}), config), Destroys,
		`wipe raid md, loses xfs "x" on /dev/sdc, 1 TiB`, "create filesystem ext4")
	// mdadm puts the data where the data of the former array was.
	member := disk.Content{Type: "linux_raid_member"}
	wantSteps(t, planOf(t, twoDisks(member, member), config), Destroys,
		"wipe raid md, loses linux_raid_member on /dev/sdb, 1 TiB and linux_raid_member on /dev/sdc, 1 TiB",
		"unknown filesystem ext4")
	wantSteps(t, planOf(t, nil, config), IsUnknown, "unknown raid md", "unknown filesystem ext4")
	for level, want := range map[string]int64{
		"raid0": 2, "linear": 2, "raid1": 1, "raid5": 1, "raid6": 0, "raid10": 1, "1": 1, "unknown": 0,
	} {
		if got := arraySize(level, []int64{1, 1}, 0); got != want {
			t.Errorf("%s: %d", level, got)
		}
	}
}

func TestLuks(t *testing.T) {
	config := func(more string) string {
		return `"storage":{"luks":[{"name":"l","device":"/dev/sdb"` + more + `}],
			"filesystems":[{"device":"/dev/mapper/l","format":"ext4"}]}`
	}
	const key = `,"keyFile":{"source":"data:,k"}`
	luks2 := disk.Content{Type: luksType, Version: "2", Label: "x", UUID: "u"}
	for _, c := range []struct {
		name, more string
		has        disk.Content
		outcome    string
		want       []string
	}{
		{"nothing", key, disk.Content{}, Safe, []string{"create luks l", "create filesystem ext4"}},
		{"another file system", key, disk.Content{Type: "xfs"}, Fails, []string{"fail luks l", "unknown filesystem ext4"}},
		{"another file system, wipeVolume", key + `,"wipeVolume":true`, disk.Content{Type: "xfs"}, Destroys,
			[]string{"wipe luks l, loses xfs on /dev/sdb, 1 TiB", "create filesystem ext4"}},
		{"a volume that matches", key, luks2, IsUnknown, []string{"reuse luks l", "unknown filesystem ext4"}},
		{"a volume, wipeVolume", key + `,"wipeVolume":true`, luks2, Destroys,
			[]string{`wipe luks l, loses crypto_LUKS "x" on /dev/sdb, 1 TiB`, "create filesystem ext4"}},
		{"a volume, no key", "", luks2, Fails, []string{"fail luks l", "unknown filesystem ext4"}},
		{"a volume, clevis", key + `,"clevis":{"tpm2":true}`, luks2, Fails, []string{"fail luks l", "unknown filesystem ext4"}},
		{"a volume of another label", key + `,"label":"y"`, luks2, Fails, []string{"fail luks l", "unknown filesystem ext4"}},
		{"a volume of another UUID", key + `,"uuid":"v"`, luks2, Fails, []string{"fail luks l", "unknown filesystem ext4"}},
		{"a volume of version 1", key, disk.Content{Type: luksType, Version: "1"}, Fails,
			[]string{"fail luks l", "unknown filesystem ext4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantSteps(t, planOf(t, twoDisks(c.has), config(c.more)), c.outcome, c.want...)
		})
	}
	for more, want := range map[string]string{
		"":  "opened by a key that Ignition makes",
		key: "opened by a key file",
		`,"clevis":{"tpm2":true,"threshold":2,"tang":[{"url":"http://u:p@t/","thumbprint":"x"}]}`: "opened by 2 of tang server " +
			"http://t/, the TPM of the machine",
	} {
		if got := find(t, planOf(t, twoDisks(), config(more)), "luks", "l").Detail; got != want {
			t.Errorf("%s: %s", more, got)
		}
	}
}

// TestVolumesOverPartitions: an array or an encrypted volume over a whole disk loses its partitions.
func TestVolumesOverPartitions(t *testing.T) {
	raid := `"storage":{"raid":[{"name":"md","level":"raid0","devices":["/dev/sda"]}]}`
	wantSteps(t, planOf(t, testDisk(), raid), Destroys, "wipe raid md"+lostOld)
	luks := `"storage":{"luks":[{"name":"l","device":"/dev/sda"}]}`
	wantSteps(t, planOf(t, testDisk(), luks), Destroys, "wipe luks l"+lostOld)
}

// TestNamesOfSeveralDisks: a name that two disks have is that of none.
func TestNamesOfSeveralDisks(t *testing.T) {
	facts := twoDisks()
	for i := range facts.Disks {
		facts.Disks[i].Serial, facts.Disks[i].Model = "0000", "Disk"
		facts.Disks[i].Aliases = []string{"/dev/disk/by-path/x"}
	}
	for _, name := range []string{"/dev/disk/by-path/x", "/dev/disk/by-id/ata-Disk_0000"} {
		p := planOf(t, facts, fmt.Sprintf(`"storage":{"disks":[{"device":%q,"wipeTable":true}],
			"filesystems":[{"device":%q,"format":"ext4"}]}`, name, name))
		wantSteps(t, p, IsUnknown, "unknown partition table "+name, "unknown filesystem ext4")
	}
}

// TestDataOnTheWholeDisk: the mistakes that cost a disk.
func TestDataOnTheWholeDisk(t *testing.T) {
	const parts = `"storage":{"disks":[{"device":"/dev/sdb","partitions":[{"number":1}]}]}`
	const wiping = `"storage":{"disks":[{"device":"/dev/sdb","wipeTable":true}]}`
	xfs := disk.Content{Type: "xfs", Label: "x"}
	wantSteps(t, planOf(t, twoDisks(xfs), parts), Destroys, `wipe partition 1, loses xfs "x" on the whole disk`)
	wantSteps(t, planOf(t, twoDisks(xfs), wiping), Destroys,
		`wipe partition table /dev/sdb, loses xfs "x" on the whole disk`)
	wantSteps(t, planOf(t, twoDisks(disk.Content{Type: "vfat"}), parts), Fails, "fail partition table /dev/sdb")
	wantSteps(t, planOf(t, testDisk(), `"storage":{"disks":[{"device":"/dev/sda","wipeTable":true}]}`), Destroys,
		"wipe partition table /dev/sda"+lostOld)
	wantSteps(t, planOf(t, testDisk(), `"storage":{"filesystems":[{"device":"/dev/sda","format":"ext4"}]}`), Destroys,
		"wipe filesystem ext4"+lostOld)
	dos := testDisk()
	dos.Disks[0].Table = "dos"
	wantSteps(t, planOf(t, dos, `"storage":{"disks":[{"device":"/dev/sda"}]}`), Fails, "fail partition table /dev/sda")
	// A partition that is made anew where it was keeps what it contains.
	wantSteps(t, planOf(t, testDisk(), `"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,
		"partitions":[{"number":1,"startMiB":1,"sizeMiB":1024}]}],"filesystems":[{"device":"/dev/sda1","format":"ext4"}]}`), Safe,
		"create partition table /dev/sda", "create partition 1", "reuse filesystem ext4")
}

// TestContentBesideAPartitionTable: where blkid says a file system and a partition table of a whole
// disk, both are content.
func TestContentBesideAPartitionTable(t *testing.T) {
	of := func(table string, content disk.Content) *disk.Facts {
		facts := twoDisks(content)
		facts.Disks[0].Table = table
		return facts
	}
	exfat := func() *disk.Facts { return of("dos", disk.Content{Type: "exfat", Label: "x"}) }
	btrfs := func() *disk.Facts { return of(disk.TableGPT, disk.Content{Type: "btrfs", Label: "x"}) }
	const device = `{"device":"/dev/sdb"`
	const wiping = `"storage":{"disks":[` + device + `,"wipeTable":true}]}`
	const parts = `"storage":{"disks":[` + device + `,"partitions":[{"number":1}]}]}`
	const whole = `"storage":{"filesystems":[` + device + `,"format":"ext4"}]}`
	const wiped = `"storage":{"filesystems":[` + device + `,"format":"ext4","wipeFilesystem":true}]}`
	const raid = `"storage":{"raid":[{"name":"r","level":"raid1","devices":["/dev/sdb"]}]}`
	wantSteps(t, planOf(t, exfat(), wiping), Destroys, `wipe partition table /dev/sdb, loses exfat "x" on the whole disk`)
	wantSteps(t, planOf(t, exfat(), parts), Fails, "fail partition table /dev/sdb")
	wantSteps(t, planOf(t, exfat(), whole), Fails, "fail filesystem ext4")
	wantSteps(t, planOf(t, exfat(), wiped), Destroys, `wipe filesystem ext4, loses exfat "x" on /dev/sdb, 1 TiB`)
	wantSteps(t, planOf(t, exfat(), raid), Destroys, `wipe raid r, loses exfat "x" on /dev/sdb, 1 TiB`)
	wantSteps(t, planOf(t, btrfs(), parts), Destroys, `wipe partition 1, loses btrfs "x" on the whole disk`)
	wantSteps(t, planOf(t, btrfs(), strings.Replace(whole, "ext4", "btrfs", 1)), Safe, "reuse filesystem btrfs")
	unknown := exfat()
	unknown.Disks[0].Content = disk.Content{}
	wantSteps(t, planOf(t, unknown, wiping), IsUnknown, "unknown partition table /dev/sdb")
}

// TestFailureKeepsTheRestAway: what comes behind a failure is not reached, and data that is lost
// before it is lost.
func TestFailureKeepsTheRestAway(t *testing.T) {
	p := planOf(t, testDisk(), `"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,
		"partitions":[{"number":1,"startMiB":600000,"sizeMiB":1024}]}],"files":[{"path":"/a"}]}`)
	if p.Outcome != Fails || p.Destroy != 1 || p.Fail != 1 {
		t.Errorf("%s, %d lose data, %d fail", p.Outcome, p.Destroy, p.Fail)
	}
	if find(t, p, "partition table", "/dev/sda").NotReached || !find(t, p, "file", "/a").NotReached {
		t.Error("the table is wiped, and the file is not reached")
	}
	if len(p.Devices[0].After) > 0 {
		t.Errorf("what a failure leaves is not told: %v", p.Devices[0].After)
	}
}

// TestMistakes has mistakes that look harmless, and what Ignition makes of them.
func TestMistakes(t *testing.T) {
	const onOld = `"filesystems":[{"device":"/dev/sda1","format":"ext4","path":"/data/sub"}]`
	data := `the file system that is reused`
	spaced := testDisk()
	spaced.Disks[0].Partitions[0].Label = "my data"
	for _, c := range []struct {
		name, storage string
		facts         *disk.Facts
		outcome       string
		wants         []string
	}{
		{"a directory with overwrite above a mount", onOld + `,"directories":[{"path":"/data","overwrite":true}]`, testDisk(), Fails,
			[]string{"fail directory /data", "what is on " + data + " at /data/sub"}},
		{"a directory with overwrite at a mount", onOld + `,"directories":[{"path":"/data/sub","overwrite":true}]`, testDisk(), Fails,
			[]string{"fail directory /data/sub", "what is on " + data}},
		{"a file with overwrite on a file system that is reused", onOld + `,"files":[{"path":"/data/sub/x","overwrite":true}]`,
			testDisk(), Destroys, []string{"overwrite file /data/sub/x", "what is at /data/sub/x on " + data}},
		{"a label with a space, as udev does not write it", `"filesystems":[{"device":"/dev/disk/by-partlabel/my data","format":"ext4"}]`,
			spaced, IsUnknown, []string{"unknown filesystem ext4"}},
		{"a label with a space, as udev writes it", `"filesystems":[{"device":"/dev/disk/by-partlabel/my\\x20data","format":"ext4"}]`,
			spaced, Safe, []string{"reuse filesystem ext4"}},
		{"one device under two names", `"filesystems":[{"device":"/dev/sda1","format":"ext4"},
			{"device":"/dev/disk/by-partlabel/old","format":"ext4"}]`, testDisk(), IsUnknown, []string{"unknown filesystem ext4"}},
		{"two encrypted volumes on one device", `"luks":[{"name":"a","device":"/dev/sdb"},{"name":"b","device":"/dev/sdb"}]`, twoDisks(),
			Fails, []string{"create luks a", "fail luks b"}},
		{"a file system on a member of an array", `"raid":[{"name":"m","level":"raid1","devices":["/dev/sdb","/dev/sdc"]}],
			"filesystems":[{"device":"/dev/sdb","format":"ext4","wipeFilesystem":true}]`, twoDisks(), Fails,
			[]string{"create raid m", "fail filesystem ext4"}},
		{"too few devices", `"raid":[{"name":"m","level":"raid6","devices":["/dev/sdb","/dev/sdc"]}]`, twoDisks(), Fails,
			[]string{"fail raid m"}},
		{"a mount by a label that is replaced", `"filesystems":[{"device":"/dev/disk/by-label/fs","format":"ext4","label":"new","path":"/d",
			"wipeFilesystem":true}]`, testDisk(), Fails, []string{"wipe filesystem ext4", "fail mount /d"}},
		{"a partition as a disk", `"disks":[{"device":"/dev/sda1","wipeTable":true}]`, testDisk(), Destroys,
			[]string{"unknown partition table /dev/sda1", `ext4 "fs" on /dev/sda1`}},
		{"the format none with a label", `"filesystems":[{"device":"/dev/sdb","format":"none","label":"x"}]`, twoDisks(), Safe,
			[]string{"keep filesystem none"}},
		{"a path that is too long", `"files":[{"path":"` + strings.Repeat("/a", 3000) + `"}]`, nil, Fails, []string{"fail file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planOf(t, c.facts, `"storage":{`+c.storage+`}`)
			var text strings.Builder
			p.Walk(func(s *Step) { fmt.Fprintf(&text, "%s %s %s loses %q\n", s.Action, s.Kind, s.Name, s.Loses) })
			for _, want := range c.wants {
				if !strings.Contains(strings.ReplaceAll(text.String(), `\"`, `"`), want) {
					t.Errorf("no %q in\n%s", want, text.String())
				}
			}
			if p.Outcome != c.outcome {
				t.Errorf("outcome %s, want %s\n%s", p.Outcome, c.outcome, text.String())
			}
		})
	}
}

// TestNeverAGuess: what the facts do not say is unknown.
func TestNeverAGuess(t *testing.T) {
	const config = `"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,"partitions":[{"number":1,"sizeMiB":512}]}],
		"filesystems":[{"device":"/dev/sda1","format":"xfs"}]}`
	hardware := &disk.Facts{Source: disk.SourceHardware, Disks: []disk.Disk{
		{Path: "/dev/sda", Size: 500 << 30, SectorSize: 512, Table: disk.TableUnknown},
	}}
	wantSteps(t, planOf(t, nil, config), IsUnknown,
		"unknown partition table /dev/sda", "unknown partition 1", "unknown filesystem xfs")
	wantSteps(t, planOf(t, hardware, config), IsUnknown,
		"unknown partition table /dev/sda", "create partition 1", "unknown filesystem xfs")
	wantSteps(t, planOf(t, hardware, strings.Replace(config, `"wipeTable":true,`, "", 1)), IsUnknown,
		"unknown partition 1", "unknown filesystem xfs")
	wantSteps(t, planOf(t, twoDisks(), config), IsUnknown,
		"unknown partition table /dev/sda", "unknown partition 1", "unknown filesystem xfs")
	rounded := testDisk()
	rounded.Disks[0].Rounded = true
	wantSteps(t, planOf(t, rounded, partitions(`{"number":1,"sizeMiB":1024}`)), IsUnknown, "unknown partition 1")
	wantSteps(t, planOf(t, rounded, partitions(`{"number":2,"sizeMiB":511000}`)), IsUnknown, "unknown partition 2")
	if s := find(t, planOf(t, rounded, partitions(`{"number":2}`)), "partition", "2"); s.Detail != "about 499 GiB at 1 GiB" {
		t.Errorf("%v", s)
	}
}

// TestInsideAFormerFileSystem: blkid can find a copy of a superblock where a new partition begins.
func TestInsideAFormerFileSystem(t *testing.T) {
	plan := func(content disk.Content, startMiB int, fs string) *Plan {
		facts := testDisk()
		content.Known, content.Bytes = true, 1<<30
		facts.Disks[0].Partitions[0].Content = content
		return planOf(t, facts, fmt.Sprintf(`"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,
			"partitions":[{"number":2,"startMiB":%d,"sizeMiB":64}]}],"filesystems":[{"device":"/dev/sda2",%s}]}`, startMiB, fs))
	}
	for _, c := range []struct {
		content  disk.Content
		startMiB int
		fs       string
		want     Action
	}{
		{disk.Content{Type: "ext4"}, 41, `"format":"ext4"`, Unknown}, // 40 MiB behind the begin
		{disk.Content{Type: "ext4"}, 42, `"format":"ext4"`, Create},
		{disk.Content{Type: "ext4"}, 41, `"format":"ext4","wipeFilesystem":true`, Create},
		{disk.Content{Type: "xfs"}, 42, `"format":"ext4"`, Unknown},
		{disk.Content{Type: "vfat"}, 41, `"format":"ext4"`, Create},
		{disk.Content{Type: "xfs"}, 1025, `"format":"ext4"`, Create}, // behind its end
	} {
		s := find(t, plan(c.content, c.startMiB, c.fs), "filesystem", "ext4")
		if s.Action != c.want || c.want == Unknown && !strings.Contains(s.Rule, "set wipeFilesystem") {
			t.Errorf("%+v: %s, %s", c, s.Action, s.Rule)
		}
	}
}

// TestUnknownContentStays: a partition that is made again where it was is not blank.
func TestUnknownContentStays(t *testing.T) {
	facts := testDisk()
	facts.Disks[0].Partitions[0].Content = disk.Content{Bytes: 1 << 30}
	p := planOf(t, facts, `"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,
		"partitions":[{"number":1,"startMiB":1,"sizeMiB":1024}]}],
		"filesystems":[{"device":"/dev/sda1","format":"ext4","wipeFilesystem":true}]}`)
	wantSteps(t, p, IsUnknown, "create partition table /dev/sda", "create partition 1", "unknown filesystem ext4")
}

// TestNames finds disks and partitions by the names that udev gives them.
func TestNames(t *testing.T) {
	facts := testDisk()
	d := &facts.Disks[0]
	d.Model, d.Serial, d.WWN, d.Aliases = "Disk", "S123", "0x5000c500", []string{"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}
	for _, name := range []string{
		"/dev/sda1", "/dev/disk/by-id/wwn-0x5000c500-part1", "/dev/disk/by-path/pci-0000:00:1f.2-ata-1-part1",
		"/dev/disk/by-partlabel/old", "/dev/disk/by-label/fs", "/dev/disk/by-partuuid/11111111-2222-3333-4444-555555555555",
		"/dev/disk/by-uuid/0A8B4D0E-6c5f-4f5b-9d0a-0f4f3c1b2a10", "/dev/disk/by-id/ata-Disk_S123-part1",
	} {
		p := planOf(t, facts, fmt.Sprintf(`"storage":{"filesystems":[{"device":%q,"format":"ext4"}]}`, name))
		if got := summary(p); got != "reuse filesystem ext4" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, name := range []string{"/dev/disk/by-id/wwn-0x5000c500", "/dev/disk/by-id/ata-Disk_S123"} {
		p := planOf(t, facts, fmt.Sprintf(`"storage":{"disks":[{"device":%q,"partitions":[{"number":1}]}]}`, name))
		if got := summary(p); got != "reuse partition 1" || p.Devices[0].Path != "/dev/sda" || p.Devices[0].Device != name {
			t.Errorf("%s: %s, %v", name, got, p.Devices)
		}
	}
	absent := planOf(t, facts, `"storage":{"filesystems":[{"device":"/dev/sda7","format":"ext4"},{"device":"/dev/sda1","format":"ext4"}]}`)
	if find(t, absent, "filesystem", "ext4"); absent.Outcome != Fails || absent.Fail != 1 {
		t.Errorf("a partition that is not there: %s", summary(absent))
	}
}

// TestSpec2 plans a config of spec 2 as its form in spec 3.
func TestSpec2(t *testing.T) {
	p, err := New([]byte(`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,x"}}]}}`), nil)
	if err != nil || find(t, p, "file", "/a").Action != Overwrite {
		t.Errorf("%v, %v", p, err)
	}
	_, err = New([]byte(`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"oem","path":"/a"}]}}`), nil)
	if err == nil || !strings.Contains(err.Error(), "storage.files.0.filesystem") {
		t.Errorf("%v", err)
	}
}

// TestPrintedPlanHasNoControlCharacters: a config does not control the terminal.
func TestPrintedPlanHasNoControlCharacters(t *testing.T) {
	p := planOf(t, blankDisk(), `"storage":{"disks":[{"device":"/dev/sda","partitions":[{"label":"a\u001b[2J"}]}],
		"files":[{"path":"/a\u001b]0;x\u0007"}]}`)
	var out bytes.Buffer
	if err := p.Fprint(&out, Style{Color: true, Bars: true, Width: 80}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, color := range colors {
		text = strings.ReplaceAll(text, color, "")
	}
	if text = strings.ReplaceAll(text, reset, ""); strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("%q", text)
	}
}

// TestLengthOfTheTable: sgdisk makes no partition with a number for which the table has no room.
func TestLengthOfTheTable(t *testing.T) {
	for entries, fails := range map[int]map[int]bool{
		0: {128: false, 129: true}, 4: {4: false, 5: true}, 256: {200: false, 257: true},
	} {
		for number, wants := range fails {
			facts := testDisk()
			facts.Disks[0].Entries = entries
			p := planOf(t, facts, partitions(fmt.Sprintf(`{"number":%d,"sizeMiB":10}`, number)))
			if (p.Outcome == Fails) != wants {
				t.Errorf("partition %d in a table of %d entries: %s", number, entries, summary(p))
			}
		}
	}
}

// TestCopyOfAPartitionTable: a disk whose begin was zeroed can have the copy of a GPT at its end, which
// no tool says and sgdisk fails on.
func TestCopyOfAPartitionTable(t *testing.T) {
	zeroed := blankDisk()
	zeroed.Source = disk.SourceLsblk
	for _, c := range []struct {
		facts *disk.Facts
		wipes bool
		notes int
	}{{zeroed, false, 1}, {zeroed, true, 0}, {blankDisk(), false, 0}, {testDisk(), false, 0}} {
		p := planOf(t, c.facts, fmt.Sprintf(`"storage":{"disks":[{"device":"/dev/sda","wipeTable":%v,
			"partitions":[{"number":2,"sizeMiB":10},{"number":3,"sizeMiB":10}]}]}`, c.wipes))
		notes := append(slices.Clone(find(t, p, "partition", "2").Notes), find(t, p, "partition", "3").Notes...)
		if len(notes) != c.notes || c.notes > 0 && !strings.Contains(notes[0], "the copy of a GPT") {
			t.Errorf("%s, wipeTable %v: %q", c.facts.Source, c.wipes, notes)
		}
	}
}

// TestRaidWithAnAbsentMember loses nothing: Ignition waits for all members before mdadm runs.
func TestRaidWithAnAbsentMember(t *testing.T) {
	for _, members := range []string{`"/dev/sda1","/dev/sda9"`, `"/dev/sda9","/dev/sda1"`} {
		p := planOf(t, testDisk(), `"storage":{"raid":[{"name":"r","level":"raid1","devices":[`+members+`]}]}`)
		wantSteps(t, p, Fails, "fail raid r")
	}
}

// TestWhatTheConfigAloneShows: a hard link across two mounts, and contents whose hash or compression
// is wrong, fail on any machine.
func TestWhatTheConfigAloneShows(t *testing.T) {
	const sum = "sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of x
	const packed = "data:;base64,H4sIAAAAAAAC/6sAAIMW3IwBAAAA"                            // x
	const mounts = `"filesystems":[{"device":"/dev/sdb","format":"xfs","path":"/var"}],`
	file := func(source, compression, hash string) string {
		return fmt.Sprintf(`"storage":{"files":[{"path":"/a","contents":{"source":%q,"compression":%q,"verification":{"hash":%q}}}]}`,
			source, compression, hash)
	}
	link := func(path, target string, hard bool) string {
		return fmt.Sprintf(`"storage":{%s"links":[{"path":%q,"target":%q,"hard":%v}]}`, mounts, path, target, hard)
	}
	for members, want := range map[string]string{
		file("data:,x", "", sum):                                     "",
		file("data:,y", "", sum):                                     "the config says another",
		file(packed, "gzip", sum):                                    "",
		file(packed, "gzip", strings.Replace(sum, "-2d", "-3d", 1)):  "the config says another",
		file("data:,x", "gzip", sum):                                 "is not the gzip that compression says",
		file(strings.Replace(packed, "gzMW", "AAAA", 1)+"", "", sum): "the config says another",
		file("data:;base64,H4sIAAAAAAAC/6s=", "gzip", sum):           "is damaged",
		link("/var/l", "/var/x", true):                               "",
		link("/l", "/x", true):                                       "",
		link("/l", "/var/x", false):                                  "",
		link("/l", "/var/x", true):                                   "a hard link cannot reach into another file system",
		link("/var/l", "/etc/x", true):                               "a hard link cannot reach into another file system",
	} {
		config := []byte(`{"ignition":{"version":"3.4.0"},` + members + `}`)
		_, found := ignition.Validate(config)
		warned := strings.Contains(fmt.Sprint(found), want) && found.HasError() == false && (want != "") == (len(found) > 0)
		p := planOf(t, nil, members)
		rules := ""
		p.Walk(func(s *Step) {
			if s.Action == Fail {
				rules += s.Rule
			}
		})
		if !warned || (p.Outcome == Fails) != (want != "") || !strings.Contains(rules, want) {
			t.Errorf("%s: want %q; validate: %v; plan: %s, %q", members, want, found, p.Outcome, rules)
		}
	}
}
