package template

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// crowd is a host with as much as an object can hold.
func crowd(labels int) *Facts {
	f := full()
	for i := range labels {
		f.Labels[fmt.Sprintf("label-%06d", i)] = "value"
	}
	return f
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// hostile are templates that cost most for their size.
var hostile = []struct {
	name, source string
	facts        *Facts
}{
	{"a loop of nothing", "{{range 1000000000000}}{{end}}", nil},
	{"loops in loops", "{{range .Labels}}{{range $.Labels}}{{range $.Labels}}{{end}}{{end}}{{end}}", crowd(10_000)},
	{"loops that break", "{{range 1000000000}}{{range $.Labels}}{{break}}{{end}}{{end}}", crowd(10_000)},
	{"continue", "{{range 1000000000}}{{continue}}{{end}}", nil},
	{"a loop of text", "{{range 1000000000}}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{end}}", nil},
	{"loops with a long body", "{{range 100000}}" + repeat("{{if $.Name}}{{end}}", 6000) + "{{end}}", nil},
	{"a text that doubles", `{{$x := "aaaaaaaa"}}{{range 60}}{{$x = print $x $x}}{{end}}`, nil},
	{"a format that multiplies", `{{$x := "aaaaaaaa"}}{{range 60}}{{$x = printf "` + repeat("%[1]s", 1000) +
		`" $x}}{{end}}`, nil},
	{"a wide format", `{{range 1000000}}{{$x := printf "%999999d" 1}}{{end}}`, nil},
	{"a width as an argument", `{{$x := printf "%*d" 999999 1}}`, nil},
	{"wide formats within the limit", `{{range 1000000}}{{$x := printf "` + repeat("%999d", 200) + `" 1}}{{end}}`, nil},
	{"a width as an argument by index", `{{$x := printf "%[2]*[1]d" 1 999999}}`, nil},
	{"widths of all elements", elements + `{{range 1000000}}{{$x := printf "%20s" $l}}{{end}}`, nil},
	{"too wide for all elements", elements + `{{range 1000000}}{{$x := printf "%9999s" $l}}{{end}}`, nil},
	{"nothing of many elements", `{{range 1000000}}{{$x := printf "` + repeat("%[1].0s", 30) + `" $.Labels}}{{end}}`,
		crowd(2000)},
	{"verbs of nothing", `{{range 1000000}}{{$x := printf "` + repeat("%[1]s", 50_000) + `" ""}}{{end}}`, nil},
	{"many floats", `{{range 1000000}}{{$x := printf "` + repeat("%[1]f", 400_000) + `" 1e308}}{{end}}`, nil},
	{"lists of floats of many digits", "{{$l := list" + repeat(" 1.5e-300", 7_000) +
		"}}{{range 1000000}}{{$x := printf `%.30g` $l}}{{end}}", nil},
	{"a list of floats of too many digits", "{{$l := list" + repeat(" 1.5e-300", 7_000) +
		"}}{{range 1000000}}{{$x := printf `%.999g` $l}}{{end}}", nil},
	{"lists of floats as text", "{{$l := list" + repeat(" 1.5e-300", 7_000) +
		"}}{{range 1000000}}{{$x := print $l}}{{end}}", nil},
	{"lists of floats as JSON", "{{$l := list" + repeat(" 1.5e-300", 7_000) +
		"}}{{range 1000000}}{{$x := toJson $l}}{{$x = join `` $l}}{{end}}", nil},
	{"lists of complex numbers", "{{$l := list" + repeat(" 1.5e-300i", 7_000) +
		"}}{{range 1000000}}{{$x := printf `%.10f` $l}}{{end}}", nil},
	{"a deep indent", `{{"x" | indent 2000000000}}`, nil},
	{"a negative indent", `{{"x" | indent -5}}`, nil},
	{"indents of lines", `{{$x := "\n\n\n\n\n\n\n\n"}}{{range 60}}{{$x = $x | indent 100}}{{end}}`, nil},
	{"replace", `{{$x := "aaaaaaaa"}}{{range 60}}{{$x = replace "a" "aaaaaaaa" $x}}{{end}}`, nil},
	{"replace of nothing", `{{$x := "aaaaaaaa"}}{{range 60}}{{$x = replace "" $x $x}}{{end}}`, nil},
	{"lists of lists", `{{$x := list "a"}}{{range 60}}{{$x = list $x $x}}{{end}}{{$x}}`, nil},
	{"lists as YAML", `{{$x := list "a"}}{{range 14}}{{$x = list $x $x}}{{end}}{{range 10000}}{{$y := toYaml $x}}{{end}}`,
		nil},
	{"a deep list as YAML", `{{$x := list "a"}}{{range 3000}}{{$x = dict "k" $x}}{{end}}{{range 10000}}{{$y := toYaml $x}}{{end}}`, nil},
	{"joined", `{{$x := splitList "" (printf "%0999d" 1)}}{{$s := printf "%0999d" 1}}{{range 100000}}{{$y := join $s $x}}{{end}}`, nil},
	{"split", `{{range 1000000}}{{$y := splitList "" (printf "%0999d" 1)}}{{end}}`, nil},
	{"a template that includes itself", `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, nil},
	{"a template that includes itself twice",
		`{{define "a"}}{{template "a" .}}{{template "a" .}}{{end}}{{template "a" .}}`, nil},
	{"a template that includes itself in a loop",
		`{{define "a"}}{{range 1}}{{template "a" .}}{{end}}{{end}}{{template "a" .}}`, nil},
	{"a loop of all labels for each definition",
		`{{define "a"}}{{range $.Labels}}{{end}}{{end}}{{range 100}}{{template "a" $}}{{end}}`, crowd(10_000)},
	{"definitions that double", doubling(200), nil},
	{"comparisons of long texts",
		`{{$x := "a"}}{{$y := "a"}}{{range 17}}{{$x = print $x $x}}{{$y = print $y $y}}{{end}}{{range 1000000}}{{if eq $x $y}}{{end}}{{end}}`, nil},
	{"all labels as YAML", "{{range 10000}}{{$x := toYaml $.Labels}}{{end}}", crowd(1000)},
	{"printing all labels", "{{range 10000}}{{$.Labels}}{{end}}", crowd(10_000)},
	{"digests", `{{range 1000000}}{{$x := sha256sum $.Name}}{{end}}`, nil},
	{"errors of or", `{{range 1000000000}}{{$x := or (index $.NICs 0) 1}}{{end}}`, nil},
	{"ifs in ifs", repeat("{{if 1}}", 10_000) + repeat("{{end}}", 9_999), nil},
	{"ifs in ifs, closed", repeat("{{if 1}}", 9_990) + repeat("{{end}}", 9_990), nil},
	{"ifs in ifs, open", repeat("{{if 1}}", 200_000), nil},
	{"loops in loops in the source", repeat("{{range 2}}", 9_990) + repeat("{{end}}", 9_990), nil},
	{"parentheses", "{{" + repeat("(", 1_000_000), nil},
	{"parentheses within the limit", "{{" + repeat("(", 9_999) + "1" + repeat(")", 9_999) + "}}", nil},
	{"a long command", "{{print" + repeat(" 1", 1_000_000) + "}}", nil},
	{"a long pipeline", "{{1" + repeat("|print", 300_000) + "}}", nil},
	{"a long chain", "{{." + repeat("a.", 1_000_000) + "}}", nil},
	{"a long number", "{{" + repeat("9", 2_000_000) + "}}", nil},
	{"a long text", `{{"` + repeat("x", 2_000_000) + `"}}`, nil},
	{"many comments", repeat("{{/**/}}", 19_000), nil},
	{"a syntax error in a long line", repeat("x", 2_000_000) + "{{ ? }}", nil},
	{"a syntax error behind many actions", repeat("{{.Name}}", 19_000) + "{{ ? }}", nil},
	{"else ifs", "{{if 0}}" + repeat("{{else if 0}}", 19_000) + "{{end}}", nil},
	{"variables", repeat("{{$a := 1}}", 19_000), nil},
	{"looked for from the end", repeat("{{$a := 1}}", 9_000) + "{{$z := 1}}" + repeat("{{$b := $a}}", 9_000), nil},
	{"variables in a loop", repeat("{{$a := 1}}", 9_000) + "{{range 1000000000}}" + repeat("{{$ := $a}}", 100) + "{{end}}",
		nil},
	{"the root from far away", repeat("{{$a := 1}}", 18_000) + "{{range 1000000000}}{{$}}{{end}}", nil},
	{"looked for in long names", variables(10_000, 90) + "{{and" + repeat(" $"+variable(9_999, 90), 8_000) + "}}", nil},
	{"looked for in a loop", variables(4_000, 90) + "{{range 1000000000}}{{if and" + repeat(" $"+variable(0, 90), 400) +
		"}}{{end}}{{end}}", nil},
	{"the root in a loop", variables(9_000, 8) + "{{range 1000000000}}{{if and" + repeat(" $", 900) + "}}{{end}}{{end}}",
		nil},
	{"assigned in a loop", variables(4_000, 8) + "{{range 1000000000}}" + repeat("{{$"+variable(0, 8)+" = 1}}", 100) +
		"{{end}}", nil},
	{"assigned by a loop", variables(4_000, 8) + "{{range 1000000000}}{{range $" + variable(0, 8) + ", $" +
		variable(1, 8) + " = $.Labels}}{{end}}{{end}}", crowd(1000)},
	{"trimmed of many characters", long("c", "丬", 85_000, "€") + long("s", "€", 85_000, "") +
		"{{range 1000000000}}{{$x := trimAll $c $s}}{{end}}", nil},
	{"trimmed of some characters", long("c", "丬", 20, "€") + long("s", "€", 8_000, "") +
		"{{range 1000000000}}{{$x := trimAll $c $s}}{{end}}", nil},
	{"found nowhere", long("c", spaced, 30_000, "!") + long("s", spaced, 60_000, "") +
		"{{range 1000000000}}{{$x := contains $c $s}}{{end}}", nil},
	{"replaced nowhere", long("c", spaced, 7_000, "!") + long("s", spaced, 14_000, "") +
		`{{range 1000000000}}{{$x := replace $c "" $s}}{{end}}`, nil},
	{"split nowhere", long("c", spaced, 7_000, "!") + long("s", spaced, 14_000, "") +
		"{{range 1000000000}}{{$x := splitList $c $s}}{{end}}", nil},
	{"compared with many", long("a", "a", 900_000, "") + long("b", "a", 900_000, "") +
		"{{range 1000000000}}{{if ne $a $b" + repeat(" $b", 10_000) + "}}{{end}}{{if eq $a" + repeat(" $b", 10_000) +
		"}}{{end}}{{end}}", nil},
	{"compared through a pipe", long("a", "a", 900_000, "") + long("b", "a", 900_000, "") +
		"{{range 1000000000}}{{if $a | lt $b}}{{end}}{{end}}", nil},
	{"many comparisons", "{{and" + repeat(` (eq "" "")`, 150_000) + "}}", nil},
	{"a loop of nothing else", "{{$l := list}}{{range 1000000000}}{{range $l}}{{else}}" + repeat("{{if $.Name}}{{end}}",
		6_000) + "{{end}}{{end}}", nil},
	{"a long way down", `{{$d := dict "a" 1}}{{range 500}}{{$d = dict "a" $d}}{{end}}{{range 1000000000}}{{if $d` +
		repeat(".a", 500) + "}}{{end}}{{if ($d)" + repeat(".a", 500) + "}}{{end}}{{with $d}}{{if " + repeat(".a", 500) +
		"}}{{end}}{{end}}{{end}}", nil},
	{"a long number in a loop", "{{range 1000000000}}{{if " + repeat("0", 1_500_000) + "}}{{end}}{{end}}", nil},
	{"a map of long keys", long("k", "k", 32_000, "") +
		"{{$d := dict (print $k 1) 1 (print $k 2) 1 (print $k 3) 1 (print $k 4) 1 (print $k 5) 1 (print $k 6) 1 (print $k " +
		"7) 1}}{{range 1000000000}}{{range $d}}{{break}}{{end}}{{end}}", nil},
	{"a template that includes itself in loops", `{{define "a"}}` + repeat("{{range 1}}", 49) + `{{template "a" .}}` +
		repeat("{{end}}", 49) + `{{end}}{{template "a" .}}`, nil},
	{"a syntax error behind a long command", "{{print" + repeat(" (1)", 450_000) + "}}\n{{ ? }}", nil},
	{"a syntax error behind many variables", variables(4_400, 10) + "{{and" + repeat(" $"+variable(4_399, 10), 4_400) +
		"}}\n{{ ? }}", nil},
	{"floats of many digits", "{{range 1000000000}}{{$x := printf `" + repeat("%[1].999g", 80) +
		"` 1.234567e-300}}{{end}}", nil},
	{"floats as YAML", "{{$l := list" + repeat(" 1.5e-300", 7_000) + "}}{{range 1000000000}}{{$x := toYaml $l}}{{end}}",
		nil},
	{"a missing key after half of the budget",
		`{{$d := dict "a" 1}}{{range 45000}}{{if $d.a}}{{end}}{{end}}{{.Foo}}`, nil},
	{"a missing key at the end of a loop",
		`{{range $i, $l := list .Labels}}{{range 10000}}{{if eq . 9999}}{{$l = dict}}` +
			`{{end}}{{if $l.role}}{{end}}{{end}}{{end}}`, nil},
	{"a missing key after many actions", repeat("{{.Name}}", 19_000) + "{{.Foo}}", nil},
	{"a missing key in a long command", "{{print" + repeat(" ($.Name)", 60_000) + " .Foo}}", nil},
	{"a missing key behind a long text", "{{print `" + repeat("x", 1_900_000) + "` .Foo}}", nil},
	{"a missing key in a long expression", "{{(dict" + repeat(" `a` 1", 40_000) + ").Foo}}", nil},
	{"many definitions", definitions(9_000), nil},
}

// elements declares a list of 9,999 texts.
const elements = `{{$l := splitList "" (printf "%09999d" 1)}}`

// spaced is such that a text of it is looked for in full at each of its places.
const spaced = "abxxxxxxxxxxxxxxx"

// long declares a variable with a text.
func long(name, of string, n int, end string) string {
	return "{{$" + name + ` := "` + repeat(of, n) + end + `"}}`
}

// variables declares n variables with names of a length that differ at the end.
func variables(n, length int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("{{$" + variable(i, length) + " := 1}}")
	}
	return b.String()
}

func variable(i, length int) string { return fmt.Sprintf("v%0*d", length-1, i) }

func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{{define "t%d"}}{{template "t%d" .}}{{template "t%d" .}}{{end}}`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `{{define "t%d"}}x{{end}}{{template "t0" .}}`, n)
	return b.String()
}

func definitions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{{define "t%d"}}{{end}}`, i)
	}
	return b.String()
}

func TestHostileTemplatesAreBounded(t *testing.T) {
	testkit.NeedsThorough(t)
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			facts := c.facts
			if facts == nil {
				facts = full()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			parsed, found := Parse(c.source)
			if parsed != nil {
				_, found = parsed.Render(facts)
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			t.Logf("%s, %d MB: %.200s", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, found.Summary())
			if took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	for _, c := range hostile {
		if testkit.Thorough() && len(c.source) < 1000 {
			f.Add(c.source)
		}
	}
	f.Add("{{.Hostname | quote}}{{range .NICs}}{{.MAC}}{{end}}")
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 10_000 {
			return
		}
		parsed, found := Parse(source)
		if parsed == nil {
			if !found.HasError() {
				t.Fatal("nothing, and no error")
			}
			return
		}
		first, found := parsed.Render(full())
		if (first == nil) != found.HasError() {
			t.Fatalf("%q %v", first, found)
		}
		if again, _ := parsed.Render(full()); string(again) != string(first) {
			t.Fatal("another text")
		}
		if !strings.Contains(source, "{{") && string(first) != source {
			t.Fatal("a text without actions is changed")
		}
	})
}

// TestRenderingEndsWithItsTime: a rendering that nobody waits for any more fails soon, also where a template keeps
// errors to itself.
func TestRenderingEndsWithItsTime(t *testing.T) {
	items := strings.Repeat("x,", 60)
	loop := `{{range splitList "," "` + items + `"}}`
	parsed, found := Parse(loop + loop + `{{if or (eq . "y") (eq . "z")}}{{end}}{{end}}{{end}}`)
	if parsed == nil {
		t.Fatal(found)
	}
	facts, asked := full(), 0
	facts.Ended = func() bool { asked++; return false }
	if text, found := parsed.Render(facts); text == nil || asked < 2 {
		t.Fatalf("asked %d times: %v", asked, found)
	}
	facts.Ended = func() bool { return true }
	if text, found := parsed.Render(facts); text != nil || !strings.Contains(found.Summary(), "time for the rendering is over") {
		t.Errorf("%q %v", text, found)
	}
}
