package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "crypto/sha256" // which go-digest expects to be there
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// user is who runs the program, and to whom the data belongs: no user of any system.
	user = 65532
	// data is the folder of the volume.
	data = "data"
)

// archive is an image in the making.
type archive struct {
	version, commit string
	date            time.Time
	blobs           map[string][]byte // by their digests
	platforms       []v1.Descriptor
}

// healthcheck is what docker adds to a config of OCI, which podman reads in images of docker's own
// format alone.
type healthcheck struct {
	Test        []string      `json:"Test"`
	Interval    time.Duration `json:"Interval"`
	Timeout     time.Duration `json:"Timeout"`
	StartPeriod time.Duration `json:"StartPeriod"`
	Retries     int           `json:"Retries"`
}

// config is the config of an image for a platform.
type config struct {
	v1.Image
	Config struct {
		v1.ImageConfig
		Healthcheck healthcheck `json:"Healthcheck"`
	} `json:"config"`
}

// store adds a blob and returns its descriptor.
func (a *archive) store(mediaType string, content []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	a.blobs[d.Digest.Encoded()] = content
	return d
}

// storeJSON adds a blob that is a document.
func (a *archive) storeJSON(mediaType string, value any) (v1.Descriptor, error) {
	content, err := json.Marshal(value)
	return a.store(mediaType, content), err
}

// add adds the image of a platform.
func (a *archive) add(arch string, program []byte) error {
	layer, err := tarOf(a.date, []entry{
		{name: data + "/", mode: 0o700, owner: user},
		// The program writes short files here, and many programs expect the folder.
		{name: "tmp/", mode: 0o1777},
		{name: "glowplug", mode: 0o755, content: program},
	})
	if err != nil {
		return err
	}
	packed, err := pack(layer)
	if err != nil {
		return err
	}
	layers := []v1.Descriptor{a.store(v1.MediaTypeImageLayerGzip, packed)}
	configured, err := a.storeJSON(v1.MediaTypeImageConfig, a.config(arch, digest.FromBytes(layer)))
	if err != nil {
		return err
	}
	manifest, err := a.storeJSON(v1.MediaTypeImageManifest, v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest, Config: configured, Layers: layers, Annotations: a.annotations()})
	if err != nil {
		return err
	}
	manifest.Platform = &v1.Platform{OS: "linux", Architecture: arch}
	a.platforms = append(a.platforms, manifest)
	return nil
}

// annotations say what an image is of.
func (a *archive) annotations() map[string]string {
	return map[string]string{
		v1.AnnotationTitle: "glowplug", v1.AnnotationVersion: a.version, v1.AnnotationRevision: a.commit,
		v1.AnnotationCreated: a.date.Format(time.RFC3339), v1.AnnotationURL: "https://glowplug.dev",
	}
}

// config returns the config of a platform's image.
func (a *archive) config(arch string, layer digest.Digest) config {
	var c config
	c.Created, c.OS, c.Architecture = &a.date, "linux", arch
	c.RootFS = v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer}}
	c.History = []v1.History{{Created: &a.date, CreatedBy: "glowplug " + a.version}}
	c.Config.ImageConfig = v1.ImageConfig{
		User:         "65532:65532",
		Env:          []string{"GLOWPLUG_DATA_DIR=/" + data, "GLOWPLUG_ISO_DIR=/" + data + "/isos"},
		Entrypoint:   []string{"/glowplug"},
		Cmd:          []string{"serve"},
		Volumes:      map[string]struct{}{"/" + data: {}},
		ExposedPorts: map[string]struct{}{"8082/tcp": {}, "8443/tcp": {}, "3260/tcp": {}},
		Labels:       a.annotations(),
		StopSignal:   "SIGTERM",
	}
	c.Config.Healthcheck = healthcheck{Test: []string{"CMD", "/glowplug", "probe"}, Interval: 30 * time.Second,
		Timeout: 10 * time.Second, StartPeriod: time.Minute, Retries: 3}
	return c
}

// tar returns the archive. Its index names one image of all platforms: podman refuses an archive
// with several images.
func (a *archive) tar() ([]byte, error) {
	versioned := specs.Versioned{SchemaVersion: 2}
	all, err := a.storeJSON(v1.MediaTypeImageIndex, v1.Index{Versioned: versioned, MediaType: v1.MediaTypeImageIndex,
		Manifests: a.platforms, Annotations: a.annotations()})
	if err != nil {
		return nil, err
	}
	all.Annotations = map[string]string{v1.AnnotationRefName: a.version,
		"io.containerd.image.name": "localhost/glowplug:" + a.version}
	index, err := json.Marshal(v1.Index{Versioned: versioned, MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{all}})
	if err != nil {
		return nil, err
	}
	layout, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: v1.ImageLayoutFile, mode: 0o644, content: layout},
		{name: v1.ImageIndexFile, mode: 0o644, content: index},
		{name: "blobs/", mode: 0o755},
		{name: "blobs/sha256/", mode: 0o755},
	}
	for _, name := range slices.Sorted(maps.Keys(a.blobs)) {
		entries = append(entries, entry{name: "blobs/sha256/" + name, mode: 0o644, content: a.blobs[name]})
	}
	return tarOf(a.date, entries)
}

// entry is a file of a tar archive; a folder if its name ends in a slash.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// tarOf returns a tar archive.
func tarOf(date time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		kind := byte(tar.TypeReg)
		if e.name[len(e.name)-1] == '/' {
			kind = tar.TypeDir
		}
		header := &tar.Header{Typeflag: kind, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.content)), ModTime: date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// pack compresses a layer, without a time.
func pack(layer []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(layer)
	err = cmp.Or(err, w.Close())
	return b.Bytes(), err
}
