package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
)

// TestFormsOfALargeConfig: no field prevents the versions, so the reason is shown.
func TestFormsOfALargeConfig(t *testing.T) {
	var directories []string
	for i := range ignition.MaxConverted {
		directories = append(directories, fmt.Sprintf(`{"path":"/d%d"}`, i))
	}
	raw := `{"ignition":{"version":"3.4.0"},"storage":{"directories":[` + strings.Join(directories, ",") + `]}}`
	forms, err := ignition.Servable([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	got := describeForms(&compile.Artifact{IgnitionVersion: "3.4.0", Forms: forms})
	want := ": the config has more than 10000 values and is given in its own version, 3.4.0, alone\n"
	if !strings.Contains(got, want) {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestManifestOnStandardInputIsNotCut: what is too large is refused, and not applied up to its bound.
func TestManifestOnStandardInputIsNotCut(t *testing.T) {
	_, _, err := readFile("-", bytes.NewReader(make([]byte, maxManifest+1)))
	if err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
}
