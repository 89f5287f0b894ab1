// Package manifest reads Kubernetes-style objects from files and folders: YAML or JSON, several documents in a file.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"glowplug/internal/domain/butane"
)

// maxFileBytes bounds one file: several configs of the largest size.
const maxFileBytes = 64 << 20

// Document is one object of a file.
type Document struct {
	// File is the path of the file; Line is the first line of the document, from 1.
	File string
	Line int
	// Above is the number of lines of the file above YAML; 0 for an item of a List.
	Above int
	// YAML is the text of the document, which may be JSON.
	YAML []byte
	// APIVersion, Kind, Namespace and Name are those of the object.
	APIVersion, Kind, Namespace, Name string
	// Err is the reason why the document is not an object.
	Err error
}

// String returns the place of the document, for messages: "hosts.yaml:12".
func (d *Document) String() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// Decode reads the object as strictly as the API does: a value is not converted to the type
// of its field. strict are the fields that into does not have, and those that are there twice.
func (d *Document) Decode(into any) (strict []error, err error) {
	text, err := yaml.YAMLToJSONStrict(d.YAML)
	if err != nil {
		return nil, err
	}
	return json.UnmarshalStrict(text, into)
}

// Files returns the manifest files of the paths, in the order of the paths. A folder stands
// for its .yaml, .yml and .json files, sorted by name, with those of its subfolders; hidden
// files and folders are left out. A path of a file may have any extension. The folders are those that were looked into.
func Files(paths ...string) (files, folders []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case p != path && strings.HasPrefix(entry.Name(), "."):
				if entry.IsDir() {
					return fs.SkipDir
				}
			case entry.IsDir():
				folders = append(folders, p)
			case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p)):
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		slices.Sort(files[before:])
	}
	return files, folders, nil
}

// Read returns the documents of the paths. A file that cannot be read, or a document that
// is not an object, is a Document with Err set.
func Read(paths ...string) ([]Document, error) {
	files, _, err := Files(paths...)
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

// Split returns the documents of one file, without those that have only comments. The items
// of a List are documents of their own.
func Split(file string, data []byte) []Document {
	var docs []Document
	var doc Document // Line is 0 until a line with text
	number := 0
	end := func() {
		if doc.Line > 0 {
			docs = append(docs, doc.read()...)
		}
		doc = Document{File: file, Above: number}
	}
	end()
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), " \t\r\n")
		if text == "---" || strings.HasPrefix(text, "--- ") {
			end()
		}
		number++
		doc.YAML = append(doc.YAML, line...)
		text = strings.TrimSpace(text)
		if doc.Line == 0 && text != "" && text != "---" && text[0] != '#' {
			doc.Line = number
		}
	}
	end()
	return docs
}

// header is what all objects have. The tags are the names in the messages of the decoder.
type header struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Items      []any    `json:"items"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

var errNoKind = errors.New("is no object: it has no kind")

func (d Document) read() []Document {
	var h header
	if err := yaml.Unmarshal(d.YAML, &h); err != nil {
		if found := butane.Syntax(d.YAML).Errors(); len(found) > 0 {
			err = errors.New(found[0].Moved(d.Above).WithHint())
		}
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
