package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/domain/kinds"
)

// TestExportStaysInItsFolder: a server that lies about the names of its objects has no file written elsewhere.
func TestExportStaysInItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "export")
	e := &exporter{dir: dir}
	if err := e.begin(); err != nil {
		t.Fatal(err)
	}
	for _, item := range []string{
		`{"metadata":{"name":"../../../stolen","namespace":"a"}}`, `{"metadata":{"name":"x","namespace":"../.."}}`,
	} {
		if err := e.write(kinds.Of(kinds.BareMetalHosts), []byte(item)); err == nil ||
			!strings.Contains(err.Error(), "which is no name of a file") {
			t.Errorf("%s: %v", item, err)
		}
	}
	e.former = []string{"../kept"}
	kept := filepath.Join(filepath.Dir(dir), "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := e.end(); err != nil || removed != 0 {
		t.Error(removed, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error("a file outside of the folder was removed")
	}
}
