package kvstore

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// gated are the cases of the feature gate AllowUnsafeMalformedObjectDeletion, which is
// off: the server has no flag for gates, and no client can delete what cannot be decoded.
var gated = []string{
	"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError",
	"RunTestDeleteExpectedTransformOrDecodeError",
	"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError",
	"RunTestGetListWithErrorAggregation",
	"RunTestWatchWithUnsafeDelete",
}

// TestConformanceIsComplete reads the library's sources: a new case there is a
// line to be written here.
func TestConformanceIsComplete(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Skipf("the library's sources are not at hand: %v", err)
	}
	ours, err := os.ReadFile("conformance_test.go")
	if err != nil {
		t.Fatal(err)
	}
	exported := regexp.MustCompile(`(?m)^func (Run\w+)\(ctx context\.Context, t `)
	found := 0
	for _, file := range []string{"store_tests.go", "watcher_tests.go"} {
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range exported.FindAllSubmatch(source, -1) {
			found++
			if slices.Contains(gated, string(m[1])) {
				continue
			}
			if !regexp.MustCompile(`storagetesting\.` + string(m[1]) + `\b`).Match(ours) {
				t.Errorf("%s is not run", m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d cases were found", found)
	}
}
