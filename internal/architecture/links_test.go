package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is the longest line of a page, in characters. Tables, code and
// headings cannot be wrapped, and a link is one word.
const width = 100

// generated are the pages that programs write.
var generated = []string{
	"docs/reference/api.md", "docs/reference/commands.md", "docs/reference/metrics.md",
	"docs/internals/benchmarks.md", "docs/internals/clients.md",
}

var (
	links  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	markup = regexp.MustCompile("`|\\]\\([^)]*\\)|[^\\p{L}\\p{N}_ -]")
)

// TestPageLinksResolve: each relative link of a page names a file of the
// repository, and a heading of the page if it has a fragment.
func TestPageLinksResolve(t *testing.T) {
	headings := map[string]map[string]bool{}
	pages := readPages(t)
	for name, lines := range pages {
		headings[name] = map[string]bool{}
		for _, line := range lines {
			if text := strings.TrimLeft(line, "#"); text != line {
				headings[name][anchor(text)] = true
			}
		}
	}
	root := filepath.Join("..", "..")
	for name, lines := range pages {
		for _, link := range links.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
			path, fragment, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, link[1])
			} else if known, page := headings[target]; fragment != "" && page && !known[fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", name, link[1], target)
			}
		}
	}
}

// TestPagesAreWrapped: pages that people write have lines of at most 100
// characters. Generated pages are left out.
func TestPagesAreWrapped(t *testing.T) {
	for name, lines := range readPages(t) {
		if slices.Contains(generated, name) {
			continue
		}
		for i, line := range lines {
			if utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") &&
				!strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d: %d characters, at most %d", name, i+1, utf8.RuneCountInString(line), width)
			}
		}
	}
}

// TestDesignPagesNameFiles: each Go file that the design page of a package names is in the
// package.
func TestDesignPagesNameFiles(t *testing.T) {
	file := regexp.MustCompile(`\b[a-z_]+\.go\b`)
	for name, lines := range readPages(t) {
		if filepath.Base(name) != "DESIGN.md" {
			continue
		}
		for _, found := range file.FindAllString(strings.Join(lines, "\n"), -1) {
			if _, err := os.Stat(filepath.Join("..", "..", filepath.Dir(name), found)); err != nil {
				t.Errorf("%s names %s: %v", name, found, err)
			}
		}
	}
}

// TestPagesAreShort: what a user reads first is short. Rules, bounds and rare cases are in
// docs/reference and docs/internals, which have no bound.
func TestPagesAreShort(t *testing.T) {
	const words, links = 30_000, 12
	sum := 0
	for name := range readPages(t) {
		if name != "README.md" && !strings.HasPrefix(name, "docs/") ||
			strings.HasPrefix(name, "docs/reference/") || strings.HasPrefix(name, "docs/internals/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		sum += len(strings.Fields(string(text)))
	}
	if sum == 0 || sum > words {
		t.Errorf("the README, docs/start and docs/guides have %d words, at most %d", sum, words)
	}
	list := 0
	for _, line := range readPages(t)["README.md"] {
		if strings.HasPrefix(line, "- ") {
			list += strings.Count(line, "](")
		}
	}
	if list == 0 || list > links {
		t.Errorf("the list in README.md has %d links, at most %d", list, links)
	}
}

// readPages returns the lines of each Markdown page, without fenced code, by
// its path in the repository.
func readPages(t *testing.T) map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	pages := map[string][]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "examples/*.md", "internal/*/*/DESIGN.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, file)
			code := false
			for _, line := range strings.Split(string(text), "\n") {
				if strings.HasPrefix(line, "```") {
					code = !code
				}
				if code {
					line = ""
				}
				pages[name] = append(pages[name], line)
			}
		}
	}
	return pages
}

// anchor returns the fragment that Markdown viewers derive from a heading.
func anchor(heading string) string {
	text := markup.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
	return strings.ReplaceAll(text, " ", "-")
}
