package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

const plantedSecret = "planted-secret-58c1"

// TestEncryptionAtRest: a store is encrypted after the fact, nothing of its former content stays in
// the data directory, and a server without the key refuses to start and changes nothing.
func TestEncryptionAtRest(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(`
apiVersion: v1
kind: IgnitionConfig
metadata: {name: web, namespace: default}
spec:
  type: ignition
  format: butane
  selector: {default: true}
  config: |
    variant: fcos
    version: 1.5.0
    storage: {files: [{path: /etc/secret, contents: {inline: `+plantedSecret+`}}]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: default}
spec: {bootMACAddress: "52:54:00:00:00:01", bmc: {address: "redfish://bmc", username: root, password: `+
		plantedSecret+`}}
`, "apply", "-f", "-")
	s.terminate()

	s.args = append(s.args, "--encrypt")
	s.restart()
	key := filepath.Join(s.dir, "pki", "encryption.yaml")
	if !strings.Contains(s.log.String(), "keep a copy of it apart from the store") {
		t.Error("the log does not say that there is a key to be kept")
	}
	if out := s.glowplug("rewrite"); !strings.Contains(out, "objects rewritten with the present key") {
		t.Error(out)
	}
	if out := s.glowplug("rewrite"); out != "all objects are stored with the present key already\n" {
		t.Error(out)
	}
	testkit.Until(t, "the files with the former values are removed", func() bool {
		const removed = `msg="removed the files with values of former encryption keys" bucket=`
		log := s.log.String()
		return strings.Contains(log, removed+"IGNITIONCONFIGS") && strings.Contains(log, removed+"BAREMETALHOSTS")
	})
	holdsNot(t, s.dir, plantedSecret)
	s.kubectl("", "annotate", "bmh", "node-1", "note=after")
	s.kill()
	holdsNot(t, s.dir, plantedSecret)

	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(string(content), "name: ")
	name, _, _ = strings.Cut(name, "\n")
	for what, args := range map[string][]string{
		"no key":  s.args[:len(s.args)-1],
		"new key": s.args,
	} {
		if err := os.Rename(key, key+".kept"); err != nil {
			t.Fatal(err)
		}
		given, before := s.args, contentOf(t, s.dir)
		s.args = args
		s.launch()
		if code := s.exits(); code == 0 || !strings.Contains(s.log.String(), `is encrypted with the key "`+name+`"`) {
			t.Errorf("%s: exit code %d\n%s", what, code, s.log.String())
		}
		s.args = given
		if after := contentOf(t, s.dir); !maps.Equal(before, after) {
			t.Errorf("%s: the data folder has changed:\n%v\nwas\n%v", what, after, before)
		}
		if err := os.Rename(key+".kept", key); err != nil {
			t.Fatal(err)
		}
	}

	// The file that the server has made is a file for --encryption-provider-config as well.
	s.args = append(s.args[:len(s.args)-1], "--encryption-provider-config", key)
	s.restart()
	if got := s.kubectl("", "get", "bmh", "node-1", "-o", "jsonpath={.metadata.annotations.note}"); got != "after" {
		t.Errorf("the note is %q", got)
	}
	if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusOK || !strings.Contains(a.body, plantedSecret) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// contentOf returns what a data folder has: every path, with the digest of a file. The lock says who has the
// folder, and is written by everybody who opens it.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	content := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == "store.lock" {
			return err
		}
		if content[path] = "folder"; !e.IsDir() {
			content[path] = fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, path))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}
