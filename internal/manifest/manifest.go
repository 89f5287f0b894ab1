// Package manifest reads Kubernetes-style objects from files and folders: YAML
// or JSON, many documents a file.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds one file: several configs of the largest size.
const maxFileBytes = 64 << 20

// Document is one object of a file.
type Document struct {
	// File is the path as it was found; Line is where the document begins in it,
	// from 1.
	File string
	Line int
	// YAML is the document as it stands, JSON included.
	YAML []byte
	// APIVersion, Kind, Namespace and Name are read from it.
	APIVersion, Kind, Namespace, Name string
	// Err says why it cannot be read as an object.
	Err error
}

// String is where the document stands, for messages: "hosts.yaml:12".
func (d *Document) String() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// Files returns the manifest files under the paths, in the order of the paths and
// then of names; folders are walked. A file that is named itself is taken
// whatever its extension; in folders .yaml, .yml and .json count, and hidden
// files and folders do not.
func Files(paths ...string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		var found []string
		err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if p != path && strings.HasPrefix(entry.Name(), ".") {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if !entry.IsDir() && isManifest(p) {
				found = append(found, p)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		sort.Strings(found)
		files = append(files, found...)
	}
	return files, nil
}

func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// Read returns the documents under the paths. A file that cannot be read, or a
// document that is no object, is a Document with Err set.
func Read(paths ...string) ([]Document, error) {
	files, err := Files(paths...)
	if err != nil {
		return nil, err
	}
	var docs []Document
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			docs = append(docs, Document{File: file, Line: 1, Err: err})
			continue
		}
		docs = append(docs, Split(file, data)...)
	}
	return docs, nil
}

func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("is %d MiB large; a manifest has at most %d", info.Size()>>20, maxFileBytes>>20)
	}
	return os.ReadFile(file)
}

// Split returns the documents of one file. Documents that hold nothing but
// comments are left out; the items of a List are documents of their own.
func Split(file string, data []byte) []Document {
	var docs []Document
	line := 1
	for _, chunk := range chunks(data) {
		doc := Document{File: file, Line: line + leadingLines(chunk), YAML: chunk}
		line += bytes.Count(chunk, []byte("\n"))
		if !holdsText(chunk) {
			continue
		}
		docs = append(docs, doc.read()...)
	}
	return docs
}

// chunks cuts at lines that begin a YAML document; each keeps its separator.
func chunks(data []byte) [][]byte {
	var out [][]byte
	start := 0
	for pos := 0; pos < len(data); {
		end := len(data)
		if nl := bytes.IndexByte(data[pos:], '\n'); nl >= 0 {
			end = pos + nl + 1
		}
		text := bytes.TrimRight(data[pos:end], " \t\r\n")
		if pos > start && (bytes.Equal(text, []byte("---")) || bytes.HasPrefix(text, []byte("--- "))) {
			out = append(out, data[start:pos])
			start = pos
		}
		pos = end
	}
	return append(out, data[start:])
}

// leadingLines counts the separator, blank and comment lines before the text.
func leadingLines(chunk []byte) int {
	n := 0
	for line := range bytes.Lines(chunk) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && !bytes.Equal(text, []byte("---")) {
			break
		}
		n++
	}
	return n
}

func holdsText(chunk []byte) bool {
	return leadingLines(chunk) < len(bytes.Split(bytes.TrimRight(chunk, "\n"), []byte("\n")))
}

type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items []any `json:"items"`
}

var errNoKind = errors.New("is no object: it has no kind")

func (d Document) read() []Document {
	var h header
	if err := yaml.Unmarshal(d.YAML, &h); err != nil {
		d.Err = fmt.Errorf("cannot be read: %w", err)
		return []Document{d}
	}
	if strings.HasSuffix(h.Kind, "List") && h.Items != nil {
		var docs []Document
		for _, item := range h.Items {
			text, err := yaml.Marshal(item)
			if err != nil {
				d.Err = err
				return []Document{d}
			}
			docs = append(docs, Document{File: d.File, Line: d.Line, YAML: text}.read()...)
		}
		return docs
	}
	d.APIVersion, d.Kind, d.Namespace, d.Name = h.APIVersion, h.Kind, h.Metadata.Namespace, h.Metadata.Name
	if d.Kind == "" {
		d.Err = errNoKind
	} else if d.Name == "" {
		d.Err = fmt.Errorf("%s has no metadata.name", d.Kind)
	}
	return []Document{d}
}
