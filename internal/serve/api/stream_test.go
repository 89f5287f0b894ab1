package api

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos/streamtest"
)

const releases = "/api/v1/streamreleases"

func release(stream, version string) *v1.StreamRelease {
	return &v1.StreamRelease{
		TypeMeta:   metav1.TypeMeta{Kind: "StreamRelease", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: stream + "-" + version},
		Spec: v1.StreamReleaseSpec{Stream: stream, Release: version,
			Document: string(streamtest.Document(streamtest.Options{Stream: stream, Release: version}))},
	}
}

func TestStreamReleases(t *testing.T) {
	a := start(t)
	r := release("stable", "44.1")
	r.Status.Current = true // is not the client's
	got := &v1.StreamRelease{}
	if err := json.Unmarshal(a.must(http.StatusCreated, "POST", releases, r).body, got); err != nil {
		t.Fatal(err)
	}
	s := got.Status
	if got.Spec.Document != r.Spec.Document || got.Generation != 1 || s.Current ||
		s.LastModified.UTC().Format("2006-01-02") != "2026-07-21" ||
		len(s.Architectures) != 4 || s.Architectures[3].Name != "x86_64" || s.DocumentSize != int64(len(r.Spec.Document)) ||
		!strings.HasPrefix(s.DocumentHash, "sha256:") || s.ObservedGeneration != 1 {
		t.Errorf("%+v", s)
	}
	if all := strings.Join(s.Architectures[3].Artifacts, " "); !strings.Contains(all,
		"metal/4k.raw.xz metal/iso metal/pxe metal/raw.xz") {
		t.Error(all)
	}
	// What is current is written into the status, and stays when the document changes.
	a.must(http.StatusOK, "PATCH", releases+"/stable-44.1/status", `{"status":{"current":true}}`, "Content-Type",
		"application/merge-patch+json")
	got.ResourceVersion = ""
	got.Spec.Document = strings.Replace(got.Spec.Document, "ami-", "ami-9", 1)
	changed := &v1.StreamRelease{}
	if err := json.Unmarshal(a.must(http.StatusOK, "PUT", releases+"/stable-44.1", got).body, changed); err != nil {
		t.Fatal(err)
	}
	if changed.Generation != 2 || !changed.Status.Current || changed.Status.DocumentHash == s.DocumentHash ||
		changed.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", changed.Status)
	}

	for name, c := range map[string]struct {
		change func(*v1.StreamRelease)
		want   string
	}{
		"a bad digest": {func(r *v1.StreamRelease) {
			r.Spec.Document = strings.Replace(r.Spec.Document, `"sha256": "`, `"sha256": "x`, 1)
		}, "spec.document: Invalid value: architectures.aarch64.artifacts.applehv.formats[raw.gz].disk.sha256: "},
		"no JSON": {func(r *v1.StreamRelease) { r.Spec.Document = "stream: stable" },
			"spec.document: Invalid value: is not JSON"},
		"no document": {func(r *v1.StreamRelease) { r.Spec.Document = "" }, "spec.document: Required value"},
		"another name": {func(r *v1.StreamRelease) { r.Name = "mine" },
			"metadata.name: Invalid value: \"mine\": must be next-1, of spec.stream and spec.release"},
		"a path":          {func(r *v1.StreamRelease) { r.Spec.Stream = "../next" }, "spec.stream: Invalid value"},
		"no release":      {func(r *v1.StreamRelease) { r.Spec.Release = "" }, "spec.release: Required value"},
		"a wrong version": {func(r *v1.StreamRelease) { r.Spec.MaxIgnition = "3.4" }, "spec.maxIgnition: Invalid value"},
		"a secret mirror": {func(r *v1.StreamRelease) { r.Spec.Mirrors = []string{"http://u:p@mirror/"} },
			"spec.mirrors[0]: Invalid value"},
		"an ftp mirror": {func(r *v1.StreamRelease) { r.Spec.Mirrors = []string{"ftp://mirror/"} },
			"spec.mirrors[0]: Invalid value"},
		"the older form": {func(r *v1.StreamRelease) { r.Spec.Document = `{"baseURI":"","buildid":""}` },
			"is of the older rhcos.json form"},
		"a huge document": {func(r *v1.StreamRelease) { r.Spec.Document += strings.Repeat(" ", 1<<20) },
			"more than the 1044480"},
		"a bad label": {func(r *v1.StreamRelease) { r.Labels = map[string]string{"a b": ""} }, "metadata.labels"},
	} {
		r := release("next", "1")
		c.change(r)
		if got := a.must(http.StatusUnprocessableEntity, "POST", releases, r); !strings.Contains(string(got.body),
			strings.ReplaceAll(c.want, `"`, `\"`)) {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}

// Two pairs of stream and release can have one name: the second does not take the place
// of the first.
func TestStreamReleaseIsNotReplacedByAnother(t *testing.T) {
	a := start(t)
	first := release("a-b", "1")
	a.must(http.StatusCreated, "POST", releases, first)
	other := release("a", "b-1")
	other.ResourceVersion = ""
	got := a.must(http.StatusUnprocessableEntity, "PUT", releases+"/a-b-1", other)
	if want := "a-b-1 is release 1 of stream a-b"; !strings.Contains(string(got.body), "spec.stream") ||
		!strings.Contains(string(got.body), want) {
		t.Errorf("%s", got.body)
	}
	a.must(http.StatusOK, "PUT", releases+"/a-b-1", first)
}

func TestKubectlStreams(t *testing.T) {
	a := start(t)
	k := newKubectl(t, a.url)
	r := release("rhcos-4.22", "10.2.20260715-0")
	r.Spec.MaxIgnition = "3.5.0"
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	k.write("release.json", string(text))
	k.ok("apply -f release.json", "streamrelease/rhcos-4.22-10.2.20260715-0 created")
	k.ok("apply -f release.json", "unchanged")
	k.ok("apply --server-side --force-conflicts -f release.json", "serverside-applied")
	k.ok("get sr", "NAME", "STREAM", "RELEASE", "CURRENT", "rhcos-4.22   10.2.20260715-0   false",
		"aarch64,ppc64le,s390x,x86_64")
	k.ok("get sr -o wide", "3.5.0", "ARTIFACTS")
	k.ok("describe sr rhcos-4.22-10.2.20260715-0", "metal/iso")
	k.ok("explain sr.spec.document", "byte for byte")
	k.ok("patch sr rhcos-4.22-10.2.20260715-0 --type merge -p '{\"spec\":{\"current\":true}}'", "patched")
	k.ok("wait sr --all --for jsonpath={.spec.current}=true --timeout 5s", "condition met")
	k.fails("patch sr rhcos-4.22-10.2.20260715-0 --type merge -p '{\"spec\":{\"document\":\"{}\"}}'", "stream: is missing")
	k.ok("delete sr --all", "deleted")
}

func TestKubectlConfigMaps(t *testing.T) {
	a := start(t)
	k := newKubectl(t, a.url)
	if err := os.WriteFile(filepath.Join(k.dir, "blob"), []byte{0xff, 0, 1}, 0o600); err != nil {
		t.Fatal(err)
	}
	k.write("notes.txt", "one\ntwo\n")
	k.ok("create configmap made -n g10 --from-literal=color=blue --from-literal=group=wheel --from-file=notes.txt "+
		"--from-file=blob", "configmap/made created")
	k.ok("get cm -n g10", "NAME", "DATA", "AGE", "made   4")
	k.ok("get configmap/made -n g10 -o 'jsonpath={.data.color}'", "blue")
	k.ok("get cm made -n g10 -o yaml", "binaryData:", "blob: /wAB", "notes.txt: |")
	k.ok("describe cm made -n g10", "Data", "color:", "blue", "BinaryData", "blob: 3 bytes")
	k.ok("explain cm.immutable", "only be deleted")
	k.ok("edit cm made -n g10", "edited")
	k.ok("get cm made -n g10 -o 'jsonpath={.data.group}'", "sudo")
	k.ok("patch cm made -n g10 -p '{\"data\":{\"color\":\"red\"}}'", "patched")
	k.ok("label cm made -n g10 a=b", "labeled")
	k.ok("get cm -n g10 -l a=b", "made")
	k.write("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: g10}\ndata: {a: b}\n")
	k.ok("apply -f cm.yaml", "created")
	k.write("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: g10}\nimmutable: "+
		"true\ndata: {a: c}\n")
	k.ok("apply -f cm.yaml", "configured")
	k.fails("patch cm applied -n g10 --type merge -p '{\"data\":{\"a\":\"d\"}}'",
		"data: Forbidden: field is immutable when `immutable` is set")
	k.fails("patch cm applied -n g10 --type merge -p '{\"immutable\":false}'", "immutable: Forbidden")
	k.fails("patch cm applied -n g10 --type merge -p '{\"binaryData\":{\"b\":\"AAAA\"}}'", "binaryData: Forbidden")
	k.ok("annotate cm applied -n g10 who=me", "annotated")
	k.fails("patch cm made -n g10 --type merge -p '{\"data\":{\"a b\":\"d\"}}'", "data[a b]: Invalid value")
	k.fails("patch cm made -n g10 --type merge -p '{\"data\":{\"blob\":\"d\"}}'", "duplicate of key present in binaryData")
	k.ok("delete ns g10", "deleted")

	big := &v1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "big"}}
	big.Data = map[string]string{"a": strings.Repeat("x", 1<<20)}
	const maps = "/api/v1/namespaces/default/configmaps"
	a.must(http.StatusCreated, "POST", maps, big)
	big.Name, big.BinaryData = "bigger", map[string][]byte{"b": {1}}
	if got := a.must(http.StatusUnprocessableEntity, "POST", maps, big); !strings.Contains(string(got.body), "Too long") {
		t.Errorf("%.300s", got.body)
	}
}
