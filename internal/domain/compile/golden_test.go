package compile

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"glowplug/internal/domain/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// stricter are the cases that the butane command compiles and this package does not.
var stricter = map[string]string{
	"butane-second-document": "the command does not read the second document",
}

// golden is a folder of testdata: a source (source.bu, source.ign or source.ks),
// and what becomes of it: "artifact", the bytes that are served, or "report".
// Warnings stand in "report" beside an artifact.
type golden struct {
	dir string
	src Source
}

func goldens(t testing.TB) []golden {
	t.Helper()
	sources, err := filepath.Glob("testdata/golden/*/source.*")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	var all []golden
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		g := golden{dir: filepath.Dir(name), src: Source{Type: TypeIgnition, Config: string(text)}}
		switch filepath.Ext(name) {
		case ".bu":
			g.src.Format = FormatButane
		case ".ign":
			g.src.Format = FormatIgnition
		case ".ks":
			g.src.Type, g.src.Format = TypeKickstart, FormatKickstart
		default:
			t.Fatalf("%s: unknown extension", name)
		}
		all = append(all, g)
	}
	return all
}

func TestGolden(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(filepath.Base(g.dir), func(t *testing.T) {
			artifact, found := Compile(g.src)
			if (artifact == nil) != found.HasError() {
				t.Fatalf("artifact %v beside %q", artifact, found.Strings())
			}
			var text bytes.Buffer
			if err := report.Fprint(&text, "source", []byte(g.src.Config), found, false); err != nil {
				t.Fatal(err)
			}
			var served []byte
			if artifact != nil {
				served = artifact.Bytes
			}
			compare(t, filepath.Join(g.dir, "artifact"), served)
			compare(t, filepath.Join(g.dir, "report"), text.Bytes())
		})
	}
}

// compare holds got against a golden file, which is not there where got is empty.
func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		_ = os.Remove(name)
		if len(got) > 0 {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", filepath.Base(name), got, want)
	}
}

// TestAgreesWithButane compiles every golden Butane source with the real command.
func TestAgreesWithButane(t *testing.T) {
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("builds the butane command; TEST_E2E=1 runs it")
	}
	command := filepath.Join(t.TempDir(), "butane")
	if out, err := exec.Command("go", "build", "-o", command,
		"github.com/coreos/butane/internal").CombinedOutput(); err != nil {
		t.Fatalf("building butane: %v\n%s", err, out)
	}
	for _, g := range goldens(t) {
		if g.src.Format != FormatButane {
			continue
		}
		name := filepath.Base(g.dir)
		t.Run(name, func(t *testing.T) {
			artifact, _ := Compile(g.src)
			var stdout, stderr bytes.Buffer
			run := exec.Command(command, "--strict", "--raw")
			run.Stdin, run.Stdout, run.Stderr = bytes.NewReader([]byte(g.src.Config)), &stdout, &stderr
			err := run.Run()
			switch reason, isStricter := stricter[name]; {
			case isStricter && (err != nil || artifact != nil):
				t.Errorf("listed as stricter (%s), but is not: butane says %v", reason, err)
			case !isStricter && (err == nil) != (artifact != nil):
				t.Errorf("butane says %v %s, we have an artifact: %v", err, &stderr, artifact != nil)
			case err == nil && !isStricter && !bytes.Equal(stdout.Bytes(), artifact.Bytes):
				t.Errorf("butane's bytes:\n%s\nours:\n%s", &stdout, artifact.Bytes)
			}
		})
	}
}
