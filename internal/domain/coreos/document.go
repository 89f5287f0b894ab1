// Package coreos reads CoreOS stream metadata: the JSON documents that list the images of
// a release of Fedora CoreOS, RHEL CoreOS and others of their form
// (github.com/coreos/stream-metadata-go). It checks documents, converts from and to the
// older rhcos.json, finds the files of a release and rewrites their locations.
//
// A document is kept, and passed on, to the byte, with members that this program does
// not know.
package coreos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/coreos/stream-metadata-go/stream"
	"github.com/go-json-experiment/json/jsontext"

	"glowplug/internal/domain/jsonscan"
)

// MaxDocument bounds a document, in bytes: a ConfigMap, which shows it beside the
// release's name, holds 1 MiB. Real ones have 40 to 200 KB.
const MaxDocument = 1<<20 - 4<<10

// Roles of the files of a format, in the order of Release.Files.
const (
	Disk      = "disk"
	Kernel    = "kernel"
	Initramfs = "initramfs"
	Rootfs    = "rootfs"
)

var roles = []string{Disk, Kernel, Initramfs, Rootfs}

// Document is a stream metadata document that has been checked.
type Document struct {
	// Raw is the document as it was read.
	Raw []byte
	// Stream is what the library's types show of it.
	Stream stream.Stream
	// LastModified is when the document says that it was made; zero where it does
	// not.
	LastModified time.Time
	// Hash is the hash of Raw, "sha256:" and hex digits.
	Hash string
}

// Parse reads and checks a document. The error is of type Problems.
func Parse(data []byte) (*Document, error) {
	doc := &Document{Raw: data}
	r := &reader{}
	r.document(doc)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	sum := sha256.Sum256(data)
	doc.Hash = "sha256:" + hex.EncodeToString(sum[:])
	return doc, nil
}

// Release is the version that the document is of: that of the x86_64 metal images
// or, where it lists none, the one that most artifacts are of.
func (d *Document) Release() string {
	if metal := d.Stream.Architectures["x86_64"].Artifacts["metal"]; metal.Release != "" {
		return metal.Release
	}
	count := map[string]int{}
	for _, arch := range d.Stream.Architectures {
		for _, artifact := range arch.Artifacts {
			count[artifact.Release]++
		}
	}
	best := ""
	for _, release := range slices.Sorted(maps.Keys(count)) {
		if count[release] >= count[best] {
			best = release
		}
	}
	return best
}

// Architectures are the architectures that the document lists, in order.
func (d *Document) Architectures() []string {
	return slices.Sorted(maps.Keys(d.Stream.Architectures))
}

// Artifacts are what the document lists for an architecture, each as
// artifact/format, in order.
func (d *Document) Artifacts(architecture string) []string {
	var all []string
	for name, artifact := range d.Stream.Architectures[architecture].Artifacts {
		for format := range artifact.Formats {
			all = append(all, name+"/"+format)
		}
	}
	slices.Sort(all)
	return all
}

// IsLegacy reports whether data is of the older rhcos.json form.
func IsLegacy(data []byte) bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(data), &top) != nil {
		return false
	}
	_, stream := top["architectures"]
	_, base := top["baseURI"]
	_, build := top["buildid"]
	return !stream && (base || build)
}

// files are the files of a format, in the order of their roles.
func files(format stream.ImageFormat) []File {
	var all []File
	for _, f := range []struct {
		role string
		*stream.Artifact
	}{{Disk, format.Disk}, {Kernel, format.Kernel}, {Initramfs, format.Initramfs}, {Rootfs, format.Rootfs}} {
		if f.Artifact != nil {
			all = append(all, File{
				Role: f.role, URLs: []string{f.Location}, Signature: f.Signature,
				SHA256: strings.ToLower(f.Sha256), UncompressedSHA256: strings.ToLower(f.UncompressedSha256),
			})
		}
	}
	return all
}

// SignatureSuffix is the end of the name of a mirrored file's signature.
const SignatureSuffix = ".sig"

// Listed is a file that a document lists, with where.
type Listed struct {
	Architecture, Artifact, Format string
	// Release is the one that the artifact is of.
	Release string
	File
}

// List returns the files of a document in the order of architecture, artifact, format
// and role: those of the architectures and artifacts that are named, or of all where
// none is. A name that the document does not have is an error.
func (d *Document) List(architectures, artifacts []string) ([]Listed, error) {
	for _, name := range architectures {
		if _, ok := d.Stream.Architectures[name]; !ok {
			return nil, fmt.Errorf("the stream has no architecture %s, only %s", name, Few(d.Architectures()))
		}
	}
	if len(architectures) == 0 {
		architectures = d.Architectures()
	}
	var all []Listed
	found := map[string]bool{}
	for _, arch := range slices.Compact(slices.Sorted(slices.Values(architectures))) {
		for _, pair := range d.Artifacts(arch) {
			name, format, _ := strings.Cut(pair, "/")
			if len(artifacts) > 0 && !slices.Contains(artifacts, name) {
				continue
			}
			found[name] = true
			platform := d.Stream.Architectures[arch].Artifacts[name]
			for _, f := range files(platform.Formats[format]) {
				all = append(all, Listed{arch, name, format, platform.Release, f})
			}
		}
	}
	for _, name := range artifacts {
		if !found[name] {
			return nil, fmt.Errorf("the stream has no artifact %s for %s", name, Few(architectures))
		}
	}
	return all, nil
}

// MirrorPath is where a mirror keeps the file at location, below its root:
// stream/release/architecture/artifact/file. The error is of a location whose last
// part is no name for a file.
func MirrorPath(stream, release, architecture, artifact, location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", fmt.Errorf("%s is not a URL", location)
	}
	name := path.Base(u.Path)
	if len(name) > 255-len(SignatureSuffix) || !nameForm.MatchString(name) {
		return "", fmt.Errorf("%s does not end in the name of a file", location)
	}
	return strings.Join([]string{stream, release, architecture, artifact, name}, "/"), nil
}

// Rewrite returns the document with other locations and signatures of its files, and
// all else as it is, to the byte. replace is given the place of a file, "location" or
// "signature", and the URL there, and returns the new URL.
func (d *Document) Rewrite(replace func(at Listed, member, url string) string) ([]byte, error) {
	values, err := scan(d.Raw)
	if err != nil {
		return nil, err
	}
	var out []byte
	last := 0
	for i, v := range values {
		// architectures.A.artifacts.B.formats.C.ROLE.location
		at := keysOf(values, i)
		if len(at) != 8 || at[0] != "architectures" || at[2] != "artifacts" || at[4] != "formats" ||
			!slices.Contains(roles, at[6]) || at[7] != "location" && at[7] != "signature" || d.Raw[v.Start] != '"' {
			continue
		}
		listed := Listed{
			Architecture: at[1], Artifact: at[3], Format: at[5],
			Release: d.Stream.Architectures[at[1]].Artifacts[at[3]].Release, File: File{Role: at[6]},
		}
		was := jsonscan.Unquote(d.Raw[v.Start:v.End])
		text := replace(listed, at[7], was)
		if text == was {
			continue
		}
		quoted, err := jsontext.AppendQuote(append(out, d.Raw[last:v.Start]...), text)
		if err != nil {
			return nil, err
		}
		out, last = quoted, v.End
	}
	return append(out, d.Raw[last:]...), nil
}
