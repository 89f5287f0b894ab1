package ignition

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// changedPerPair is how many values of each config are changed for each version that
// it is converted to.
var changedPerPair, changedConfigs = testkit.Few(1, 4), testkit.Few(8, 60)

// idle are values that change nothing in what a client does, each with its reason:
// they may be converted as if they were not there.
var idle = []struct {
	major uint16
	shape string
	when  func(parent map[string]any) bool
	why   string
}{
	{2, "$.systemd.units.0.enable", func(unit map[string]any) bool { return unit["enabled"] == true },
		"it says what enabled says already"},
	{2, "$.storage.filesystems.0.name", func(fs map[string]any) bool { return fs["path"] == "/sysroot" },
		"it is another name of the root, on which nothing lies: the name of one with files makes a difference"},
}

// TestEveryValueMatters changes one value of a random config at a time, down to
// single booleans, names of filesystems and texts of networkd: if both configs can be
// given in a version, they are not given as the same one.
func TestEveryValueMatters(t *testing.T) {
	shapes := map[string]bool{}
	for i := range family {
		from := &family[i]
		for n, raw := range configs(t, from, changedConfigs) {
			random := rand.New(rand.NewSource(int64(n)))
			values := leaves(raw)
			paths := slices.Sorted(maps.Keys(values))
			for j := range family {
				to := &family[j]
				if i == j {
					continue
				}
				out, losses, err := Convert(raw, to.name)
				if err != nil {
					t.Fatal(err)
				}
				if len(losses) > 0 {
					continue
				}
				for range changedPerPair {
					path := paths[random.Intn(len(paths))]
					changed, ok := change(raw, path)
					if !ok {
						continue
					}
					other, losses, err := Convert(changed, to.name)
					if err != nil || len(losses) > 0 {
						continue // not valid, or refused
					}
					shapes[shapeOf(path)] = true
					if bytes.Equal(out, other) && !isIdle(raw, from, path) {
						t.Errorf("%s to %s: %s makes no difference\n%s\n%s", from.name, to.name, path, raw, out)
					}
				}
			}
		}
	}
	t.Logf("%d fields: %s", len(shapes), strings.Join(slices.Sorted(maps.Keys(shapes)), " "))
}

func shapeOf(path string) string { return index.ReplaceAllString(path, ".0") }

// parentOf finds the object that holds the value at a path.
func parentOf(root any, path string) map[string]any {
	keys := strings.Split(path, ".")[1:]
	for _, key := range keys[:len(keys)-1] {
		switch in := root.(type) {
		case map[string]any:
			root = in[key]
		case []any:
			root = in[whichIndex(key)]
		}
	}
	o, _ := root.(map[string]any)
	return o
}

func whichIndex(key string) (i int) {
	_ = json.Unmarshal([]byte(key), &i)
	return i
}

func isIdle(raw []byte, s *spec, path string) bool {
	var root any
	_ = json.Unmarshal(raw, &root)
	for _, e := range idle {
		if e.major == s.major && e.shape == shapeOf(path) && e.when(parentOf(root, path)) {
			return true
		}
	}
	return false
}

// change returns the config with another value at a path.
func change(raw []byte, path string) ([]byte, bool) {
	var root any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&root)
	keys := strings.Split(path, ".")[1:]
	var value any = root
	for _, key := range keys {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			value = in[whichIndex(key)]
		}
	}
	key := keys[len(keys)-1]
	switch v := value.(type) {
	case bool:
		value = !v
	case json.Number:
		n, _ := v.Int64()
		switch key {
		case "mode":
			value = n ^ 1
		case "number":
			value = n + 100
		case "size", "start":
			value = n + 2048
		default:
			value = n + 1
		}
	case string:
		switch {
		case path == "$.ignition.version" || strings.HasPrefix(v, "data:;base64,"):
			return nil, false // a config in a URL has tests of its own
		case key == "format":
			value = map[string]string{"ext4": "xfs", "xfs": "btrfs", "btrfs": "ext4"}[v]
		case key == "level":
			value = map[string]string{"raid1": "raid5", "raid5": "raid1"}[v]
		case key == "hash":
			value = strings.Replace(v, "ab", "cd", 1)
		case key == "guid" || key == "typeGuid":
			value = strings.Replace(v, "1234", "4321", 1)
		case key == "compression":
			value = map[string]string{"gzip": "", "": "gzip"}[v]
		case key == "pin":
			value = map[string]string{"tpm2": "tang", "tang": "sss", "sss": "tpm2", "null": "tpm2"}[v]
		case strings.HasSuffix(v, ".service") || strings.HasSuffix(v, ".network") || strings.HasSuffix(v, ".conf"):
			value = "x" + v
		default:
			value = v + "x"
		}
	default:
		return nil, false
	}
	changed, err := json.Marshal(set(root, keys, value, false))
	return changed, err == nil
}

// TestRandomConfigsHaveEveryField holds the generator against the types of every
// version: each of their fields is in a valid config that the tests above see.
func TestRandomConfigsHaveEveryField(t *testing.T) {
	for i := range family {
		s := &family[i]
		missing := map[string]bool{}
		for _, path := range fieldsOf(s.config, "$") {
			missing[path] = true
		}
		delete(missing, "$.ignition.version")
		for seed := int64(0); seed < 400 && len(missing) > 0; seed++ {
			raw := generate(seed, s)
			found := leaves(raw)
			if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(path string) bool { return missing[shapeOf(path)] }) {
				continue
			}
			if _, r := Validate(raw); r.HasError() {
				continue
			}
			for path := range found {
				delete(missing, shapeOf(path))
			}
		}
		if len(missing) > 0 {
			t.Errorf("%s: no valid config has %v", s.name, slices.Sorted(maps.Keys(missing)))
		}
	}
}
