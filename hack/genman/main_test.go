package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/cli"
)

// TestPages: each command has a page, each flag its place there, and roff takes every line.
func TestPages(t *testing.T) {
	all := pages(cli.Root(), "1.2.3", time.Unix(0, 0).UTC())
	for name, want := range map[string]string{
		"glowplug":              `\fBglowplug serve\fR`,
		"glowplug-serve":        "\\fB\\-\\-listen\\fR=\\fIstrings\\fR\n",
		"glowplug-token-create": "glowplug\\-token\\-create \\- ",
		"glowplug-completion":   "zsh",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("the page %s lacks %q:\n%s", name, want, all[name])
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is not installed: what roff says to the pages is not looked at")
	}
	for name, text := range all {
		if !strings.HasPrefix(text, ".TH GLOWPLUG") || !strings.Contains(text, " 1 1970-01-01 \"glowplug 1.2.3\" glowplug\n") {
			t.Errorf("%s begins with %.80q", name, text)
		}
		if groff == "" {
			continue
		}
		cmd := exec.Command(groff, "-man", "-Kutf8", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestEscape: roff prints a line as it is.
func TestEscape(t *testing.T) {
	for line, want := range map[string]string{
		".nf":       `\&.nf`,
		"'x'":       `\&'x'`,
		`a\b --c …`: `a\eb \-\-c ...`,
	} {
		if got := escape(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestWriteIsReproducible: two runs write the same bytes.
func TestWriteIsReproducible(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if err := write(dir, "1.2.3", time.Unix(1, 0).UTC()); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{"man1/glowplug-serve.1.gz", "completions/glowplug", "completions/_glowplug", "completions/glowplug.fish"} {
		if info, err := os.Stat(filepath.Join(first, name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
}
