package coreos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// maxDepth bounds how deep a document is nested; real ones have nine levels.
const maxDepth = 32

// walk reads a JSON document as Go does without a type, and refuses what two readers
// may understand differently: a member that stands twice, or something after the end.
// Numbers stay json.Number. visit, where
// it is not nil, is called for every string that is a member's value, with the keys
// that lead to it and the place of its token in data.
func walk(data []byte, visit func(path []string, value string, start, end int)) (any, error) {
	w := &walker{data: data, dec: json.NewDecoder(bytes.NewReader(data)), visit: visit}
	w.dec.UseNumber()
	tree, err := w.value()
	if err != nil {
		return nil, err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("goes on after the end of its JSON")
	}
	return tree, nil
}

type walker struct {
	data  []byte
	dec   *json.Decoder
	path  []string
	visit func(path []string, value string, start, end int)
}

func (w *walker) token() (json.Token, error) {
	token, err := w.dec.Token()
	if err == nil {
		return token, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("is not JSON: it ends too early")
	}
	at := w.dec.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	line := 1 + bytes.Count(w.data[:min(int(at), len(w.data))], []byte("\n"))
	return nil, fmt.Errorf("is not JSON: line %d: %w", line, err)
}

func (w *walker) value() (any, error) {
	before := w.dec.InputOffset()
	token, err := w.token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return w.members()
	case json.Delim('['):
		return w.items()
	}
	if text, ok := token.(string); ok && w.visit != nil {
		end := int(w.dec.InputOffset())
		start := int(before) + bytes.IndexByte(w.data[before:end], '"')
		w.visit(w.path, text, start, end)
	}
	return token, nil
}

func (w *walker) members() (any, error) {
	members, seen := map[string]any{}, map[string]bool{}
	for w.dec.More() {
		token, err := w.token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder refuses any other
		if seen[fold(key)] {
			return nil, fmt.Errorf("has the member %q twice at %q", clip(key), clip(strings.Join(w.path, ".")))
		}
		seen[fold(key)] = true
		if members[key], err = w.below(key); err != nil {
			return nil, err
		}
	}
	_, err := w.token()
	return members, err
}

// fold makes keys equal that Go's JSON takes for the same member: "Location" would
// stand in for a "location" that was checked.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, key)
}

func (w *walker) items() (any, error) {
	items := []any{}
	for w.dec.More() {
		item, err := w.below("[]")
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := w.token()
	return items, err
}

func (w *walker) below(key string) (any, error) {
	if len(w.path) == maxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	w.path = append(w.path, key)
	value, err := w.value()
	w.path = w.path[:len(w.path)-1]
	return value, err
}
