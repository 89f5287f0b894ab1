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

// reader checks a document from the top down, and collects its problems.
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
	tree, err := decode(data)
	if err != nil {
		r.bad("", "%v", err)
		return
	}
	top := member{value: tree, there: true}
	if r.object(top) == nil {
		return
	}
	r.text(top.member("stream"), true, r.name)
	if metadata := top.member("metadata"); metadata.there && r.object(metadata) != nil {
		r.text(metadata.member("last-modified"), false, func(path, text string) {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				r.bad(path, "%q is not a time such as 2022-11-02T18:50:21Z", clip(text))
				return
			}
			doc.LastModified = at.UTC()
		})
	}
	architectures := top.member("architectures")
	r.members(architectures, maxArchitectures, r.architecture)
	r.notEmpty(architectures)
	if len(r.problems) == 0 {
		r.typed("", data, &doc.Stream)
	}
}

// member is a value of a document at its path, or says that there is none.
type member struct {
	path  string
	value any
	there bool
}

// member returns a member of an object.
func (m member) member(key string) member {
	object, _ := m.value.(map[string]any)
	value, there := object[key]
	return member{child(m.path, key), value, there}
}

// keys returns the names of an object's members, sorted; none of another value.
func (m member) keys() []string {
	object, _ := m.value.(map[string]any)
	return slices.Sorted(maps.Keys(object))
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

func (r *reader) architecture(name string, m member) {
	if want, other := goNames[name]; other {
		r.bad(m.path, "is not a name of stream metadata: want %s", want)
		return
	}
	r.members(m.member("artifacts"), maxArtifacts, r.artifact)
	if images := m.member("images"); images.there {
		raw, err := json.Marshal(images.value)
		if err != nil {
			r.bad(images.path, "%v", err)
			return
		}
		r.typed(images.path, raw, &stream.Images{})
		r.regions(images)
	}
}

// regions refuses a region of a cloud whose image has no name: an installer would start
// machines with none. The library takes it for any string.
func (r *reader) regions(images member) {
	for _, cloud := range images.keys() {
		regions := images.member(cloud).member("regions")
		for _, region := range regions.keys() {
			if image := regions.member(region).member("image"); image.there {
				r.text(image, true, func(string, string) {})
			}
		}
	}
}

func (r *reader) artifact(_ string, m member) {
	r.text(m.member("release"), true, r.name)
	formats := m.member("formats")
	r.members(formats, maxFormats, r.format)
	r.notEmpty(formats)
}

// format checks the files of a format. Members beside the known roles may be anything.
func (r *reader) format(name string, m member) {
	if len(r.object(m)) == 0 {
		r.bad(m.path, "lists no file")
	}
	for _, role := range roles {
		file := m.member(role)
		switch {
		case file.there:
			r.file(file)
		case name == "pxe" && (role == Kernel || role == Initramfs):
			r.bad(file.path, "is missing: nothing boots over PXE without it")
		}
	}
}

func (r *reader) file(m member) {
	if r.object(m) == nil {
		return
	}
	r.text(m.member("location"), true, r.location)
	r.text(m.member("signature"), false, r.location)
	r.text(m.member("sha256"), true, r.digest)
	r.text(m.member("uncompressed-sha256"), false, r.digest)
}

// location checks a URL. A password in it would be public.
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

func (r *reader) digest(path, text string) {
	if !hexDigest.MatchString(text) {
		r.bad(path, "%q is not a SHA-256 digest of 64 hex digits", clip(text))
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]*$`)

// maxName bounds the names of streams, releases and so on, in bytes.
const maxName = 128

// name checks a name, which may become part of a path.
func (r *reader) name(path, name string) {
	if len(name) > maxName || !nameForm.MatchString(name) {
		r.bad(path, "%q is not a name of letters, digits, \".\", \"_\", \"+\", \"~\" and \"-\", at most %d", clip(name),
			maxName)
	}
}

// object returns the members of an object; nil of another value.
func (r *reader) object(m member) map[string]any {
	if !m.there {
		r.bad(m.path, "is missing")
		return nil
	}
	members, ok := m.value.(map[string]any)
	if !ok {
		r.bad(m.path, "must be an object, not %s", kindOf(m.value))
	}
	return members
}

// members checks the members of an object, at most limit, in the order of their names.
// Each is an object with a name.
func (r *reader) members(m member, limit int, check func(name string, m member)) {
	all := r.object(m)
	if len(all) > limit {
		r.bad(m.path, "lists %d, more than the %d that there may be", len(all), limit)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		each := m.member(name)
		r.name(each.path, name)
		if r.object(each) != nil {
			check(name, each)
		}
	}
}

func (r *reader) notEmpty(m member) {
	if object, ok := m.value.(map[string]any); ok && len(object) == 0 {
		r.bad(m.path, "lists none")
	}
}

// text checks a string, unless it is empty.
func (r *reader) text(m member, required bool, check func(path, text string)) {
	text, ok := m.value.(string)
	switch {
	case !m.there && required:
		r.bad(m.path, "is missing")
	case m.there && !ok:
		r.bad(m.path, "must be a string, not %s", kindOf(m.value))
	case m.there && text == "" && required:
		r.bad(m.path, "is empty")
	case text != "":
		check(m.path, text)
	}
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
