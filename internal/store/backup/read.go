package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"glowplug/internal/store/kvstore"
)

// Visitor is called with what a backup has, in the order in which it stands there. A nil function is not called.
type Visitor struct {
	Manifest func(Manifest) error
	File     func(File) error
	Record   func(resource string, r kvstore.Record) error
}

// reader reads the entries of an archive.
type reader struct {
	visit    Visitor
	manifest Manifest
	objects  map[string]int // that were read, by resource
	sums     bytes.Buffer
}

// Read reads a backup that is not encrypted, and verifies it. Whether it is whole is known at its end alone: who must
// not begin with a part of it reads it twice. The error of a file that is no whole backup is a *DamagedError.
func Read(r io.Reader, visit Visitor) (Manifest, error) {
	buffered := bufio.NewReader(r)
	compressed, err := gzip.NewReader(buffered)
	if err != nil {
		return Manifest{}, damaged("it is not compressed by gzip (%v)", err)
	}
	compressed.Multistream(false)
	in := &reader{visit: visit, objects: map[string]int{}}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return Manifest{}, damaged("its end with the checksums is missing")
		}
		if err != nil {
			return Manifest{}, damaged("it cannot be read (%v)", err)
		}
		if header.Size > maxEntry {
			return Manifest{}, damaged("the entry %.100q has %d bytes", header.Name, header.Size)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return Manifest{}, damaged("the entry %.100q cannot be read (%v)", header.Name, err)
		}
		if header.Name == sumsName {
			if err := in.finish(content); err != nil {
				return Manifest{}, err
			}
			return in.manifest, readEnd(compressed, buffered)
		}
		fmt.Fprintf(&in.sums, "%x  %s\n", sha256.Sum256(content), header.Name)
		if in.sums.Len() > maxSums {
			return Manifest{}, damaged("it has too many entries")
		}
		if err := in.entry(header.Name, content); err != nil {
			return Manifest{}, err
		}
	}
}

// readEnd reads what is behind the last entry: the checksums of gzip and of age, and nothing else.
func readEnd(compressed, file io.Reader) error {
	if _, err := io.Copy(io.Discard, compressed); err != nil {
		return damaged("its end cannot be read (%v)", err)
	}
	switch n, err := io.CopyN(io.Discard, file, 1); {
	case n > 0:
		return damaged("there is something behind its end")
	case !errors.Is(err, io.EOF):
		return damaged("its end cannot be read (%v)", err)
	}
	return nil
}

// entry passes an entry on.
func (in *reader) entry(name string, content []byte) error {
	resource, isObjects := strings.CutPrefix(path.Dir(name)+"/", objectsDir)
	file, isFile := strings.CutPrefix(name, filesDir)
	switch {
	case in.manifest.Version == 0 && name != manifestName:
		return damaged("its first entry is not %s", manifestName)
	case name == manifestName && in.manifest.Version != 0:
		return damaged("it has %s twice", manifestName)
	case name == manifestName:
		return in.readManifest(content)
	case isObjects:
		return in.readObjects(strings.TrimSuffix(resource, "/"), content)
	case isFile && in.visit.File != nil:
		return in.visit.File(File{Name: file, Content: content})
	}
	return nil
}

func (in *reader) readManifest(content []byte) error {
	if err := json.Unmarshal(content, &in.manifest); err != nil {
		return damaged("%s cannot be read (%v)", manifestName, err)
	}
	if v := in.manifest.Version; v != version {
		return fmt.Errorf("the backup has version %d of the format, and this glowplug (which reads version %d) cannot read "+
			"it: use glowplug %q or later", v, version, in.manifest.Program)
	}
	named := map[string]bool{}
	for _, kind := range in.manifest.Kinds {
		if named[kind.Resource] || kind.Revision > maxRevision {
			return damaged("%s names %.100q twice, or with the revision %d", manifestName, kind.Resource, kind.Revision)
		}
		named[kind.Resource] = true
	}
	if in.visit.Manifest != nil {
		return in.visit.Manifest(in.manifest)
	}
	return nil
}

// readObjects passes the lines of an entry on.
func (in *reader) readObjects(resource string, content []byte) error {
	for len(content) > 0 {
		text, rest, ended := bytes.Cut(content, []byte("\n"))
		content = rest
		var line Line
		err := json.Unmarshal(text, &line)
		if err != nil || !ended || line.Key == "" || len(line.Object) == 0 || len(text) > maxLine {
			return damaged("a line of the %s cannot be read", resource)
		}
		if !in.announced(resource) {
			return damaged("it has %.100q, which its first entry does not name", resource)
		}
		in.objects[resource]++
		if in.visit.Record == nil {
			continue
		}
		if err := in.visit.Record(resource, line.record()); err != nil {
			return fmt.Errorf("%s %s: %w", resource, line.Key, err)
		}
	}
	return nil
}

func (in *reader) announced(resource string) bool {
	return slices.ContainsFunc(in.manifest.Kinds, func(k Kind) bool { return k.Resource == resource })
}

// finish compares all that was read with the sums and with what the manifest has announced.
func (in *reader) finish(sums []byte) error {
	if !bytes.Equal(sums, in.sums.Bytes()) {
		return damaged("its checksums do not agree with what it has")
	}
	for _, kind := range in.manifest.Kinds {
		if n := in.objects[kind.Resource]; n != kind.Objects {
			return damaged("it has %d %s, and should have %d", n, kind.Resource, kind.Objects)
		}
	}
	return nil
}
