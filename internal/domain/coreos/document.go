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
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coreos/stream-metadata-go/stream"
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
