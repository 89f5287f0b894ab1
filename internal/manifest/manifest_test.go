package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	type want struct {
		Line           int
		Kind, NS, Name string
		Err            bool
	}
	tests := []struct {
		name, text string
		want       []want
	}{
		{"one", "kind: A\nmetadata: {name: x, namespace: ns1}\n", []want{{1, "A", "ns1", "x", false}}},
		{"comments and separators", "# head\n---\n# two\nkind: A\nmetadata: {name: x}\n---\n\nkind: B\nmetadata: {name: z}\n",
			[]want{{4, "A", "", "x", false}, {8, "B", "", "z", false}}},
		{"a separator inside a block scalar is text when indented",
			"kind: A\nmetadata: {name: x}\nspec:\n  config: |\n    ---\n    a: b\n", []want{{1, "A", "", "x", false}}},
		{"json", `{"kind":"A","metadata":{"name":"x"}}`, []want{{1, "A", "", "x", false}}},
		{"a list is its items", "kind: List\nitems:\n- kind: A\n  metadata: {name: x}\n- kind: B\n  metadata: {name: z}\n",
			[]want{{1, "A", "", "x", false}, {1, "B", "", "z", false}}},
		{"only comments", "# nothing\n---\n# here\n", nil},
		{"no kind", "a: b\n", []want{{1, "", "", "", true}}},
		{"no name", "kind: A\n", []want{{1, "A", "", "", true}}},
		{"not yaml", "{\n", []want{{1, "", "", "", true}}},
		{"windows line ends", "kind: A\r\nmetadata: {name: x}\r\n---\r\nkind: B\r\nmetadata: {name: z}\r\n",
			[]want{{1, "A", "", "x", false}, {4, "B", "", "z", false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []want
			for _, d := range Split("f.yaml", []byte(tt.text)) {
				got = append(got, want{d.Line, d.Kind, d.Namespace, d.Name, d.Err != nil})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestErrorsNameTheLineOfTheFile: the YAML library counts from the document, and mostly names
// another line than that of the mistake.
func TestErrorsNameTheLineOfTheFile(t *testing.T) {
	const good = "# one\nkind: A\nmetadata: {name: x}\n---\n# two\n\n"
	for _, c := range []struct{ text, want string }{
		{"kind: B\nmetadata:\n  name: z\n  a: b\n c: d\n", "cannot be read: line 11:2: this line is indented"},
		{"kind: B\nmetadata: {name: z}\nspec:\n\ta: b\n", "cannot be read: line 10:1: "},
		{"kind: B\nmetadata:\n  name: [z]\n", "json: cannot unmarshal array"},
	} {
		docs := Split("f.yaml", []byte(good+c.text))
		if len(docs) != 2 || docs[1].Err == nil || !strings.Contains(docs[1].Err.Error(), c.want) {
			t.Errorf("%q: %v; want %s", c.text, docs[len(docs)-1].Err, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.json", "README.md", ".hidden.yaml", "sub/c.yml", ".git/d.yaml", "one.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := Files(filepath.Join(dir, "one.txt"), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"one.txt", "a.json", "b.yaml", "sub/c.yml"}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := Files(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing path gave no error")
	}
}
