package ignition_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/testkit"
)

// validator is an ignition-validate.
type validator struct {
	name, path string
	// first and last are the versions that it reads.
	first, last string
}

// disagreement is a reason for which one of the two refuses what the other takes.
type disagreement struct {
	// server tells that it is the server that refuses.
	server bool
	// says is what the one that refuses says of it.
	says *regexp.Regexp
	why  string
}

// disagreements are all there are. docs/internals/ignition-versions.md lists them.
var disagreements = []disagreement{
	{true, regexp.MustCompile(`spec [0-9.]+ has no field `),
		"a field that only other versions have: Ignition warns and goes on without it, the server says which versions have it"},
	{true, regexp.MustCompile(`appears twice in one object`),
		"a key that stands twice in one object: Ignition reads the last alone"},
	{true, regexp.MustCompile(`nested more than 32 deep`),
		"more nesting than any field has: validation takes quadratic time in it"},
	{true, regexp.MustCompile(`is not text`),
		"bytes that are no UTF-8: Go's decoder puts other characters in their place"},
	{true, regexp.MustCompile(`is experimental: only one release`),
		"an experimental version: one release of Ignition reads it, and the next refuses it"},
	{true, regexp.MustCompile(`"03\.1\.0" is not a spec version`),
		"a version with a leading zero, which is no semantic version: Ignition from 2.0 reads it"},
	{false, regexp.MustCompile(`invalid character 'ï'`),
		"a byte order mark: the server removes it, so no machine meets it"},
}

// TestAgreesWithIgnitionValidate holds the verdicts on a corpus of valid and broken
// configs against those of the releases' own ignition-validate.
func TestAgreesWithIgnitionValidate(t *testing.T) {
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("TEST_E2E is not set: make test runs this")
	}
	testkit.NeedsThorough(t)
	dir := t.TempDir()
	validators := []validator{
		{"0.35.0", build(t, dir, "clients/0.35.0", "github.com/coreos/ignition/validate"), "2.0.0", "2.4.0"},
		{"2.26.0", build(t, dir, "tools", "github.com/coreos/ignition/v2/validate"), "3.0.0", "3.6.0"},
	}
	if path, err := exec.LookPath("ignition-validate"); err == nil {
		validators = append(validators, validator{"Debian's 2.14.0", path, "3.0.0", "3.3.0"})
	} else {
		t.Log("Debian's package ignition is not installed: its ignition-validate is left out")
	}
	type verdict struct {
		spec, name, validator string
		server, theirs        string
	}
	var (
		mu       sync.Mutex
		verdicts []verdict
		group    errgroup.Group
		samples  = map[string]int{}
	)
	group.SetLimit(4)
	for _, version := range ignition.Versions() {
		for n, c := range ignition.Corpus(version) {
			samples[version]++
			group.Go(func() error {
				_, r := compile.Compile(compile.Source{Type: compile.TypeIgnition, Format: compile.FormatIgnition,
					Config: string(c.Raw)})
				file := filepath.Join(dir, fmt.Sprintf("%s-%d.ign", version, n))
				if err := os.WriteFile(file, c.Raw, 0o600); err != nil {
					return err
				}
				for _, v := range validators {
					if version < v.first || v.last < version {
						continue
					}
					out, err := exec.CommandContext(t.Context(), v.path, file).CombinedOutput()
					var exit *exec.ExitError
					if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
						return fmt.Errorf("%s, %s: %w\n%s", v.name, c.Name, err, out)
					}
					theirs := ""
					if err != nil {
						theirs = string(bytes.TrimSpace(out)) + " "
					}
					mu.Lock()
					verdicts = append(verdicts, verdict{version, c.Name, v.name, strings.Join(r.Errors().Strings(), "\n"), theirs})
					mu.Unlock()
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	hits := make([]int, len(disagreements))
	refused, taken := 0, 0
	for _, v := range verdicts {
		switch {
		case v.server == "" && v.theirs == "":
			taken++
			continue
		case v.server != "" && v.theirs != "":
			refused++
			continue
		}
		known := slices.IndexFunc(disagreements, func(d disagreement) bool {
			return d.server && v.theirs == "" && d.says.MatchString(v.server) || !d.server && v.server == "" &&
				d.says.MatchString(v.theirs)
		})
		if known < 0 {
			t.Errorf("spec %s, %s: the server says %q, ignition-validate %s says %q", v.spec, v.name, v.server, v.validator,
				v.theirs)
			continue
		}
		hits[known]++
	}
	for i, d := range disagreements {
		if hits[i] == 0 {
			t.Errorf("nothing disagrees any more for this reason: %s", d.why)
		}
	}
	t.Logf("samples %v; %d verdicts: both take %d, both refuse %d, known disagreements %v", samples, len(verdicts), taken,
		refused, hits)
}

func build(t *testing.T, dir, module, pkg string) string {
	t.Helper()
	binary := filepath.Join(dir, filepath.Base(module)+"-validate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, pkg)
	cmd.Dir = filepath.Join("..", "..", "..", "test", module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return binary
}
