package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	metric   = regexp.MustCompile(`\bglowplug_[a-z]+[a-z_]*[a-z]\b`)
)

// TestPagesNameTests: every promise of these pages has its test, and the test is there.
func TestPagesNameTests(t *testing.T) {
	root := filepath.Join("..", "..")
	there := testsOf(t, root)
	for name, want := range map[string]struct {
		header string // how the header of its tables begins
		rows   int    // as many at least
	}{
		"reliability.md": {"| fault |", 40},
		"security.md":    {"| attacker |", 60},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join(root, "docs", "internals", name))
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			for line := range strings.Lines(string(page)) {
				if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, want.header) {
					continue
				}
				rows++
				names := testName.FindAllString(line, -1)
				if len(names) == 0 {
					t.Errorf("no test: %s", line)
				}
				for _, name := range names {
					if !there[name] {
						t.Errorf("there is no %s: %s", name, line)
					}
				}
			}
			if rows < want.rows {
				t.Errorf("the page has %d rows", rows)
			}
		})
	}
}

// testsOf returns the names of all tests below root.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range testFunc.FindAllSubmatch(source, -1) {
			there[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// TestMetrics compares the metrics that the code and the pages name with the generated
// page, which has those of a server that was made for it.
func TestMetrics(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range metric.FindAllString(string(page), -1) {
		documented[name] = true
	}
	named := map[string]bool{}
	for _, dir := range []string{"internal", "docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Base(path) == "metrics.md" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range metric.FindAllString(string(text), -1) {
				for _, series := range []string{"_bucket", "_count", "_sum"} {
					name = strings.TrimSuffix(name, series)
				}
				if !documented[name] {
					t.Errorf("%s: docs/reference/metrics.md has no %s", path, name)
				}
				named[name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range documented {
		if !named[name] {
			t.Errorf("docs/reference/metrics.md has %s, which nothing names: run make generate", name)
		}
	}
}
