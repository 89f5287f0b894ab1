package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// stored returns a config as the API answers it.
func stored(t *testing.T, source string) *storedConfig {
	t.Helper()
	c := &storedConfig{IgnitionConfig: v1.IgnitionConfig{Spec: v1.IgnitionConfigSpec{
		Type: v1.TypeIgnition, Format: v1.FormatButane, Config: source,
	}}}
	c.Namespace, c.Name, c.UID, c.Generation, c.ResourceVersion = "rack-a", "worker", "u1", 7, "99"
	c.Labels, c.Annotations = map[string]string{"role": "worker"}, map[string]string{"glowplug.dev/reject-broken-configs": "true"}
	c.Spec.Selector.MatchLabels = map[string]string{"role": "worker"}
	var err error
	if c.text, err = json.Marshal(&c.IgnitionConfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAFormKeepsTheLineEnds: a browser sends other ends of lines than the source has. A source that nobody has changed
// stays as it is, to the last byte.
func TestAFormKeepsTheLineEnds(t *testing.T) {
	for _, c := range []struct{ stored, written, want string }{
		{"a\nb\n", "a\r\nb\r\n", "a\nb\n"},
		{"a\nb\n", "a\r\nc\r\n", "a\nc\n"},
		{"a\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\n"},
		{"a\r\nb\r\n", "a\r\nc\r\n", "a\nc\n"},
		{"a\rb\nc\r\n", "a\r\nb\r\nc\r\n", "a\rb\nc\r\n"},
		{"a", "a", "a"},
		{"\n\na", "\r\n\r\na", "\n\na"},
	} {
		form := &configForm{Source: unixLines(c.written)}
		if got := form.source(stored(t, c.stored)); got != c.want {
			t.Errorf("%q is written over %q: %q, want %q", c.written, c.stored, got, c.want)
		}
	}
}

// TestAFormChangesWhatItShows: with the fields of the form that the user has not changed the object is the same, and
// fields that the form does not show are kept.
func TestAFormChangesWhatItShows(t *testing.T) {
	was := stored(t, "a\n")
	same, err := was.form().object(was)
	if err != nil || jsonText(same["metadata"]) != jsonText(was.fields()["metadata"]) ||
		jsonText(same["spec"]) != jsonText(was.fields()["spec"]) {
		t.Errorf("%v\n%s\n%s", err, jsonText(same), was.text)
	}
	form := was.form()
	form.Rest = strings.ReplaceAll(form.Rest, "role: worker", "role: db")
	changed, err := form.object(was)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"labels":{"role":"db"}`, `"matchLabels":{"role":"db"}`,
		`"glowplug.dev/reject-broken-configs":"true"`, `"resourceVersion":"99"`} {
		if !strings.Contains(jsonText(changed), want) {
			t.Errorf("no %s in %s", want, jsonText(changed))
		}
	}
}

func TestFieldsOfAFormThatAreRefused(t *testing.T) {
	for rest, want := range map[string]string{
		"":                                  "need spec",
		"spec: [":                           "not metadata.labels and spec in YAML",
		"spec: {type: a, type: b}":          `key "type" already set`,
		"spec: {config: x}":                 "without config, which is in the editor",
		"spec: {}\nstatus: {}":              `unknown field "status"`,
		"metadata: {name: other}\nspec: {}": `unknown field "name"`,
		strings.Repeat("#", maxRest+1):      "more than 1.0 MiB",
	} {
		_, err := (&configForm{Rest: rest}).object(nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", rest, err, want)
		}
	}
}

// TestTheBaseOfAForm: writes of the status change no base, and writes of what the form shows do.
func TestTheBaseOfAForm(t *testing.T) {
	base := stored(t, "a").Base()
	for name, change := range map[string]func(*storedConfig){
		"":                   func(c *storedConfig) { c.ResourceVersion, c.Status.Phase = "100", v1.PhaseError },
		"another generation": func(c *storedConfig) { c.Generation++ },
		"other labels":       func(c *storedConfig) { c.Labels = nil },
		"another object":     func(c *storedConfig) { c.UID = "u2" },
	} {
		c := stored(t, "a")
		change(c)
		if isOther := c.Base() != base; isOther != (name != "") {
			t.Errorf("%s: %t", name, isOther)
		}
	}
}

func TestDifferenceOfTexts(t *testing.T) {
	lines := func(from, to int) string {
		var text strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		return text.String()
	}
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\n", "a\nc\n", "@ line 1|  a|- b|+ c"},
		{lines(1, 9), lines(1, 8), "@ line 6|  line 6|  line 7|  line 8|- line 9"},
		{"a", "a\n", "@ line 1|- a (without a line end)|+ a"},
		{"a\r\n", "a\n", `@ line 1|- a\x0d|+ a`},
		{"", "\u202e<b>\n", `@ line 1|+ \u202e<b>`},
	} {
		var got []string
		for _, d := range differenceOf("x", c.before, c.after) {
			for _, line := range d.Lines {
				got = append(got, line.Text)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%q, %q: %q", c.before, c.after, got)
		}
	}
	all := differenceOf("x", lines(1, 100_000), strings.ReplaceAll(lines(1, 100_000), "l", "L"))[0]
	if len(all.Lines) != maxDiffLines || !strings.Contains(all.Note, "The first 400 lines of the difference") {
		t.Errorf("%d lines, %s", len(all.Lines), all.Note)
	}
}
