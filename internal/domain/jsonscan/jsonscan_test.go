package jsonscan

import "testing"

func TestFoldOfKeys(t *testing.T) {
	for _, equal := range [][]string{{"version", "Version", "VERSION"}, {"disks", "diſks", "dis\u212as", "DISKS"},
		{"straße", "STRAßE", "STRAẞE"}} {
		for _, key := range equal {
			if Fold(key) != Fold(equal[0]) {
				t.Errorf("%q and %q fold apart", key, equal[0])
			}
		}
	}
	if Fold("version") == Fold("versions") {
		t.Error("different keys fold together")
	}
}
