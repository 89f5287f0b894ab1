package ignition

import (
	"encoding/json"
	"testing"

	cjson "github.com/clarketm/json"
	"github.com/coreos/ign-converter/translate/v24tov31"
	"github.com/coreos/ign-converter/translate/v32tov24"
	"github.com/coreos/ign-converter/translate/v32tov31"
	"github.com/coreos/ign-converter/translate/v33tov32"
	"github.com/coreos/ign-converter/translate/v34tov33"
	"github.com/coreos/ignition/config/v2_4"
	types2_4 "github.com/coreos/ignition/config/v2_4/types"
	types3_1 "github.com/coreos/ignition/v2/config/v3_1/types"
	types3_2 "github.com/coreos/ignition/v2/config/v3_2/types"
	types3_3 "github.com/coreos/ignition/v2/config/v3_3/types"
	types3_4 "github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/google/go-cmp/cmp"
)

// decoded is a config as the library's type.
func decoded[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var config T
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// normal is a config of the library's type as a tree without what is empty.
func normal(t *testing.T, config any) object {
	t.Helper()
	raw, err := cjson.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var root object
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	bareValues(root)
	prune(root)
	return root
}

// bareValues leaves out what says nothing in spec 2: "", 0 and false where they are
// no defaults of their own.
func bareValues(value any) {
	switch value := value.(type) {
	case object:
		for key, member := range value {
			bareValues(member)
			if (member == "" || member == false) && key != "source" && key != "shouldExist" && key != "enabled" {
				delete(value, key)
			}
			if key == "spares" && member == 0.0 {
				delete(value, key)
			}
		}
	case []any:
		for _, item := range value {
			bareValues(item)
		}
	}
}

// TestUpInSpec3AgreesWithTheLibrary holds conversions up against the library's own.
func TestUpInSpec3AgreesWithTheLibrary(t *testing.T) {
	for i := range family {
		if family[i].major != 3 {
			continue
		}
		for _, raw := range configs(t, &family[i], perVersion) {
			out, losses, err := Convert(raw, Newest)
			if err != nil {
				t.Fatal(err)
			}
			if len(losses) > 0 {
				continue // special bits, which the library clears
			}
			theirs, _, err := v3_6.ParseCompatibleVersion(raw)
			if err != nil {
				t.Fatal(err)
			}
			ours, _, err := v3_6.Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			ours.Ignition.Config = theirs.Ignition.Config // which has children
			for j := range ours.Storage.Luks {
				if family[i].name == "3.4.0" { // whose advertisements the library drops
					clear(ours.Storage.Luks[j].Clevis.Tang)
					clear(theirs.Storage.Luks[j].Clevis.Tang)
				}
			}
			if diff := cmp.Diff(normal(t, theirs), normal(t, ours)); diff != "" {
				t.Fatalf("%s (- library, + ours):\n%s\n%s", family[i].name, diff, raw)
			}
		}
	}
}

// TestUpInSpec2AgreesWithTheLibrary does so in spec 2, but for the deprecated enable
// and the owner 0 that the library writes out.
func TestUpInSpec2AgreesWithTheLibrary(t *testing.T) {
	clean := func(config types2_4.Config) object {
		config.Ignition.Config = types2_4.IgnitionConfig{}
		for i := range config.Systemd.Units {
			u := &config.Systemd.Units[i]
			if yes := true; u.Enable {
				u.Enable, u.Enabled = false, &yes
			}
		}
		for i := range config.Storage.Files {
			f := &config.Storage.Files[i]
			if f.User != nil && f.User.ID != nil && *f.User.ID == 0 {
				f.User = nil
			}
			if f.Group != nil && f.Group.ID != nil && *f.Group.ID == 0 {
				f.Group = nil
			}
			if f.Mode != nil && *f.Mode == 0 {
				f.Mode = nil
			}
		}
		for i := range config.Storage.Directories {
			if d := &config.Storage.Directories[i]; d.Mode != nil && *d.Mode == 0 {
				d.Mode = nil
			}
		}
		return normal(t, config)
	}
	for i := range family {
		if family[i].major != 2 || family[i].pre != "" {
			continue
		}
		for _, raw := range configs(t, &family[i], perVersion) {
			out, losses, err := Convert(raw, "2.4.0")
			if err != nil {
				t.Fatal(err)
			}
			if len(losses) > 0 {
				continue
			}
			theirs, _, err := v2_4.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(clean(theirs), clean(decoded[types2_4.Config](t, out))); diff != "" {
				t.Fatalf("%s (- library, + ours):\n%s\n%s", family[i].name, diff, raw)
			}
		}
	}
}

// against converts random configs with the converter and compares where both do.
func against[From, To any](t *testing.T, from, to string, translate func(From) (To, error), skip func(From) bool) {
	t.Helper()
	compared := 0
	for _, raw := range configs(t, specOf(from), perVersion) {
		config := decoded[From](t, raw)
		out, losses, err := Convert(raw, to)
		if err != nil {
			t.Fatal(err)
		}
		if len(losses) > 0 || skip(config) {
			continue
		}
		theirs, err := translate(config)
		if err != nil {
			continue
		}
		compared++
		got, want := normal(t, decoded[To](t, out)), normal(t, theirs)
		delete(sub(got, "ignition"), "config") // has children
		delete(sub(want, "ignition"), "config")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s to %s (- converter, + ours):\n%s\n%s", from, to, diff, raw)
		}
	}
	if compared == 0 {
		t.Errorf("%s to %s: nothing was compared", from, to)
	}
}

func TestDownAgreesWithTheConverter(t *testing.T) {
	against(t, "3.4.0", "3.3.0", v34tov33.Translate, func(c types3_4.Config) bool {
		for _, f := range c.Storage.Files {
			if f.Mode != nil && *f.Mode&0o7000 != 0 {
				return true // which it clears
			}
		}
		return false
	})
	against(t, "3.3.0", "3.2.0", v33tov32.Translate, func(types3_3.Config) bool { return false })
	against(t, "3.2.0", "3.1.0", v32tov31.Translate, func(types3_2.Config) bool { return false })
	against(t, "3.2.0", "2.4.0", v32tov24.Translate, func(c types3_2.Config) bool {
		for _, d := range c.Storage.Disks {
			for _, p := range d.Partitions {
				if p.WipePartitionEntry == nil {
					return true // at which it panics
				}
			}
		}
		for _, f := range c.Storage.Files {
			if len(f.Append) > 0 || f.Contents.Source == nil || f.Mode == nil {
				return true // see the tests of its faults
			}
		}
		return len(c.Storage.Filesystems) > 0 || len(c.Storage.Directories) > 0
	})
}

func TestUpAgreesWithTheConverter(t *testing.T) {
	translate := func(c types2_4.Config) (types3_1.Config, error) { return v24tov31.Translate(c, map[string]string{}) }
	against(t, "2.4.0", "3.1.0", translate, func(c types2_4.Config) bool {
		for _, f := range c.Storage.Files {
			if f.Mode == nil || f.Append {
				return true
			}
		}
		for _, p := range c.Passwd.Users {
			if p.Create != nil {
				return true
			}
		}
		return len(c.Storage.Filesystems) > 0 || len(c.Storage.Directories) > 0 || len(c.Storage.Disks) > 0
	})
}
