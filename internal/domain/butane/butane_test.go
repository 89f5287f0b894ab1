package butane

import "testing"

func TestSyntaxErrorsNameTheirLine(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		line   int
	}{
		"tab on the first line":               {"\tvariant: fcos\n", 1},
		"tab on a later line":                 {"variant: fcos\n\tversion: 1.5.0\n", 2},
		"flow mapping not closed, to the end": {"{variant: fcos\n", 2},
		"flow mapping not closed, third":      {"variant: fcos\nversion: 1.5.0\npasswd: {users: [{name: x}]\nstorage:\n", 3},
		"key of another indentation":          {"variant: fcos\nstorage:\n  files:\n    - path: /a\n   mode: 0644\n", 3},
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
