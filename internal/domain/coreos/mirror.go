package coreos

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"glowplug/internal/domain/jsonscan"
)

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
