package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestArchive: the image of each platform has its program, runs as no user of the system, whose
// folder of data is private, and every blob is what its digest says. Two runs write the same bytes.
func TestArchive(t *testing.T) {
	first := build(t)
	if !bytes.Equal(first, build(t)) {
		t.Error("two runs differ")
	}
	files := map[string][]byte{}
	for name, f := range untar(t, first) {
		files[name] = f.content
		if dir, base := filepath.Split(name); dir == "blobs/sha256/" && base != "" && digest.FromBytes(f.content).Encoded() != base {
			t.Errorf("%s has another digest", name)
		}
	}
	blob := func(d v1.Descriptor, into any) []byte {
		t.Helper()
		content := files["blobs/sha256/"+d.Digest.Encoded()]
		if int64(len(content)) != d.Size {
			t.Fatalf("the blob %s has %d bytes, want %d", d.Digest, len(content), d.Size)
		}
		if into != nil {
			decode(t, content, into)
		}
		return content
	}
	var index, all v1.Index
	decode(t, files[v1.ImageIndexFile], &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("the index names %d images, want one of all platforms", len(index.Manifests))
	}
	blob(index.Manifests[0], &all)
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest v1.Manifest
		var image config
		blob(all.Manifests[i], &manifest)
		blob(manifest.Config, &image)
		if got := all.Manifests[i].Platform.Architecture; got != arch || image.Architecture != arch {
			t.Errorf("image %d is of %s and %s, want %s", i, got, image.Architecture, arch)
		}
		if image.Config.User != "65532:65532" || image.Config.Healthcheck.Test[1] != "/glowplug" {
			t.Errorf("config %+v", image.Config)
		}
		packed, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		if got := digest.FromBytes(layer); got != image.RootFS.DiffIDs[0] {
			t.Errorf("the layer is %s, the config says %s", got, image.RootFS.DiffIDs[0])
		}
		inside := untar(t, layer)
		if names := slices.Sorted(maps.Keys(inside)); !slices.Equal(names, []string{"data/", "glowplug", "tmp/"}) {
			t.Errorf("the layer has %q", names)
		}
		if f := inside["data/"]; f.header.Uid != user || f.header.Gid != user || f.header.Mode != 0o700 {
			t.Errorf("/data is %+v", f.header)
		}
		if f := inside["glowplug"]; string(f.content) != "program of "+arch || f.header.Mode != 0o755 || f.header.Uid != 0 {
			t.Errorf("/glowplug is %q, %+v", f.content, f.header)
		}
	}
}

// build runs the command.
func build(t *testing.T) []byte {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	dir := t.TempDir()
	var programs []string
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(dir, arch)
		if err := os.WriteFile(path, []byte("program of "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, arch+"="+path)
	}
	out := filepath.Join(dir, "out.tar")
	if err := run("1.2.3", "abc", out, programs); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

type file struct {
	header  *tar.Header
	content []byte
}

func untar(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = file{header, content}
	}
}

func decode(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}
