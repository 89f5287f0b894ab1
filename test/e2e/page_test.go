package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// runPage does what a page of docs/guides shows, in its order: in a block of yaml a file with the name in
// its first line is written; in a block of console the commands after "$ " run on the server, those
// after "node-2$ " on that machine. Their output has to be the shown one; "…" stands for any text,
// or for any lines. The page has at least so many commands.
func (r *rack) runPage(t *testing.T, name string, machines map[string]machine, least int) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	for name, target := range map[string]string{"glowplug": program, "kubectl": kubectlPath(t)} {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(where, command string) string {
		namespace := r.name
		if where != "" {
			namespace = machines[where].name
		}
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", namespace, "bash", "-c", command)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "KUBECONFIG=" + r.server.kubeconfig(), "HOME=" + dir}
		out, _ := cmd.CombinedOutput() // the exit code of some is not 0
		return string(out)
	}
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		language, text := block[1], block[2]
		if language == "yaml" {
			name, ok := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# ")
			if !ok {
				t.Fatalf("a block of yaml without the name of a file:\n%s", text)
			}
			write(t, filepath.Join(dir, name), text)
			continue
		}
		for _, step := range regexp.MustCompile(`(?m)^([\w-]*)\$ `).FindAllStringSubmatchIndex(text, -1) {
			where := text[step[2]:step[3]]
			command, want, _ := strings.Cut(text[step[1]:], "\n")
			if next := regexp.MustCompile(`(?m)^[\w-]*\$ `).FindStringIndex(want); next != nil {
				want = want[:next[0]]
			}
			commands++
			shown, got := outputPattern(want), ""
			// Conditions, statuses and lists follow within seconds.
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) {
				if got = run(where, command); shown.MatchString(got) {
					break
				}
				if time.Now().After(end) || writes.MatchString(command) {
					t.Errorf("%s$ %s\n%s\nthe page shows\n%s", where, command, got, want)
					break
				}
			}
		}
	}
	if commands < least {
		t.Errorf("the page has %d commands, not at least %d", commands, least)
	}
}

// writes matches the commands that have another output when they are repeated.
var writes = regexp.MustCompile(` (apply|adopt|label|annotate|patch) `)

// outputPattern matches an output that a page shows.
func outputPattern(shown string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^\s*`)
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		if line == "…" {
			b.WriteString(`.*`)
			continue
		}
		words := strings.Fields(line)
		for i, word := range words {
			if i > 0 {
				b.WriteString(`\s+`)
			}
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(word), "…", `[^\n]*`))
		}
		b.WriteString(`\s*`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}
