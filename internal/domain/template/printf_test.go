package template

import (
	"errors"
	"fmt"
	"testing"
)

const tooLong = "a function would make a value of more than 256 KiB"

func TestPrintf(t *testing.T) {
	list := `{{$l := splitList "" "` + repeat("x", 3000) + `"}}`
	for _, c := range []struct{ name, source, want string }{
		{"digits behind a verb", `{{printf "%s:8082" .IP}}`, "192.168.10.21:8082"},
		{"a year behind a verb", `{{printf "%s-2024 %d2024" .Name 1}}`, "node-1-2024 12024"},
		{"digits behind a percent sign", `{{printf "100%% 2024"}}`, "100% 2024"},
		{"an asterisk behind a verb", `{{printf "%s*" .Name}}`, "node-1*"},
		{"a long width", `{{printf "%1000d" 1 | len}}`, "1000"},
		{"a width with zeros in front", `{{printf "%00001000d" 1 | len}}`, "1000"},
		{"a width as an argument", `{{printf "%*d" 200000 1 | len}}`, "200000"},
		{"a width to the right", `{{printf "%*d" -200000 1 | len}}`, "200000"},
		{"a width by index", `{{printf "%[2]*[1]d" 1 6}}`, "     1"},
		{"the largest width", `{{printf "%262144d" 1 | len}}`, "262144"},
		{"a longer width", `{{printf "%262145d" 1 | len}}`, "line 1:3: " + tooLong},
		{"a longer width as an argument", `{{printf "%*d" 262145 1 | len}}`, "line 1:3: " + tooLong},
		{"a longer width by index", `{{printf "%[2]*[1]d" 1 -262145 | len}}`, "line 1:3: " + tooLong},
		{"a width that the argument has no use for", `{{printf "%[1]d %[2]s" 999999 .Name}}`, "999999 node-1"},
		{"a precision that cuts", `{{printf "%.2000s" .Name}}`, "node-1"},
		{"a precision that extends", `{{printf "%.2000d" 1 | len}}`, "2000"},
		{"a longer precision", `{{printf "%.262145d" 1 | len}}`, "line 1:3: " + tooLong},
		{"a longer precision of a float", `{{printf "%.999999f" 1.5 | len}}`, "line 1:3: " + tooLong},
		{"a precision without digits to write", `{{printf "%.999999g" 1.5}}`, "1.5"},
		{"many widths", `{{printf "` + repeat("%1000d", 4) + `" 1 2 3 4 | len}}`, "4000"},
		{"many verbs", `{{printf "` + repeat("%[1]s", 1000) + `" .Name | len}}`, "6000"},
		{"indexes before widths", `{{printf "%[1]1000d" 1}}`, "%!d(BADINDEX)"},
		{"widths that are too much together", `{{printf "` + repeat("%1000[1]d", 300) + `" 1 | len}}`,
			"line 1:3: " + tooLong},
		{"a width of each element", list + `{{printf "%80s" $l | len}}`, "243001"},
		{"a width of each element that is too much", list + `{{printf "%90s" $l | len}}`, "line 1:3028: " + tooLong},
		{"a width of each key and value", `{{printf "%5s" .Labels | len}}`, "51"},
		{"an address", `{{printf "%p" .Labels}}`,
			"line 1:3: error calling printf: %p writes an address in memory, which is another one each time"},
		{"no address", `{{printf "%p" 1}}`, "%!p(int=1)"},
		{"too few arguments", `{{printf "%s %s" .Name}}`, "node-1 %!s(MISSING)"},
		{"too many arguments", `{{printf "%s" .Name 1}}`, "node-1%!(EXTRA int=1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, full()); got != c.want {
				t.Errorf("%.200s, want %s", got, c.want)
			}
		})
	}
}

// FuzzPrintf compares with package fmt, and a refusal with what that would have made.
func FuzzPrintf(f *testing.F) {
	for _, format := range []string{
		"", "a", "%", "%%", "%5%", "%s %d %v", "%s:8082", "%*d", "%-*d|", "%.*f", "%*.*f", "%[2]*[1]d",
		"%[3]*.[2]*[1]f", "%[1]5d", "%5[1]d", "%[1].2d", "%.[2]d", "%.[1]3d", "%[", "%[]", "%[]d", "%[x]d",
		"%[0]d", "%[9]d", "%[1]", "%[1] d", "%[1]+v", "%[1][2]d", "%[1]*", "%**d", "%.", "%.d", "%.3.2d",
		"%5.", "%99999999d", "%1000000d", "%10000000d", "%.300000g", "%#.300000g", "%#.300000d", "%.300000q",
		"%300000c", "%300000T", "%300000t", "%#v", "%+v", "%+q", "% #x", "%w", "%!", "%é", "\xff%\xff",
		"%b%o%U%e%x%X", "%[1]s%[1]s", "%[5]v %v", "%[6]300000v", "%300000x", "%[6]90000v", "%99[5]d",
		"%[4]v%v%v%v", "%[99999999]d", "%[1]*[2]*d", "%0*d",
	} {
		for choice := range 3 {
			f.Add(format, "text", 7, 1.5, choice)
		}
	}
	f.Fuzz(func(t *testing.T, format, text string, number int, float float64, choice int) {
		if len(format) > 40 || len(text) > 1000 || float != float || float-float != 0 {
			return // a template has neither NaN nor Inf
		}
		values := map[string]any{text: number, "l": []any{nil, text}}
		args := []any{text, number, float, true, values, []string{text, "b"}, nil, 1i}
		switch choice % 3 {
		case 1:
			args = []any{number, number, float, text}
		case 2:
			args = []any{float, number, uint(number), nil}
		}
		m := &meter{left: budget}
		got, err := m.printf(format, args...)
		if errors.Is(err, errCostly) || errors.Is(err, errAddress) {
			return
		}
		want := fmt.Sprintf(format, args...)
		switch {
		case errors.Is(err, errValue):
			if len(want) <= maxValue {
				t.Errorf("%q is refused, and makes %d bytes", format, len(want))
			}
		case err != nil:
			t.Fatal(err)
		case got != want:
			t.Errorf("%q makes %.200q, want %.200q", format, got, want)
		}
	})
}
