// Package launch builds glowplug and looks after its process, for the tests that run the built program.
package launch

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
)

// Build builds the program into the file path.
func Build(path string) error {
	build := exec.Command("go", "build", "-o", path, "glowplug/cmd/glowplug")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building glowplug: %w\n%s", err, out)
	}
	return nil
}

// Output collects what a process prints while a test reads it.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns all that was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Reset forgets what was printed.
func (o *Output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Reset()
}

// Tail returns the last n bytes of a text.
func Tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Answers reports whether a URL, such as one of /readyz, is answered with 200.
func Answers(url string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK
}
