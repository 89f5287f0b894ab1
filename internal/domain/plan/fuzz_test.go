package plan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// FuzzNew plans valid configs on some disks: each plan is complete, the same each time, and survives
// JSON.
func FuzzNew(f *testing.F) {
	for _, seed := range []string{
		`{"ignition":{"version":"3.4.0"},"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,"partitions":[
			{"number":1,"sizeMiB":0},{"label":"a","startMiB":0}]}],"filesystems":[{"device":"/dev/sda1","format":"xfs","path":"/v"}],
			"files":[{"path":"/v/a","overwrite":true}]}}`,
		`{"ignition":{"version":"3.4.0"},"storage":{"raid":[{"name":"m","level":"raid1","devices":["/dev/sdb","/dev/sda1"]}],
			"luks":[{"name":"l","device":"/dev/md/m","clevis":{"tpm2":true}}],"filesystems":[{"device":"/dev/mapper/l","format":"ext4"}]}}`,
		`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core"}]},"systemd":{"units":[{"name":"a.mount","contents":"Where=/a"}]}}`,
		`{"ignition":{"version":"2.2.0"},"storage":{"disks":[{"device":"/dev/sda","partitions":[{"number":1}]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	facts := testDisk()
	facts.Disks = append(facts.Disks, disk.Blank("/dev/sdb", 1<<40))
	f.Fuzz(func(t *testing.T, config []byte) {
		if _, found := ignition.Validate(config); found.HasError() {
			return
		}
		p, err := New(config, facts)
		if err != nil {
			return
		}
		p.Walk(func(s *Step) {
			if s.Action == "" || s.Kind == "" || s.Field == "" {
				t.Errorf("an incomplete step: %+v", s)
			}
		})
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back Plan
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := New(config, facts); !reflect.DeepEqual(again, p) {
			t.Errorf("two plans of one config differ")
		}
		if err := p.Fprint(&bytes.Buffer{}, Style{Bars: true, Width: 80}); err != nil {
			t.Error(err)
		}
	})
}
