package cli

import (
	"os"
	"strings"
	"testing"
)

// TestStreamsPageShowsTheExample: the program in docs/guides/streams.md is the one that is
// built and run.
func TestStreamsPageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/streams.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../examples/bootimages/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```go\n")
	shown, _, found := strings.Cut(shown, "```")
	if !found || !strings.HasSuffix(string(program), "\n"+shown) {
		t.Error("docs/guides/streams.md shows another program than examples/bootimages/main.go")
	}
}
