package butane

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestSyntaxErrorsNameTheirLine(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		line   int
	}{
		"tab on the first line":               {"\tvariant: fcos\n", 1},
		"tab on a later line":                 {"variant: fcos\n\tversion: 1.5.0\n", 2},
		"tab below a value":                   {"variant: fcos\nversion: 1.5.0\n\tsystemd: {}\n", 3},
		"tab after an empty line":             {"variant: fcos\nsystemd:\n  units:\n    - name: x\n\n\t  enabled: true\n", 6},
		"flow mapping not closed, to the end": {"{variant: fcos\n", 1},
		"flow mapping not closed, third":      {"variant: fcos\nversion: 1.5.0\npasswd: {users: [{name: x}]\nstorage:\n", 3},
		"key of another indentation":          {"variant: fcos\nstorage:\n  files:\n    - path: /a\n   mode: 0644\n", 5},
		"two values in a line":                {"variant: a: b\n", 1},
		"anchor without a name":               {"variant: fcos\nversion: & 1.5.0\n", 2},
		"undefined tag handle":                {"variant: fcos\nversion: !a!b 1.5.0\n", 2},
	} {
		_, r := parse([]byte(c.source))
		if len(r) != 1 || r[0].Line != c.line {
			t.Errorf("%s: %+v, want line %d", name, r, c.line)
		}
	}
}

// faulty is a source with its first error: the place, and a part of the message and hint.
type faulty struct {
	source       string
	line, column int
	says         string
}

func (f *faulty) check(t *testing.T, name string) {
	t.Helper()
	_, r := Translate([]byte(f.source))
	if len(r) == 0 || r[0].Line != f.line || r[0].Column != f.column ||
		!strings.Contains(r[0].Message+": "+r[0].Hint, f.says) {
		t.Errorf("%s: %+v, want line %d:%d: %s", name, r, f.line, f.column, f.says)
	}
}

func TestValuesOfAWrongTypeAreMarked(t *testing.T) {
	const files = "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n"
	for name, c := range map[string]faulty{
		"a quoted mode": {
			files + "    - path: /a\n      mode: \"0644\"\n", 6, 13, "expected a whole number, found a string `0644`",
		},
		"in braces":         {files + "    - {path: /a, mode: \"0644\"}\n", 5, 24, "expected a whole number"},
		"a long text":       {files + "    - {path: /a, contents: /etc/hosts.txt}\n", 5, 28, "found a string `/etc/ho...`"},
		"one of two lists":  {files + "    - path: [/a]\n", 5, 7, "expected a string, found a list"},
		"a mapping below":   {files + "    - path:\n        local: a\n", 6, 9, "expected a string, found a mapping"},
		"two alike":         {files + "    - {mode: x, contents: x}\n", 5, 7, "found a string `x`"},
		"not those of keys": {files + "    - {mode: path, path: /a}\n", 5, 14, "expected a whole number"},
	} {
		c.check(t, name)
	}
}

// The work for errors about types grows with the source, and not with its square.
func TestManyValuesOfAWrongType(t *testing.T) {
	allocs := func(items int) float64 {
		source := []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" + strings.Repeat("    - path: [a]\n", items))
		return testing.AllocsPerRun(1, func() { _, _ = Translate(source) })
	}
	if few, many := allocs(100), allocs(1000); many > 20*few {
		t.Errorf("%v allocations for 100 values, %v for 1000", few, many)
	}
}

func TestIndentationErrorsPointAtTheCulprit(t *testing.T) {
	const head = "variant: fcos\nversion: 1.5.0\n"
	for name, c := range map[string]faulty{
		"between two levels": {
			head + "storage:\n  files:\n    - path: /a\n   mode: 3\n", 6, 4, "indent it by 3 spaces more, or by 1 space less",
		},
		"between dash and key": {
			head + "storage:\n  files:\n    - path: /a\n     mode: 3\n", 6, 6, "indent it by 1 space more, or by 3 spaces less",
		},
		"an item left of its list": {
			head + "storage:\n  directories:\n   - path: /b\n  - path: /c\n", 6, 3, "indent it by 1 space more, like",
		},
		"an item left of the mapping of its list": {
			head + "storage:\n  files:\n    - path: /a\n- path: /b\n", 6, 1, "indent it by 4 spaces more, like",
		},
		"a key among items": {
			head + "storage:\n  files:\n    - path: /a\n    mode: 3\n", 6, 5, "indented like the items of the list above it",
		},
		"deeper than a value": {
			head + "storage:\n  files:\n    - path: /a\n       mode: 3\n", 6, 8,
			"deeper than the line above, which has a value already: if it belongs beside that line, indent it by 1 space less",
		},
		"two values below a key without one": {
			head + "storage:\n  files:\n    - path: /a\n      contents:\n        inline: a: b\n", 7, 9, `": " is quoted`,
		},
		"two values in an item":     {head + "storage:\n  disks:\n    - device: /dev/sda: x\n", 5, 7, `": " is quoted`},
		"two values below a text":   {head + "a: |\n  b\nc:\n  d: e: f\n", 6, 3, `": " is quoted`},
		"two values below an empty": {head + "a:\n\n  # c: d\n  d: e: f\n", 6, 3, `": " is quoted`},
		"text that is not indented": {
			head + "systemd:\n  units:\n    - contents: |\n      [Unit]\n      A=b\n", 6, 7, "are indented deeper than its key",
		},
		"after a text that looks like YAML": {
			head + "systemd:\n  units:\n    - contents: |\n          a:\n           b: c\n\n   name: a\n", 9, 4,
			"indent it by 3 spaces more, or by 1 space less",
		},
		"section without content": {
			head + "storage:\nfiles:\n  - path: /a\n", 3, 9, "storage is empty, and must be an object",
		},
		"key twice":  {head + "variant: fcos\n", 3, 1, `key "variant" is defined twice: first on line 1`},
		"no variant": {"# web\n\nversion: 1.5.0\n", 3, 1, "variant is missing"},
		"no version": {"variant: fcos\n", 1, 1, "version is missing"},
		"nothing":    {"", 1, 1, "the config is empty"},
		"null":       {"~\n", 1, 1, "the config is empty"},
		"wrong type": {head + "storage:\n  files: /a\n", 4, 10, "expected a list"},
	} {
		c.check(t, name)
	}
}

// TestSyntaxErrorsAreTrue has the mistakes behind an error of the YAML library that names
// another line or says nothing of the mistake.
func TestSyntaxErrorsAreTrue(t *testing.T) {
	const (
		head  = "variant: fcos\nversion: 1.5.0\n"
		units = head + "systemd:\n  units:\n"
		text  = units + "    - name: a\n      contents: |\n        [Unit]\n"
	)
	for name, c := range map[string]faulty{
		"at sign":     {head + "storage:\n  files:\n    - path: @a\n", 5, 13, "begins with @ is quoted"},
		"percent":     {head + "a:\n  - %wheel ALL\n", 4, 5, "begins with % is quoted"},
		"backtick":    {head + "a: `date`\n", 3, 4, "begins with ` is quoted"},
		"alias":       {head + "a:\n  b: *foo\n", 4, 6, "begins with * is quoted"},
		"merge":       {head + "a:\n  <<: *foo\n", 4, 7, "begins with * is quoted"},
		"colon":       {units + "    - name a\n      enabled: true\n", 5, 7, "this line has no key"},
		"no space":    {units + "    - name:a\n      enabled: true\n", 5, 7, "this line has no key"},
		"first colon": {"variant fcos\nversion: 1.5.0\n", 1, 1, "this line has no key"},
		"section":     {head + "systemd:\n  units\n    - name: a\n", 4, 3, "this line has no key"},
		"dash":        {units + "    -name: a\n      enabled: true\n", 5, 5, "a space is missing behind the dash"},
		"key in a list of texts": {
			head + "passwd:\n  users:\n    - name: a\n      groups:\n        - wheel\n          shell: /bin/sh\n",
			8, 11, "the line above is a text, to which no keys belong",
		},
		"two keys in a line": {
			head + "storage:\n  files:\n    - path: /a\n      contents: inline: b\n", 6, 7, "a line of its own",
		},
		"an apostrophe": {head + "a: 'don't: do'\n", 3, 4, "double an apostrophe in it"},
		"items of one list": {
			units + "    - name: a\n      enabled: true\n   - name: b\n", 7, 4, "indent it by 1 space more, like",
		},
		"and too deep": {
			units + "    - name: a\n      enabled: true\n     - name: b\n", 7, 6, "indent it by 1 space less, like",
		},
		"like a key": {
			units + "    - name: a\n      enabled: true\n      - name: b\n", 7, 7, "indent it by 2 spaces less, like",
		},
		"an item at the top": {
			head + "storage:\n  files:\n  - path: /a\n    mode: 1\n - path: /b\n", 7, 2, "indent it by 1 space more, like",
		},
		"key behind a text": {
			text + "       enabled: true\n", 8, 8, "by 1 space more, like the text, or by 1 space less, like the key",
		},
		"comment in a text": {text + "# a comment\n        A=b\n", 8, 1, "this comment ends the text above it"},
		"text not aligned": {
			text + "          A=b\n       B=c\n", 9, 8, "indented less than the first line of the text",
		},
		"a dash alone": {
			head + "storage:\n  files:\n    -\n      path: /b\n     mode: 1\n", 7, 6, "indent it by 1 space more",
		},
		"first line": {" variant: fcos\nversion: 1.5.0\n", 1, 2, "indent it by 1 space less"},
		"a mapping as text": {
			head + "kernel_arguments:\n  should_exist:\n    - foo: bar\n", 5, 7, "expected a string, found a mapping",
		},
		"a list as text": {
			head + "kernel_arguments:\n  should_exist:\n    - [foo]\n", 5, 7, "expected a string, found a list",
		},
		"deeper than a list": {units + "    - name: [a]\n       enabled: true\n", 6, 8, "indent it by 1 space less"},
		"text below a list":  {units + "    - name: a\n      contents: [b]\n        c=d\n", 7, 9, "below a key with |"},
		"deeper than a comment": {
			units + "    - name: a # b\n\n      # c\n        enabled: true\n", 8, 9, "by 2 spaces less",
		},
		"deeper than quotes": {head + "a: \"b\"\n  c: d\n", 4, 3, "by 2 spaces less"},
		"deeper than a quoted item": {
			head + "a:\n  - \"b\"\n    c: d\n", 5, 5, "beside the list of that line, indent it less",
		},
		"text behind quotes": {head + "a: b\nc: \"d\" e\n", 4, 4, "other text behind the text in quotes"},
		"quote not closed": {
			head + "a:\n  - b: c\n    d: \"e\n  - b: \"f\"\n", 5, 8, "other text behind the text in quotes",
		},
		"quote to the end":         {head + "a: b\nc: 'd\ne: f\n", 4, 4, "that begins here is not closed"},
		"later dash":               {units + "    - name: a\n    -name: b\n", 6, 5, "a space is missing behind the dash"},
		"dash of a text":           {head + "a:\n  - b\n  -c\n", 5, 3, "a space is missing behind the dash"},
		"later colon":              {units + "    - name: a\n      enabled true\n", 6, 7, "this line has no key"},
		"comment as in C":          {head + "// a\nb: c\n", 3, 1, "a comment begins with #"},
		"item without a dash":      {head + "a:\n  - b c\n  d e\n", 5, 3, "an item begins with a dash"},
		"at sign in a text":        {head + "a:\n  b: |\n  @reboot\n", 5, 3, "deeper than its key"},
		"and less than the text":   {head + "a:\n  b: |\n     c\n    @d\n", 6, 5, "indented less than the first line"},
		"percent after a line":     {head + "a: |\nb\n%c\n", 4, 1, "deeper than its key"},
		"items in a text":          {text + "      - a\n", 8, 7, "indent it by 2 spaces more, or by 2 spaces less"},
		"items of a text":          {units + "    - contents: |\n      - a\n", 6, 7, "a text after | are indented deeper"},
		"comment, and less":        {text + "      # b\n       enabled: true\n", 9, 8, "indented less than the first line"},
		"comment, and an at sign":  {text + "    # b\n        @x\n", 8, 5, "this comment ends the text"},
		"text that goes on":        {head + "a:\n  b:\n    c\n    d\n   e: f\n", 7, 4, "indented like none"},
		"quoted text that goes on": {head + "a:\n  - b:\n      c: 'd\n\n e'\n     f: g\n", 8, 6, "indented like none"},
	} {
		c.check(t, name)
	}
}

// TestNoMistakeInWhatFits: where the library fails for another reason, its own
// message stays.
func TestNoMistakeInWhatFits(t *testing.T) {
	for _, source := range []string{
		"a:\n- b\n- c: d\n  e: f\ng:\n  - - h\n    - i\n  -\n    j: k\n",
		"a: |\n  x\n   y\n  z\nb: >-\n  - q\nc: d\n",
		"a:\n  - b: |2\n        x\n      y\n    # z\n    c: d\n  # e\n  - b: |\n      f\n# g\n\n  - b: h\n",
		"a: some\n  text\n   goes on\n  # c\nb:\n  more\n  text\nc: {a: b,\n  c: [d,\n e]}\nd: 'it''s\n\n e'\n",
		"a: &x\n  b: c\nd: *x\ne: !!str\n  f\n\"g: h\":\n- i\n-   j: k\n    l: \"m\\\"\n  n\" # o\n- http://p\n- -1\n",
		"---\na: b\n...\n",
		"# c\n   # d\na:\n    b: 1\nc:\n  - d: |\n      x\n    e: 2\n",
	} {
		if err := yaml.Unmarshal([]byte(source), new(yaml.Node)); err != nil {
			t.Errorf("%q: %v", source, err)
		}
		if m := findMistake(strings.Split(source, "\n")); m != nil {
			t.Errorf("%q: %+v", source, m)
		}
	}
}

// FuzzMistake has no source make the search for a mistake fail.
func FuzzMistake(f *testing.F) {
	f.Add("a:\n  - b: |\n      c\n   d: 'e\n")
	f.Add("- - &a [b, {c: \"d\"}]\n-\n?\n%\n")
	f.Fuzz(func(_ *testing.T, source string) {
		if r := Syntax([]byte(source)); r.HasError() {
			findMistake(strings.Split(source, "\n"))
		}
	})
}
