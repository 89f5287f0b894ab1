package cli

import (
	"bytes"
	"errors"
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

// TestMistakesOfAConfigFileShowNoPassword: the line beside a mistake may have a URL, and the log keeps it.
func TestMistakesOfAConfigFileShowNoPassword(t *testing.T) {
	path := filepath.Join(t.TempDir(), "glowplug.yaml")
	for _, content := range []string{"nats-url: nats://user:hunter2@h/%zz\n", "nats-url: [\"nats://user:hunter2@h\"]\n",
		"nats: nats://user:hun@ter2@h:4222\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"config", "check", path}, {"serve", "--config", path}, {"probe", "--config", path}} {
			var out bytes.Buffer
			if code := Main(args, nil, &out, &out); code == 0 || strings.Contains(out.String(), "ter2") {
				t.Errorf("%s: %v: %d\n%s", content, args, code, &out)
			}
		}
	}
}

// TestAConfigFileOfAnybodyIsRefused: who writes it says who is believed.
func TestAConfigFileOfAnybodyIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "glowplug.yaml")
	err := errors.Join(os.WriteFile(path, []byte("log-level: nonsense\n"), 0o600), os.Chmod(path, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "probe"} {
		var out bytes.Buffer
		if Main([]string{command, "--config", path}, nil, &out, &out) == 0 ||
			!strings.Contains(out.String(), "anybody may write it") {
			t.Errorf("%s: %s", command, &out)
		}
	}
}
