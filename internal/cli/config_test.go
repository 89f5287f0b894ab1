package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageConfigIsValid: the config file of the packages is valid, and so is each setting that
// it proposes in a comment.
func TestPackageConfigIsValid(t *testing.T) {
	content := read(t, "../../deploy/packages/glowplug.yaml")
	proposed := regexp.MustCompile(`(?m)^#([a-z-]+: )`)
	if len(proposed.FindAllString(content, -1)) < 10 {
		t.Fatal("the file proposes less than ten settings")
	}
	for name, text := range map[string]string{"as it is": content, "all": proposed.ReplaceAllString(content, "$1")} {
		text = strings.ReplaceAll(text, "/var/lib/glowplug", filepath.Join(t.TempDir(), "data"))
		file := filepath.Join(t.TempDir(), "glowplug.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if code := Main([]string{"config", "check", file}, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Errorf("%s: %d\n%s", name, code, stderr.String())
		}
	}
}
