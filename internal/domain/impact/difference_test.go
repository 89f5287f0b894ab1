package impact_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"glowplug/internal/domain/impact"
)

func file(path, source string) string {
	return fmt.Sprintf(`{"storage":{"files":[{"path":%q,"contents":{"source":%q}}]}}`, path, source)
}

func plain(text string) string { return "data:," + url.PathEscape(text) }

func inBase64(data []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(data) }

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return inBase64(b.Bytes())
}

// TestDifference: every difference of the bytes is visible.
func TestDifference(t *testing.T) {
	const at = "storage.files[/a].contents.source\n"
	for _, c := range []struct{ name, before, after, want string }{
		{"a value", `{"a":{"b":1}}`, `{"a":{"b":2,"c":true}}`, "a.b\n- 1\n+ 2\na.c\n+ true\n"},
		{"a line", file("/a", plain("one\ntwo\nthree\n")), file("/a", plain("one\n2\nthree\n")),
			at + "@@ -1 +1 @@\n  one\n- two\n+ 2\n  three\n"},
		{"a line that begins with dashes", file("/a", plain("-- keep\nx\n")), file("/a", plain("-- drop\nx\n")),
			at + "@@ -1 +1 @@\n- -- keep\n+ -- drop\n  x\n"},
		{"a line that begins with pluses", file("/a", plain("++ keep\n")), file("/a", plain("++ drop\n")),
			at + "@@ -1 +1 @@\n- ++ keep\n+ ++ drop\n"},
		{"the last newline", file("/a", plain("x")), file("/a", plain("x\n")),
			at + "@@ -1 +1 @@\n- x\n  (no newline at the end)\n+ x\n"},
		{"compressed contents", file("/a", zipped("1\nx\n")), file("/a", zipped("2\nx\n")),
			at + "@@ -1 +1 @@\n- 1\n+ 2\n  x\n"},
		{"contents that are compressed now", file("/a", plain("x")), file("/a", zipped("x")), at + "- 7 bytes, sha256:"},
		{"binary contents", file("/a", inBase64(append(make([]byte, 100), 1))),
			file("/a", inBase64(append(make([]byte, 100), 2))),
			at + "- 149 bytes, sha256:"},
		{"compressed contents that are long", file("/a", zipped(strings.Repeat("x", 300<<10)+"1")),
			file("/a", zipped(strings.Repeat("x", 300<<10)+"2")), at + "- "},
		{"another position", `{"a":["x","y"]}`, `{"a":["y","x"]}`, "(only the order of lists or fields differs)\n"},
		{"a partition", `{"p":[{"number":1,"sizeMiB":10},{"number":2,"sizeMiB":20}]}`, `{"p":[{"number":2,"sizeMiB":20}]}`,
			"p[1].number\n- 1\np[1].sizeMiB\n- 10\n"},
		{"two elements of one name", `{"f":[{"path":"/a"}]}`, `{"f":[{"path":"/a"},{"path":"/a"}]}`, "f[/a #2].path\n+ /a\n"},
		{"a path with a newline", `{}`, `{"f":[{"path":"/a\n+ b"}]}`, "f[/a\uFFFD+ b].path\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := impact.DifferenceOf([]byte(c.before), []byte(c.after))
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestReportsCannotControlATerminal: what a config contains is printed without control characters
// and without marks that turn the direction of a text.
func TestReportsCannotControlATerminal(t *testing.T) {
	report := &impact.Report{Impact: &impact.Impact{Changed: 1, Groups: []impact.Group{{
		Effects: []impact.Effect{impact.ContentChanged}, Hosts: 1, Names: []string{"a/b"},
		Difference: "x\n- \x1b[31mred\u202e\u200b\n",
	}}}}
	var out strings.Builder
	if err := report.Fprint(&out, impact.Style{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\u200b") {
		t.Errorf("%q", out.String())
	}
}
