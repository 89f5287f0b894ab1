package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the length of a line of Go, in characters; a tab is one.
const maxColumns = 120

// TestLineLength: no line of what people write in Go is longer, but for literals that
// are better read, or found, in one piece.
func TestLineLength(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasPrefix(entry.Name(), "zz_generated") {
			return err
		}
		source, err := os.ReadFile(path)
		number, raw := 0, false
		for line := range strings.Lines(string(source)) {
			number++
			inRaw := raw
			if strings.Count(line, "`")%2 == 1 {
				raw = !raw
			}
			columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			if columns > maxColumns && !inRaw && !raw && !strings.ContainsAny(line, "\"`") {
				t.Errorf("%s:%d has %d columns", path, number, columns)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
