package console

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestEditorIsMadeOfItsLock: the committed bundle of CodeMirror was made from the lock file, the entry and the version
// of esbuild that are committed with it.
func TestEditorIsMadeOfItsLock(t *testing.T) {
	bundle, err := os.ReadFile(filepath.Join("static", "vendor", "codemirror.js"))
	if err != nil {
		t.Fatal(err)
	}
	header, _, found := bytes.Cut(bundle, []byte("\n*/\n"))
	if !found {
		t.Fatal("vendor/codemirror.js has no header: run make editor")
	}
	for _, name := range []string{"lock.json", "entry.js", "go.mod"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "hack", "codemirror", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("sha256 of %s: %x", name, sha256.Sum256(content)); !bytes.Contains(header, []byte(sum)) {
			t.Errorf("vendor/codemirror.js was not made of this hack/codemirror/%s: run make editor and commit the result", name)
		}
	}
}
