package ignition

import (
	"encoding/json"
	"errors"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	append2_0 "github.com/coreos/ignition/config/v2_0"
	append2_1 "github.com/coreos/ignition/config/v2_1"
	append2_2 "github.com/coreos/ignition/config/v2_2"
	append2_3 "github.com/coreos/ignition/config/v2_3"
	append2_4 "github.com/coreos/ignition/config/v2_4"
	"github.com/coreos/ignition/v2/config/v3_0"
	"github.com/coreos/ignition/v2/config/v3_1"
	"github.com/coreos/ignition/v2/config/v3_2"
	"github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_6"
	"github.com/google/go-cmp/cmp"
)

// libraryMerge is the merge of the library, version by version.
var libraryMerge = map[string]any{
	"2.0.0": append2_0.Append, "2.1.0": append2_1.Append, "2.2.0": append2_2.Append, "2.3.0": append2_3.Append,
	"2.4.0": append2_4.Append,
	"3.0.0": v3_0.Merge, "3.1.0": v3_1.Merge, "3.2.0": v3_2.Merge, "3.3.0": v3_3.Merge, "3.4.0": v3_4.Merge,
	"3.5.0": v3_5.Merge, "3.6.0": v3_6.Merge,
}

// TestMergeAgreesWithTheLibrary merges random configs, in which names meet.
func TestMergeAgreesWithTheLibrary(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 20
	}
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			s := specOf(version)
			theirs := reflect.ValueOf(libraryMerge[version])
			for seed := range int64(n) {
				// Generators that begin alike give the same names again.
				parent, child := generate(2*seed, s), generate(2*seed+1, s)
				m, err := MergeAll([]Part{{"parent", parent}, {"child", child}})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				merged := m.Config
				want := theirs.Call([]reflect.Value{typed(t, s, parent), typed(t, s, child)})[0]
				if diff := cmp.Diff(normal(t, want.Interface()), normal(t, typed(t, s, merged).Interface())); diff != "" {
					t.Fatalf("seed %d: -library +ours\n%s\n%s\n%s", seed, diff, parent, child)
				}
				if VersionOf(merged) != version {
					t.Fatalf("seed %d: version %q", seed, VersionOf(merged))
				}
				checkOrigins(t, s, parent, child, m.Origins())
			}
		})
	}
}

// TestMergeOfDifferentVersions gives the higher of two versions, or says which config
// is in the way of that, and by which field.
func TestMergeOfDifferentVersions(t *testing.T) {
	n, merged, refused := 150, 0, 0
	if testing.Short() {
		n = 30
	}
	for seed := range int64(n) {
		r := rand.New(rand.NewSource(seed))
		a, b := &family[r.Intn(len(family))], &family[r.Intn(len(family))]
		parts := []Part{{"a", generate(2*seed, a)}, {"b", generate(2*seed+1, b)}}
		higher := a
		if a.before(b) {
			higher = b
		}
		m, err := MergeAll(parts)
		var part *PartError
		switch {
		case errors.As(err, &part):
			refused++
			if part.Part != "a" && part.Part != "b" || part.Err == nil && (len(part.Losses) == 0 ||
				!strings.Contains(part.Error(), part.Losses[0].Path)) {
				t.Errorf("seed %d: %v", seed, err)
			}
		case err != nil:
			t.Errorf("seed %d: %v", seed, err)
		default:
			merged++
			if m.Version != VersionOf(m.Config) || m.Version != higher.name && higher.pre == "" {
				t.Errorf("seed %d: %s and %s give %s, %s", seed, a.name, b.name, m.Version, VersionOf(m.Config))
			}
		}
	}
	if merged == 0 || refused == 0 {
		t.Errorf("%d merged, %d refused", merged, refused)
	}
}

func typed(t *testing.T, s *spec, raw []byte) reflect.Value {
	t.Helper()
	config := reflect.New(s.config)
	if err := json.Unmarshal(raw, config.Interface()); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return config.Elem()
}

// checkOrigins holds origins against the names that stand in the two configs.
func checkOrigins(t *testing.T, s *spec, parent, child []byte, origins []Origin) {
	t.Helper()
	named := func(raw []byte, kind, name string) bool {
		m, err := MergeAll([]Part{{"x", raw}})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(m.Origins(), func(o Origin) bool { return o.Kind == kind && o.Name == name })
	}
	for _, o := range origins {
		var want []string
		if named(parent, o.Kind, o.Name) {
			want = append(want, "parent")
		}
		if named(child, o.Kind, o.Name) {
			want = append(want, "child")
		}
		if !slices.Equal(o.From, want) {
			t.Errorf("%s %s: from %q, want %q\n%s\n%s", o.Kind, o.Name, o.From, want, parent, child)
		}
	}
}
