package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/coreos/streamtest"
)

// fileServer serves the files of a document, each with its name as the content,
// many times over, and a signature beside it.
type fileServer struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // "name" or "name bytes=5-"
	change func(w http.ResponseWriter, r *http.Request, name string, content []byte) bool
	signer *openpgp.Entity
}

func contentOf(name string) []byte { return bytes.Repeat([]byte(name+"\n"), 1000) }

func newFileServer(t *testing.T) *fileServer {
	t.Helper()
	s := &fileServer{}
	var err error
	if s.signer, err = openpgp.NewEntity("Tests", "", "tests@example.org", nil); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		s.mu.Lock()
		s.asked = append(s.asked, strings.TrimSpace(name+" "+r.Header.Get("Range")))
		change := s.change
		s.mu.Unlock()
		content := contentOf(name)
		if signed, ok := strings.CutSuffix(name, ".sig"); ok {
			var buf bytes.Buffer
			if err := openpgp.DetachSign(&buf, s.signer, bytes.NewReader(contentOf(signed)), nil); err != nil {
				t.Error(err)
			}
			content = buf.Bytes()
		}
		if change != nil && change(w, r, name, content) {
			return
		}
		w.Header().Set("Etag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(s.Close)
	return s
}

// requests are what was asked for since the last time.
func (s *fileServer) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.asked, ", ")
	s.asked = nil
	return out
}

func (s *fileServer) set(change func(w http.ResponseWriter, r *http.Request, name string, content []byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

// keyring writes the public key of an entity to a file.
func keyring(t *testing.T, e *openpgp.Entity) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keyring.gpg")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := e.Serialize(f); err != nil {
		t.Fatal(err)
	}
	return name
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCoreOSMirror(t *testing.T) {
	s := newFileServer(t)
	document := streamtest.Document(streamtest.Options{Stream: "stable", Release: "44.1", Base: s.URL, Content: contentOf})
	file := writeFile(t, filepath.Join(t.TempDir(), "stable.json"), document)
	dir := filepath.Join(t.TempDir(), "mirror")
	const iso, below = "fedora-coreos-44.1-live-iso.x86_64.iso", "stable/44.1/x86_64/metal/"
	mirror := func(more ...string) (int, string, string) {
		return run(append([]string{"coreos", "mirror", "--from", file, "--arch", "x86_64", "--artifact", "metal", "--format",
			"iso", dir}, more...)...)
	}

	// Cut off in the middle, then corrupt: nothing has the file's name.
	s.set(func(w http.ResponseWriter, r *http.Request, name string, content []byte) bool {
		if name != iso {
			return false
		}
		if r.Header.Get("Range") != "" {
			http.Error(w, "gone", http.StatusNotFound)
			return true
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:5000])
		return true
	})
	code, stdout, stderr := mirror()
	if code != 1 || stdout != "" || !strings.Contains(stderr, "error: "+iso+": ") || !strings.Contains(stderr,
		"hint: run the command again") {
		t.Errorf("cut off: %d %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, below, iso)); !os.IsNotExist(err) {
		t.Error("a file that was cut off has its name")
	}
	s.requests()
	s.set(nil)
	code, stdout, stderr = mirror()
	if code != 0 || stdout != "1 file of stream stable in "+dir+": 1 downloaded, 0 there already, all verified\n" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if got := s.requests(); got != iso+" bytes=5000-, "+iso+".sig" {
		t.Errorf("it did not go on: %s", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, below, iso)); err != nil || !bytes.Equal(got, contentOf(iso)) {
		t.Error("another content", err)
	}

	// Again: verified, not downloaded; and the damaged file is downloaded again.
	if code, stdout, stderr = mirror(); code != 0 || !strings.Contains(stdout, "0 downloaded, 1 there already") ||
		s.requests() != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	writeFile(t, filepath.Join(dir, below, iso), []byte("damaged"))
	if code, stdout, stderr = mirror(); code != 0 || !strings.Contains(stdout, "1 downloaded") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}

	// Signatures: the right key, another's, on what is there and what is not.
	right := keyring(t, s.signer)
	other, err := openpgp.NewEntity("Other", "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr = mirror("--keyring", right); code != 0 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if code, _, stderr = mirror("--keyring", keyring(t, other)); code != 1 || !strings.Contains(stderr,
		"by none of the keys of the keyring") {
		t.Errorf("%d %s", code, stderr)
	}
	writeFile(t, filepath.Join(dir, below, iso+".sig"), []byte("broken"))
	if code, _, stderr = mirror("--keyring", right); code != 0 {
		t.Errorf("a broken signature was not brought anew: %d %s", code, stderr)
	}
	dir = filepath.Join(t.TempDir(), "other")
	if code, _, stderr = mirror("--keyring", keyring(t, other)); code != 1 || !strings.Contains(stderr,
		"by none of the keys of the keyring") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, below, iso)); !os.IsNotExist(err) {
		t.Error("a file that nobody has signed has its name")
	}

	// Corrupt for good.
	s.set(func(w http.ResponseWriter, _ *http.Request, name string, content []byte) bool {
		_, _ = w.Write(bytes.ToUpper(content))
		return true
	})
	dir = filepath.Join(t.TempDir(), "corrupt")
	if code, _, stderr = mirror(); code != 1 || !strings.Contains(stderr, "its SHA-256 is ") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestCoreOSMirrorRewrites(t *testing.T) {
	s := newFileServer(t)
	document := streamtest.Document(streamtest.Options{Stream: "stable", Release: "44.1", Base: s.URL, Content: contentOf})
	file := writeFile(t, filepath.Join(t.TempDir(), "stable.json"), document)
	dir := t.TempDir()
	code, stdout, stderr := run("coreos", "mirror", "--from", s.URL+"/../nothing", dir)
	if code != 1 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = run("coreos", "mirror", "--from", file, "--arch", "x86_64,aarch64", "--artifact", "metal",
		"--artifact", "vmware",
		"--rewrite-base", "http://192.0.2.1:8082/streams/artifacts/", dir)
	// metal has six files in four formats.
	if code != 0 || !strings.Contains(stdout, "13 files of stream stable") || !strings.Contains(stdout, "metadata: "+
		filepath.Join(dir, "stable.json")) {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "stable.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := coreos.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const base = "http://192.0.2.1:8082/streams/artifacts/"
	moved := 0
	listed, _ := doc.List(nil, nil)
	for _, file := range listed {
		here := (file.Architecture == "x86_64" || file.Architecture == "aarch64") && (file.Artifact == "metal" ||
			file.Artifact == "vmware")
		if below, ok := strings.CutPrefix(file.URLs[0], base); ok {
			moved++
			sum, err := os.Stat(filepath.Join(dir, below))
			if err != nil || sum.Size() == 0 || file.Signature != file.URLs[0]+".sig" {
				t.Error(file, err)
			}
			if _, err := os.Stat(filepath.Join(dir, below+".sig")); err != nil {
				t.Error(err)
			}
		} else if here {
			t.Errorf("%s/%s of %s is at %s", file.Artifact, file.Format, file.Architecture, file.URLs[0])
		}
	}
	if moved != 13 {
		t.Error(moved)
	}
	// All else is as it was, to the byte.
	back := strings.ReplaceAll(string(text), base+"stable/44.1/x86_64/metal/", s.URL+"/x86_64/")
	back = strings.ReplaceAll(back, base+"stable/44.1/x86_64/vmware/", s.URL+"/x86_64/")
	back = strings.ReplaceAll(back, base+"stable/44.1/aarch64/metal/", s.URL+"/aarch64/")
	if back != string(document) {
		t.Error("something else has changed")
	}
	// One that fails does not keep the others from coming.
	s.set(func(w http.ResponseWriter, r *http.Request, name string, _ []byte) bool {
		if strings.HasSuffix(name, ".ova") {
			http.NotFound(w, r)
		}
		return strings.HasSuffix(name, ".ova")
	})
	dir = t.TempDir()
	code, stdout, stderr = run("coreos", "mirror", "--from", file, "--arch", "x86_64", "--artifact",
		"vmware,virtualbox,qemu", "--rewrite-base", base, dir)
	if code != 1 || !strings.Contains(stderr, "error: 2 of 3 files are missing:\n") || stdout != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "stable", "44.1", "x86_64", "qemu",
		"fedora-coreos-44.1-qemu.x86_64.qcow2.xz")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "stable.json")); !os.IsNotExist(err) {
		t.Error("metadata of what is not there was written")
	}
}
