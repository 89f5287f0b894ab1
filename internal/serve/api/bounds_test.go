package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
)

// entries joins n entries, each made from its number.
func entries(n int, format string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(out, ",")
}

// A body may be of megabytes, and however many entries they are, the answer comes at
// once and names the field, the number and the bound.
func TestTooManyEntries(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("there"))
	const many = 100_000
	labels := `{` + entries(many, `"k%d":"v"`) + `}`
	withMeta := func(meta string) string {
		return `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"x",` + meta + `}}`
	}
	selector := func(field string) string {
		return manifest("IgnitionConfig", `{"type":"ignition","format":"butane","config":"x","selector":{`+field+`}}`)
	}
	tests := []struct {
		name, method, path, media, body string
		field                           string
		max                             int
	}{
		{"bad addresses", "POST", configs, "application/json", selector(`"matchIPs":[` + entries(many, `"bad %d"`) + `]`),
			"spec.selector.matchIPs", v1.MaxItems},
		{"labels of a selector", "POST", configs, "application/json", selector(`"matchLabels":` + labels),
			"spec.selector.matchLabels", v1.MaxKeys},
		{"cards", "POST", hosts, "application/json", manifest("BareMetalHost", `{"nics":[`+entries(many,
			`{"hostname":"h%d"}`)+`]}`), "spec.nics", v1.MaxItems},
		{"labels", "POST", hosts, "application/json", withMeta(`"labels":` + labels), "metadata.labels", v1.MaxKeys},
		{"annotations", "POST", hosts, "application/json", withMeta(`"annotations":` + labels), "metadata.annotations",
			v1.MaxKeys},
		{"finalizers", "POST", hosts, "application/json", withMeta(`"finalizers":[` + entries(many, `"a.b/%d"`) + `]`),
			"metadata.finalizers", v1.MaxKeys},
		{"owners", "POST", hosts, "application/json", withMeta(`"ownerReferences":[` + entries(many,
			`{"uid":"same","name":"%d"}`) + `]`), "metadata.ownerReferences", v1.MaxKeys},
		{"managed fields", "POST", hosts, "application/json", withMeta(`"managedFields":[{"fieldsV1":{` + entries(many,
			`"f:%d":{}`) + `}}]`), "metadata.managedFields[0].fieldsV1", v1.MaxItems},
		{"no field at all", "POST", hosts, "application/json", withMeta(`"x":{"y":[1,{"\"z\\":` + labels + `}]}`),
			`metadata.x.y[1].\"z\\`, v1.MaxKeys},
		{"keys of a ConfigMap", "POST", "/api/v1/namespaces/g10/configmaps", "application/json",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":` + labels + `}`, "data", v1.MaxKeys},
		{"a merge patch", "PATCH", hosts + "/there", "application/merge-patch+json",
			`{"metadata":{"labels":` + labels + `}}`, "metadata.labels", v1.MaxKeys},
		{"a strategic patch", "PATCH", hosts + "/there", "application/strategic-merge-patch+json",
			`{"metadata":{"labels":` + labels + `}}`, "metadata.labels", v1.MaxKeys},
		{"a JSON patch", "PATCH", hosts + "/there", "application/json-patch+json",
			`[{"op":"add","path":"/metadata/labels","value":` + labels + `}]`, "[0].value", v1.MaxKeys},
		{"steps of a JSON patch", "PATCH", hosts + "/there", "application/json-patch+json", `[` + entries(many,
			`{"op":"add","path":"/metadata/labels/k%d","value":"v"}`) + `]`, "body", v1.MaxItems},
		{"an apply", "PATCH", hosts + "/x?fieldManager=a", "application/apply-patch+yaml", withMeta(`"labels":` + labels),
			"metadata.labels", v1.MaxKeys},
		{"YAML that begins like JSON", "POST", hosts, "application/yaml",
			"\"kind\": BareMetalHost\napiVersion: v1\nmetadata: {name: x, labels: " + labels + "}\n", "metadata.labels",
			v1.MaxKeys},
		{"a status", "PATCH", hosts + "/there/status", "application/merge-patch+json",
			`{"status":{"conditions":[` + entries(many, `{"type":"t%d"}`) + `]}}`, "status.conditions", v1.MaxItems},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a.t = t
			// YAML takes long to parse, under the race detector above all; more is not to be.
			began := time.Now()
			asJSON([]byte(test.body), test.media)
			atMost := 2*time.Second + 3*time.Since(began)
			began = time.Now()
			answer := a.must(http.StatusUnprocessableEntity, test.method, test.path, test.body, "Content-Type", test.media)
			if took := time.Since(began); took > atMost {
				t.Errorf("after %v; want at most %v", took, atMost)
			}
			if got := answer.fields(t); !slices.Equal(got, []string{test.field}) {
				t.Errorf("%q, want %q", got, test.field)
			}
			want := fmt.Sprintf("Too many: %d: must have at most %d items", many, test.max)
			if message := answer.status(t).Message; !strings.Contains(message, want) {
				t.Errorf("%s, want %s", message, want)
			}
		})
	}
}

// What patches add up to is bounded as well.
func TestEntriesAddUp(t *testing.T) {
	a := start(t)
	patch := func(name string) string {
		return `{"metadata":{"labels":{` + entries(v1.MaxKeys, `"`+name+`%d":"v"`) + `}}}`
	}
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	a.must(http.StatusOK, "PATCH", hosts+"/x", patch("a"), "Content-Type", "application/merge-patch+json")
	answer := a.must(http.StatusUnprocessableEntity, "PATCH", hosts+"/x", patch("b"), "Content-Type",
		"application/merge-patch+json")
	if got := answer.fields(t); !slices.Equal(got, []string{"metadata.labels"}) {
		t.Errorf("%q", got)
	}
}

// An object that is as long as it may be comes back as it was read, with the
// record of who set what.
func TestFullObject(t *testing.T) {
	a := start(t)
	full := `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"x","labels":{` + entries(v1.MaxKeys,
		`"k%d":"v"`) +
		`},"finalizers":[` + entries(v1.MaxKeys, `"a.b/%d"`) + `]},"spec":{"nics":[` + entries(v1.MaxItems,
		`{"hostname":"h%d"}`) + `]}}`
	a.must(http.StatusCreated, "POST", hosts, full)
	stored := a.must(http.StatusOK, "GET", hosts+"/x", nil)
	if !strings.Contains(string(stored.body), "f:k255") {
		t.Error("nobody is said to have set the labels")
	}
	a.must(http.StatusOK, "PUT", hosts+"/x", stored.body)
}

func TestFewErrors(t *testing.T) {
	a := start(t)
	answer := a.must(http.StatusUnprocessableEntity, "POST", hosts, manifest("BareMetalHost",
		`{"nics":[`+entries(v1.MaxItems, `{"mac":"%d","ip":"x"}`)+`]}`))
	causes := answer.status(t).Details.Causes
	if len(causes) != maxErrors+1 || causes[0].Field != "spec.nics[0].mac" ||
		!strings.Contains(causes[maxErrors].Message, "and 1900 more errors") {
		t.Errorf("%d, the last: %+v", len(causes), causes[len(causes)-1])
	}
}

// The least number of entries that are too many is found, however they are separated.
func TestFewestEntriesThatAreTooMany(t *testing.T) {
	for name, body := range map[string]string{
		"JSON":                  `{` + entries(v1.MaxKeys+1, `"k%d":1`) + `}`,
		"YAML":                  strings.ReplaceAll(entries(v1.MaxKeys+1, "k%d: v"), ",", "\n"),
		"YAML of a Mac":         strings.ReplaceAll(entries(v1.MaxKeys+1, "k%d: v"), ",", "\r"),
		"YAML with line breaks": strings.ReplaceAll(entries(v1.MaxKeys+1, "k%d: v"), ",", "\u2028"),
	} {
		document, ok := asJSON([]byte(body), "application/yaml")
		if !ok || findLong(document) == nil {
			t.Errorf("%s: it is not found: %.100s", name, document)
		}
	}
}

func FuzzFindLong(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `"a"`, `1`, `{"a":{"b\"":[1,"\\",{}]},"c":null}`, `a: [b, {c: d}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if document, ok := asJSON(body, "application/yaml"); ok {
			findLong(document)
		}
	})
}
