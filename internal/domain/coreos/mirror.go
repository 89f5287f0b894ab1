package coreos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// SignatureSuffix is what the signature of a mirrored file ends in.
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
	var all []Listed
	found := map[string]bool{}
	for _, arch := range d.Architectures() {
		if len(architectures) > 0 && !slices.Contains(architectures, arch) {
			continue
		}
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
			return nil, fmt.Errorf("the stream has no artifact %s for %s", name, Few(d.among(architectures)))
		}
	}
	return all, nil
}

func (d *Document) among(architectures []string) []string {
	if len(architectures) > 0 {
		return architectures
	}
	return d.Architectures()
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
// all else as it is, to the byte. replace is given the URL of a file and of its
// signature, which member ("location" or "signature") tells apart, with where it
// stands, and gives what is to stand there.
func (d *Document) Rewrite(replace func(at Listed, member, url string) string) ([]byte, error) {
	var out bytes.Buffer
	last := 0
	_, err := walk(d.Raw, func(at []string, value string, start, end int) {
		// architectures.A.artifacts.B.formats.C.ROLE.location
		if len(at) != 8 || at[0] != "architectures" || at[2] != "artifacts" || at[4] != "formats" {
			return
		}
		if at[7] != "location" && at[7] != "signature" || !slices.Contains([]string{Disk, Kernel, Initramfs, Rootfs}, at[6]) {
			return
		}
		listed := Listed{
			Architecture: at[1], Artifact: at[3], Format: at[5],
			Release: d.Stream.Architectures[at[1]].Artifacts[at[3]].Release, File: File{Role: at[6]},
		}
		text := replace(listed, at[7], value)
		if text == value {
			return
		}
		out.Write(d.Raw[last:start])
		out.Write(quote(text))
		last = end
	})
	if err != nil {
		return nil, err
	}
	out.Write(d.Raw[last:])
	return out.Bytes(), nil
}

// quote writes a JSON string that leaves "&" of a URL as it is.
func quote(text string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string is always written
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
