package impact

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"github.com/vincent-petithory/dataurl"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

const (
	// maxCompared bounds the bytes of a value that are compared line by line, and maxDifference
	// those of a difference.
	maxCompared   = 256 << 10
	maxDifference = 64 << 10
	// contextLines is the number of lines around a changed line of a file.
	contextLines = 2
)

// difference returns the difference of what the first of the hosts receives, as a text; "" where
// it receives nothing before or after.
func (g *groups) difference(one *alike) string {
	var texts []string
	for _, typ := range one.types() {
		before, after := g.before.bytes(one.first.before, typ), g.after.bytes(one.first.after, typ)
		i := slices.Index(types[:], typ)
		switch {
		case before == nil || after == nil:
		case differInSecrets(&one.before.configs[i], &one.after.configs[i]):
			texts = append(texts, otherSecrets)
		case bytes.Equal(before, after):
		case !g.isShown(&g.before, one.first.before, typ) || !g.isShown(&g.after, one.first.after, typ):
			texts = append(texts, concealed)
		case typ == decide.Ignition:
			texts = append(texts, DifferenceOf(before, after))
		default:
			texts = append(texts, lineDifference("kickstart", string(before), string(after)))
		}
	}
	text := strings.Join(texts, "")
	if len(text) > maxDifference {
		text = strings.ToValidUTF8(text[:maxDifference], "") + "\n(the difference is longer)\n"
	}
	return text
}

// otherSecrets is the difference of configs with other values of Secrets alone.
const otherSecrets = "(only values of Secrets differ, which are not shown)\n"

// concealed is the difference of a config that may not be shown.
const concealed = "(confidential: needs get on ignitionconfigs/rendered)\n"

// isShown reports whether the bytes that a host receives may be shown.
func (g *groups) isShown(s *side, h *model.Host, typ string) bool {
	if g.mayShow == nil {
		return true
	}
	// The config of a rendering is a copy.
	config := s.view.Config(s.decider.Receives(h, typ).Config.Ref)
	return config != nil && g.mayShow(s.view, config)
}

// notVisible is the difference of configs whose values are the same.
const notVisible = "(only the order of lists or fields differs)\n"

// DifferenceOf returns the difference of two Ignition configs as a text: for each value that
// differs a line with its place, and lines that begin with - and + for the value before and after.
// An element of a list is named by its name, device or path, so that its position does not count,
// and the contents of a file are decoded.
func DifferenceOf(before, after []byte) string {
	was, is := valuesOf(before), valuesOf(after)
	places := maps.Clone(was)
	maps.Copy(places, is)
	var out strings.Builder
	for _, place := range slices.Sorted(maps.Keys(places)) {
		old, existed := was[place]
		now, exists := is[place]
		if existed == exists && old == now {
			continue
		}
		shown := strings.Map(oneLine, place)
		oldText, nowText := decoded(old), decoded(now)
		switch {
		case existed && exists && oldText == nowText: // compressed, or encoded, in another way
			fmt.Fprintf(&out, "%s\n- %s\n+ %s\n", shown, sized(old), sized(now))
		case strings.Contains(oldText, "\n") || strings.Contains(nowText, "\n"):
			out.WriteString(lineDifference(shown, oldText, nowText))
		default:
			fmt.Fprintf(&out, "%s\n", shown)
			if existed {
				fmt.Fprintf(&out, "- %s\n", oldText)
			}
			if exists {
				fmt.Fprintf(&out, "+ %s\n", nowText)
			}
		}
	}
	if out.Len() == 0 {
		return notVisible
	}
	return out.String()
}

// oneLine replaces control characters.
func oneLine(c rune) rune {
	if unicode.IsControl(c) {
		return utf8.RuneError
	}
	return c
}

// sized stands for a value that is not shown.
func sized(value string) string {
	return fmt.Sprintf("%d bytes, sha256:%.12x", len(value), sha256.Sum256([]byte(value)))
}

// lineDifference returns the difference of two texts line by line.
func lineDifference(place, before, after string) string {
	edits := udiff.Strings(before, after)
	unified, err := udiff.ToUnifiedDiff("", "", before, edits, contextLines)
	if err != nil || len(before)+len(after) > maxCompared {
		return fmt.Sprintf("%s\n- %s\n+ %s\n", place, sized(before), sized(after))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", place)
	for _, hunk := range unified.Hunks {
		fmt.Fprintf(&out, "@@ -%d +%d @@\n", hunk.FromLine, hunk.ToLine)
		for _, line := range hunk.Lines {
			mark := map[udiff.OpKind]string{udiff.Delete: "-", udiff.Insert: "+"}[line.Kind]
			text, ended := strings.CutSuffix(line.Content, "\n")
			fmt.Fprintf(&out, "%-1s %s\n", mark, text)
			if !ended {
				out.WriteString("  (no newline at the end)\n")
			}
		}
	}
	return out.String()
}

// values are the values of a config by their places, as they are.
type values struct {
	texts map[string]string
	// elements are the places of the elements of lists.
	elements map[string]bool
}

// valuesOf returns the values of a config. What is no JSON is one value.
func valuesOf(config []byte) map[string]string {
	v := &values{map[string]string{}, map[string]bool{}}
	var root any
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return map[string]string{"config": string(config)}
	}
	v.add("", root)
	return v.texts
}

func (v *values) add(place string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 && place != "" {
			v.texts[place] = "{}"
		}
		for key, inner := range value {
			v.add(strings.TrimPrefix(place+"."+key, "."), inner)
		}
	case []any:
		if len(value) == 0 {
			v.texts[place] = "[]"
		}
		for i, inner := range value {
			v.add(v.element(place, elementName(i, inner)), inner)
		}
	case string:
		v.texts[place] = value
	default:
		text, _ := json.Marshal(value) // it was decoded from JSON
		v.texts[place] = string(text)
	}
}

// element returns the place of an element of a list. Two with the same name are told apart.
func (v *values) element(list, name string) string {
	place := list + "[" + name + "]"
	for n := 2; v.elements[place]; n++ {
		place = list + "[" + name + " #" + strconv.Itoa(n) + "]"
	}
	v.elements[place] = true
	return place
}

// elementName names an element of a list by what identifies it in Ignition, a plain value by
// itself, and another one by its position.
func elementName(i int, element any) string {
	switch e := element.(type) {
	case map[string]any:
		for _, key := range []string{"name", "device", "path", "label", "source"} {
			if name, ok := e[key].(string); ok && name != "" && len(name) <= maxElement {
				return name
			}
		}
		if number, ok := e["number"].(json.Number); ok && number != "0" {
			return number.String()
		}
	case string:
		if len(e) <= maxElement {
			return e
		}
	}
	return strconv.Itoa(i)
}

// maxElement bounds a value that is its own name.
const maxElement = 200

// decoded returns the text in a data URL, compressed or not, and any other value as it is.
func decoded(value string) string {
	if !strings.HasPrefix(value, "data:") {
		return value
	}
	url, err := dataurl.DecodeString(value)
	if err != nil {
		return value
	}
	data := url.Data
	if reader, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		plain, err := io.ReadAll(io.LimitReader(reader, maxCompared+1))
		if err != nil || len(plain) > maxCompared {
			return sized(value)
		}
		data = plain
	}
	if !utf8.Valid(data) || bytes.ContainsRune(data, 0) {
		return sized(value)
	}
	return string(data)
}
