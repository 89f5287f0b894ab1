package coreos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"glowplug/internal/domain/jsonscan"
)

// maxDepth bounds how deep a document is nested; real ones have nine levels.
const maxDepth = 32

// scan returns the values of a JSON document. It refuses what two readers may
// understand differently: a repeated member, in any case of letters, and text after
// the end.
func scan(data []byte) ([]jsonscan.Value, error) {
	var text json.RawMessage
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, syntaxError(data, err)
	}
	var values []jsonscan.Value
	for v := range jsonscan.Values(data) {
		switch {
		case v.Depth > maxDepth:
			return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
		case v.Repeated:
			return nil, fmt.Errorf("has the member %q twice at %q", clip(v.Key),
				clip(strings.Join(keysOf(values, v.Parent), ".")))
		}
		values = append(values, v)
	}
	return values, nil
}

func syntaxError(data []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return err
	case strings.Contains(syntax.Error(), "after top-level value"):
		return errors.New("goes on after the end of its JSON")
	case strings.Contains(syntax.Error(), "unexpected end"):
		return errors.New("is not JSON: it ends too early")
	}
	line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
	return fmt.Errorf("is not JSON: line %d: %w", line, err)
}

// keysOf returns the keys that lead to a value; "[]" for an item of a list.
func keysOf(values []jsonscan.Value, i int) []string {
	var keys []string
	for ; i > 0; i = values[i].Parent {
		if values[i].Index >= 0 {
			keys = append(keys, "[]")
		} else {
			keys = append(keys, values[i].Key)
		}
	}
	slices.Reverse(keys)
	return keys
}

// decode reads a document without a type. Numbers stay json.Number.
func decode(data []byte) (tree any, err error) {
	if _, err := scan(data); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

// encode writes a value with "&" of a URL unchanged.
func encode(value any, indent string) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return buf.Bytes(), err
}

// Problem is something wrong with a document.
type Problem struct {
	// Path is where, such as architectures.x86_64.artifacts.metal.formats.iso; empty:
	// the document as a whole.
	Path    string
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are the problems of a document, in the order of its paths.
type Problems []Problem

// maxShown and maxProblems bound the text of an error, and the search.
const (
	maxShown    = 5
	maxProblems = 100
)

func (p Problems) Error() string {
	var all []string
	for i, problem := range p {
		if i == maxShown {
			all = append(all, fmt.Sprintf("and %d more", len(p)-i))
			break
		}
		all = append(all, problem.String())
	}
	return strings.Join(all, "; ")
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child is the path of a member: a.b, or a[b.c] where its key is not plain.
func child(path, key string) string {
	if len(key) > 64 {
		key = strings.ToValidUTF8(key[:64], "") + "…"
	}
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
