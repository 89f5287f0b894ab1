package coreos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/stream-metadata-go/stream"
)

// reader checks a document from the top down, and notes what is wrong at which path.
type reader struct{ problems Problems }

func (r *reader) bad(path, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{path, fmt.Sprintf(format, args...)})
	}
}

// document reads doc.Raw into the rest of doc.
func (r *reader) document(doc *Document) {
	data := doc.Raw
	switch {
	case len(data) > MaxDocument:
		r.bad("", "has %d bytes, more than the %d that a document may have", len(data), MaxDocument)
		return
	case !utf8.Valid(data):
		r.bad("", "is not UTF-8 text")
		return
	case IsLegacy(data):
		r.bad("", "is of the older rhcos.json form: glowplug coreos import makes stream metadata of it")
		return
	}
	tree, err := walk(data, nil)
	if err != nil {
		r.bad("", "%v", err)
		return
	}
	top := r.object("", member{tree, true})
	if top == nil {
		return
	}
	r.name("stream", r.text("stream", of(top, "stream"), true))
	if metadata := of(top, "metadata"); metadata.there {
		r.metadata(doc, metadata)
	}
	architectures := r.members("architectures", of(top, "architectures"), maxArchitectures)
	if architectures != nil && len(architectures) == 0 {
		r.bad("architectures", "lists none")
	}
	for _, name := range slices.Sorted(maps.Keys(architectures)) {
		r.architecture(child("architectures", name), name, of(architectures, name))
	}
	if len(r.problems) == 0 {
		r.typed("", data, &doc.Stream)
	}
}

// member is the value of a member, or says that there is none.
type member struct {
	value any
	there bool
}

func of(object map[string]any, key string) member {
	value, there := object[key]
	return member{value, there}
}

func (r *reader) metadata(doc *Document, m member) {
	text := r.text("metadata.last-modified", of(r.object("metadata", m), "last-modified"), false)
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.bad("metadata.last-modified", "%q is not a time such as 2022-11-02T18:50:21Z", clip(text))
		return
	}
	doc.LastModified = at.UTC()
}

// Bounds of what a document lists: real ones have 4 architectures, 21 artifacts of
// one and 4 formats of one.
const (
	maxArchitectures = 32
	maxArtifacts     = 256
	maxFormats       = 64
)

// goNames are names of architectures that are used elsewhere, with those that are
// meant.
var goNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "x86-64": "x86_64"}

func (r *reader) architecture(path, name string, m member) {
	if want, other := goNames[name]; other {
		r.bad(path, "is not a name of stream metadata: want %s", want)
		return
	}
	r.name(path, name)
	arch := r.object(path, m)
	if arch == nil {
		return
	}
	at := child(path, "artifacts")
	artifacts := r.members(at, of(arch, "artifacts"), maxArtifacts)
	for _, name := range slices.Sorted(maps.Keys(artifacts)) {
		r.artifact(child(at, name), name, of(artifacts, name))
	}
	if images, ok := arch["images"]; ok {
		raw, err := json.Marshal(images)
		if err != nil {
			r.bad(child(path, "images"), "%v", err)
			return
		}
		r.typed(child(path, "images"), raw, &stream.Images{})
	}
}

func (r *reader) artifact(path, name string, m member) {
	r.name(path, name)
	artifact := r.object(path, m)
	if artifact == nil {
		return
	}
	r.name(child(path, "release"), r.text(child(path, "release"), of(artifact, "release"), true))
	at := child(path, "formats")
	formats := r.members(at, of(artifact, "formats"), maxFormats)
	if formats != nil && len(formats) == 0 {
		r.bad(at, "lists none")
	}
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		r.format(child(at, name), name, of(formats, name))
	}
}

// format checks the files of a format. Other members than the known roles may be
// anything.
func (r *reader) format(path, name string, m member) {
	r.name(path, name)
	format := r.object(path, m)
	if format == nil {
		return
	}
	if len(format) == 0 {
		r.bad(path, "lists no file")
	}
	for _, role := range []string{Disk, Kernel, Initramfs, Rootfs} {
		if file := of(format, role); file.there {
			r.file(child(path, role), file)
		}
	}
	if name != "pxe" {
		return
	}
	for _, role := range []string{Kernel, Initramfs} {
		if _, ok := format[role]; !ok {
			r.bad(child(path, role), "is missing: nothing boots over PXE without it")
		}
	}
}

func (r *reader) file(path string, m member) {
	file := r.object(path, m)
	if file == nil {
		return
	}
	at := child(path, "location")
	if text := r.text(at, of(file, "location"), true); text != "" {
		r.location(at, text)
	}
	at = child(path, "signature")
	if text := r.text(at, of(file, "signature"), false); text != "" {
		r.location(at, text)
	}
	r.digest(child(path, "sha256"), of(file, "sha256"), true)
	r.digest(child(path, "uncompressed-sha256"), of(file, "uncompressed-sha256"), false)
}

// location checks a URL. One with a password in it would be shown to everybody.
func (r *reader) location(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		r.bad(path, "is not an http or https URL")
	case u.User != nil:
		r.bad(path, "holds a user name or a password, and the document is open to everybody")
	}
}

var hexDigest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (r *reader) digest(path string, m member, required bool) {
	if text := r.text(path, m, required); text != "" && !hexDigest.MatchString(text) {
		r.bad(path, "%q is not a SHA-256 digest of 64 hex digits", clip(text))
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]*$`)

// maxName bounds the names of streams, releases and so on, in bytes.
const maxName = 128

// name checks a name, which may become part of a path.
func (r *reader) name(path, name string) {
	if name != "" && (len(name) > maxName || !nameForm.MatchString(name)) {
		r.bad(path, "%q is not a name of letters, digits, \".\", \"_\", \"+\", \"~\" and \"-\", at most %d", clip(name),
			maxName)
	}
}

// object reads the members of an object; nil: it is none.
func (r *reader) object(path string, m member) map[string]any {
	if !m.there {
		r.bad(path, "is missing")
		return nil
	}
	members, ok := m.value.(map[string]any)
	if !ok {
		r.bad(path, "must be an object, not %s", kindOf(m.value))
	}
	return members
}

// members is object for one of at most limit members.
func (r *reader) members(path string, m member, limit int) map[string]any {
	all := r.object(path, m)
	if len(all) > limit {
		r.bad(path, "lists %d, more than the %d that there may be", len(all), limit)
		return nil
	}
	return all
}

func (r *reader) text(path string, m member, required bool) string {
	text, ok := m.value.(string)
	switch {
	case !m.there && required:
		r.bad(path, "is missing")
	case m.there && !ok:
		r.bad(path, "must be a string, not %s", kindOf(m.value))
	case m.there && text == "" && required:
		r.bad(path, "is empty")
	}
	return text
}

// typed reads what the library has a type for.
func (r *reader) typed(path string, raw json.RawMessage, into any) {
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		for part := range strings.SplitSeq(wrong.Field, ".") {
			if part != "" {
				path = child(path, part)
			}
		}
		r.bad(path, "must not be a JSON %s", wrong.Value)
	case err != nil:
		r.bad(path, "%v", err)
	}
}

// kindOf names a JSON value.
func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case nil:
		return "null"
	}
	return "a number"
}

// clip shows the beginning of a text, on one line.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
