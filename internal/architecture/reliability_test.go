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
)

// TestReliabilityNamesTests: every promise of docs/reliability.md has its test.
func TestReliabilityNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
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
	page, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fault |") {
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
	if rows < 40 {
		t.Errorf("the page has %d rows", rows)
	}
}
