package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"glowplug/internal/domain/kinds"
)

// objectOf returns the object in a text.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestExportStaysInItsFolder: a server that lies about the names of its objects has no file written elsewhere.
func TestExportStaysInItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "export")
	e := &exporter{dir: dir}
	if err := e.begin(); err != nil {
		t.Fatal(err)
	}
	for _, item := range []string{
		`{"metadata":{"name":"../../../stolen","namespace":"a"}}`, `{"metadata":{"name":"x","namespace":"../.."}}`,
	} {
		if err := e.write(kinds.Of(kinds.BareMetalHosts), objectOf(t, item)); err == nil ||
			!strings.Contains(err.Error(), "which is no name of a file") {
			t.Errorf("%s: %v", item, err)
		}
	}
	e.former = []string{"../kept"}
	kept := filepath.Join(filepath.Dir(dir), "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := e.end(); err != nil || removed != 0 {
		t.Error(removed, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error("a file outside of the folder was removed")
	}
}

// TestExportFollowsNoLinkOutOfItsFolder: in a repository of somebody else a link, or a list of files, has nothing
// written or removed elsewhere.
func TestExportFollowsNoLinkOutOfItsFolder(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "export"), t.TempDir()
	kept := filepath.Join(outside, "kept.yaml")
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(kept, []byte("kept"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "rack")), os.MkdirAll(filepath.Join(dir, "a", "secret"), 0o700),
		os.WriteFile(filepath.Join(dir, exportList), []byte("rack/kept.yaml\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "a", "secret", "x.yaml"), nil, 0o600),
		os.Chmod(filepath.Join(dir, "a", "secret", "x.yaml"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	e := &exporter{dir: dir, secrets: true}
	if err := e.begin(); err != nil {
		t.Fatal(err)
	}
	secret := kinds.Of(kinds.Secrets)
	if err := e.write(secret, objectOf(t, `{"metadata":{"name":"x","namespace":"rack"}}`)); err == nil {
		t.Error("a Secret was written through a link")
	}
	if err := e.write(secret, objectOf(t, `{"metadata":{"name":"x","namespace":"a"}}`)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "secret", "x.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a Secret that was a file of others: %v %v", info, err)
	}
	if _, err := e.end(); err == nil {
		t.Error("what is behind a link is no file of the export, and nothing says so")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) != 1 {
		t.Errorf("outside: %v %v", files, err)
	}
}

// TestExportRemovesItsOwnFilesAlone: a name of a role may have spaces, and what is between them is no file of an
// export. One that was broken off goes on.
func TestExportRemovesItsOwnFilesAlone(t *testing.T) {
	dir := t.TempDir()
	owners := filepath.Join(dir, "OWNERS")
	role := kinds.Of(kinds.ClusterRoles)
	for _, items := range [][]string{{`{"metadata":{"name":"x OWNERS y"}}`}, {}} {
		if err := (&exporter{dir: dir}).begin(); err != nil {
			t.Fatal(err)
		}
		e := &exporter{dir: dir}
		if err := e.begin(); err != nil {
			t.Fatal("after one that was broken off:", err)
		}
		for _, item := range items {
			if err := e.write(role, objectOf(t, item)); err != nil {
				t.Fatal(err)
			}
		}
		if removed, err := e.end(); err != nil || removed != 1-len(items) {
			t.Errorf("%d files are removed: %v", removed, err)
		}
		if err := os.WriteFile(owners, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, clusterFolder, "clusterrole"))
	if _, kept := os.Stat(owners); kept != nil || err != nil || len(left) > 0 {
		t.Errorf("%v, %v %v", kept, left, err)
	}
}

// TestFilesOfLongNames: each object has a file of its own whose name a file system takes.
func TestFilesOfLongNames(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]bool{}
	for _, object := range []string{"a", long, long + "bbb", long + "bbc"} {
		name := fileOf(object)
		if len(name) > maxFileName || !strings.HasSuffix(name, ".yaml") || names[name] {
			t.Errorf("the file of %s is %s", object, name)
		}
		names[name] = true
	}
	if name := fileOf(long); name != long+".yaml" {
		t.Errorf("a name that fits is cut: %s", name)
	}
}
