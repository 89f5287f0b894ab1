package oidc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/cel"
)

// TestTheExampleOfTheDocumentation: the file in docs/guides/access.md can be used.
func TestTheExampleOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "access.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "\n    apiVersion: apiserver.config.k8s.io/v1\n")
	lines := strings.SplitAfter(example, "\n")
	file := "apiVersion: apiserver.config.k8s.io/v1\n"
	for _, line := range lines {
		text, ok := strings.CutPrefix(line, "    ")
		if !ok {
			break
		}
		file += text
	}
	if configs, err := parse([]byte(file), cel.NewDefaultCompiler()); err != nil || len(configs) != 1 {
		t.Errorf("%v\n%s", err, file)
	}
}
