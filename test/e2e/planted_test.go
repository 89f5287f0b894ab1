package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/test/launch"
)

// planted are the secrets that the tests give to servers: passwords, values of Secrets, contents of
// confidential configs, and tokens. Each place that a server writes to is searched for them at the end of
// each test: its log, metrics, events and audit trail, the bodies of its errors, what it explains and,
// where the store is encrypted, its data directory.
var planted = &search{
	texts: map[string]bool{
		plantedSecret: true, "planted-secret": true, "s3cr3t-4711": true, "correct-horse": true,
		"correct horse battery": true, "another horse": true, "geheim-4711": true, "geheim-4712": true, "hunter2": true,
	},
	places: map[string]int{},
}

// search is a search for planted secrets.
type search struct {
	mu     sync.Mutex
	texts  map[string]bool
	places map[string]int
}

// plant adds a secret that a server has made, such as a token.
func (p *search) plant(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text = strings.TrimSpace(text); len(text) >= 16 { // a shorter one would be found everywhere
		p.texts[text] = true
	}
}

// in searches a place of a kind, and returns the secrets in it, shortened.
func (p *search) in(kind, content string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[kind]++
	for text := range p.texts {
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		if strings.Contains(content, text) || strings.Contains(content, encoded) {
			found = append(found, text[:min(len(text), 12)]+"…")
		}
	}
	slices.Sort(found)
	return found
}

// check searches a place and fails the test where it has a secret.
func (p *search) check(t *testing.T, kind, name, content string) {
	t.Helper()
	if found := p.in(kind, content); found != nil {
		t.Errorf("the %s (%s) has planted secrets: %s", kind, name, strings.Join(found, ", "))
	}
}

// report lists how many places of each kind were searched.
func (p *search) report() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, kinds := 0, []string{}
	for _, kind := range slices.Sorted(maps.Keys(p.places)) {
		sum += p.places[kind]
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, p.places[kind]))
	}
	return fmt.Sprintf("%d places were searched for %d planted secrets: %s\n", sum, len(p.texts),
		strings.Join(kinds, ", "))
}

// searchPlanted searches what a process of the server has written to its log and, for the last one, what
// the server has written elsewhere. It runs at the end of a test, before the server is stopped.
func (s *server) searchPlanted(process *exec.Cmd, log *launch.Output) {
	s.t.Helper()
	planted.check(s.t, "log", "stderr", log.String())
	if process != s.cmd {
		return
	}
	if process.ProcessState == nil {
		for kind, path := range map[string]string{"metrics": "/metrics", "events": "/api/v1/events"} {
			if body, err := s.curl(path); err == nil {
				planted.check(s.t, kind, path, body)
			}
		}
	}
	for i, arg := range s.args {
		switch {
		case arg == "--audit-log-path" && i+1 < len(s.args):
			trails, _ := filepath.Glob(strings.TrimSuffix(s.args[i+1], filepath.Ext(s.args[i+1])) + "*")
			for _, path := range trails {
				content, _ := os.ReadFile(path)
				planted.check(s.t, "audit trail", path, string(content))
			}
		case arg == "--encrypt" || arg == "--encryption-provider-config":
			s.searchDataDir()
		}
	}
}

// curl requests a path of the admin listener in the namespace of the server.
func (s *server) curl(path string) (body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own has ended
	defer cancel()
	argv := append(slices.Clone(s.prefix), "curl", "-sf", "--noproxy", "*", s.admin(path))
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	return string(out), err
}

// searchDataDir searches the files of an encrypted store, except for the credentials of the operator.
func (s *server) searchDataDir() {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "admin.kubeconfig" {
			return nil // a file that is gone has nothing
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		planted.check(s.t, "file of an encrypted store", path, string(content))
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

var adminTokenLine = regexp.MustCompile(`(?m)^\s*token: (\S+)$`)

// plantAdminToken adds the admin token of a server.
func (s *server) plantAdminToken() {
	content, _ := os.ReadFile(s.kubeconfig())
	if token := adminTokenLine.FindSubmatch(content); token != nil {
		planted.plant(string(token[1]))
	}
}

// TestPlantedSecretsAreFound: the search that each test ends with finds a secret, plain or in base64, and
// counts the places.
func TestPlantedSecretsAreFound(t *testing.T) {
	p := &search{texts: map[string]bool{plantedSecret: true}, places: map[string]int{}}
	p.plant("glowplug_0123456789abcdef")
	p.plant("short")
	for content, want := range map[string]int{
		"nothing": 0, "short": 0, "a " + plantedSecret + " b": 1, "x glowplug_0123456789abcdef": 1,
		base64.StdEncoding.EncodeToString([]byte(plantedSecret)): 1, plantedSecret + " glowplug_0123456789abcdef": 2,
	} {
		if got := p.in("log", content); len(got) != want {
			t.Errorf("%q: %q", content, got)
		}
	}
	if got := p.report(); got != "6 places were searched for 2 planted secrets: log 6\n" {
		t.Error(got)
	}
}
