package template

import (
	"fmt"
	"strings"
	"testing"
)

// full is a host of which everything is known.
func full() *Facts {
	return &Facts{
		Hostname: "Node-1.example.org", IP: "192.168.10.21", MAC: "52:54:00:12:34:56", Namespace: "rack-a", Name: "node-1",
		Labels:      map[string]string{"role": "worker", "topology.kubernetes.io/zone": "a"},
		Annotations: map[string]string{"owner": "ops: team \"a\""},
		NICs:        []NIC{{MAC: "52:54:00:12:34:57", IP: "10.0.0.2", Hostname: "node-1-data"}, {MAC: "52:54:00:12:34:58"}},
		Server:      "http://192.168.10.2:8082",
	}
}

func render(t *testing.T, source string, facts *Facts) string {
	t.Helper()
	parsed, found := Parse(source)
	if parsed == nil {
		return found[0].String()
	}
	out, found := parsed.Render(facts)
	if (out == nil) != found.HasError() {
		t.Fatalf("%q: %v", out, found)
	}
	if out == nil {
		return found[0].String()
	}
	return string(out)
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"every fact", "{{.Hostname}} {{.IP}} {{.MAC}} {{.Namespace}} {{.Name}} {{.Labels.role}} {{.Annotations.owner}}",
			`Node-1.example.org 192.168.10.21 52:54:00:12:34:56 rack-a node-1 worker ops: team "a"`},
		{"the URL of the server", "{{.Server}}/a{{range .NICs}} {{$.Server}}{{end}}",
			"http://192.168.10.2:8082/a http://192.168.10.2:8082 http://192.168.10.2:8082"},
		{"cards", "{{range $i, $n := .NICs}}{{$i}} {{.MAC}} {{get . \"IP\" | default \"dhcp\"}}\n{{end}}",
			"0 52:54:00:12:34:57 10.0.0.2\n1 52:54:00:12:34:58 dhcp\n"},
		{"a card by number", "{{(index .NICs 0).Hostname}}", "node-1-data"},
		{"a label with a slash", `{{index .Labels "topology.kubernetes.io/zone"}}`, "a"},
		{"labels in order", "{{range $k, $v := .Labels}}{{$k}}={{$v}};{{end}}", "role=worker;topology.kubernetes.io/zone=a;"},
		{"quote", "{{.Annotations.owner | quote}} {{.Name | squote}}", `"ops: team \"a\"" 'node-1'`},
		{"toYaml", "labels:\n{{.Labels | toYaml | indent 2}}", "labels:\n  role: worker\n  topology.kubernetes.io/zone: a"},
		{"nindent", "labels:{{toYaml .Labels | nindent 2}}", "labels:\n  role: worker\n  topology.kubernetes.io/zone: a"},
		{"toJson", "{{toJson .Labels}}", `{"role":"worker","topology.kubernetes.io/zone":"a"}`},
		{"b64enc", "{{b64enc .Name}}", "bm9kZS0x"},
		{"lower", "{{lower .Hostname}}", "node-1.example.org"},
		{"default", `{{get .Labels "rack" | default "none"}} {{default "x" .Name}}`, "none node-1"},
		{"conditions", `{{if eq .Labels.role "worker"}}w{{else}}-{{end}}{{if hasKey .Labels "gpu"}}g{{end}}`, "w"},
		{"comparisons", `{{eq .Labels.role "x" "worker"}} {{ne "a" "b"}} {{"b" | lt "a"}} {{eq (len .NICs) 2}} {{eq .NICs nil}} {{.Name | print | eq "node-1" | not}}`, "true true true true false false"},
		{"words", `{{(splitList "." .IP) | last}} {{.Name | replace "-" "_" | upper | trunc 4}}`, "21 NODE"},
		{"sums", `{{add 1 2}} {{printf "%03d" 7}} {{sha256sum "a" | trunc 6}}`, "3 007 ca9781"},
		{"a definition", `{{define "file"}}- path: /etc/{{.}}{{end}}{{template "file" .Name}}`, "- path: /etc/node-1"},
		{"no action at all", "a: b\n", "a: b\n"},
		{"nothing is escaped", "{{.Annotations.owner}} <&>", `ops: team "a" <&>`},
		{"a list of one's own", `{{range list "a" "b"}}{{.}};{{end}}{{range dict "k" "v"}}{{.}}{{end}}`, "a;b;v"},
		{"numbers", "{{range 3}}{{.}}{{end}}", "012"},
		{"break", "{{range .NICs}}{{.MAC}}{{break}}{{end}}", "52:54:00:12:34:57"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, full()); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorsHaveAPlace(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"no such label", "a\nb: {{.Labels.rack}}\n", `line 2:13: .Labels.rack: there is no "rack"`},
		{"no such label by index", "{{index .Labels \"x/y\"}}", `line 1:3: index .Labels "x/y": there is no "x/y"`},
		{"no such annotation", "{{.Annotations.a}}", `line 1:15: .Annotations.a: there is no "a"`},
		{"no such fact", "{{.BMC.password}}", `line 1:7: there is no .BMC`},
		{"not known of the card", "{{range .NICs}}{{.IP}}{{end}}", `line 1:18: the network card spec.nics[1] has no IP`},
		{"no such card", "{{index .NICs 7}}", `line 1:3: error calling index: there is no element 7: there are 2`},
		{"no such label, compared", "a\n{{if eq .Labels.rack \"x\"}}{{end}}", `line 2:16: .Labels.rack: there is no "rack"`},
		{"not to be compared", "a\n{{if eq .Name 1}}{{end}}",
			`line 2:6: error calling eq: incompatible types for comparison: string and int`},
		{"not to be ranged over", "a\n{{define \"b\"}}{{range .Name}}{{end}}{{end}}{{template \"b\" .}}",
			`line 2:23: range can't iterate over node-1`},
		{"a loop without an end", "a: 1\n{{range .NICs}}\n", "line 2:1: the source ends before an {{ end }}"},
		{"an action without an end", "a: 1\n  b: {{ .Name\n", "line 2:6: unclosed action"},
		{"an action that ends below", "a: {{ .Name\nmode: 1 }}",
			`line 1:4: the action that begins here does not end on its line; below it: function "mode" not defined`},
		{"a label with a dash", "{{ .Labels.a-b }}", `line 1:13: bad character U+002D '-'`},
		{"an end too many", "a\n{{end}}", "line 2:1: unexpected {{end}}"},
		{"an odd character", "a: {{ .Name ? }}", `line 1:13: unexpected "?" in operand`},
		{"an unknown function", "a\n  {{ env \"HOME\" }}", `line 2:6: there is no function "env"`},
		{"a function that is left out", "{{ js .Name }}", `line 1:4: there is no function "js"`},
		{"no calls of values", "{{ call .Name }}", `line 1:4: there is no function "call"`},
		{"fail", `{{ fail "no rack" }}`, `line 1:4: error calling fail: no rack`},
		{"required", `{{ get .Labels "rack" | required "set the label rack" }}`,
			`line 1:25: error calling required: set the label rack`},
		{"an unknown definition", `{{template "x" .}}`, `line 1:12: template "x" not defined`},
		{"a panic in a function", `{{div 1 0}}`, "line 1:3: error calling div: runtime error: integer divide by zero"},
		{"the meter is not to be named", `{{glowplugCharge 1 1}}`, `line 1:3: there is no function "glowplugCharge"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, full()); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestValuesUpToTheLimit(t *testing.T) {
	half := repeat("x", 128<<10)
	for _, c := range []struct{ name, source, want string }{
		{"indent", `{{indent 262143 "x" | len}}`, "262144"},
		{"more indent", `{{indent 262144 "x" | len}}`, "line 1:3: " + tooLong},
		{"a negative indent", `{{indent -5 "x"}}`, "line 1:3: error calling indent: strings: negative Repeat count"},
		{"nindent", `{{nindent 262142 "x" | len}}`, "262144"},
		{"replace by as much", `{{replace "xxxx" "yyyy" "` + half + `" | len}}`, "131072"},
		{"replace by more", `{{replace "xxxx" "yyyyyyyyyy" "` + half + `" | len}}`, "line 1:3: " + tooLong},
		{"join", `{{splitList "," "` + repeat("x,", 7000) + `" | join "xxxxxxxxxx" | len}}`, "77000"},
		{"join with more", `{{splitList "," "` + repeat("x,", 7000) + `" | join "` + repeat("x", 40) + `" | len}}`,
			"line 1:14022: " + tooLong},
		{"splitList", `{{splitList "xxxx" "` + half + `" | len}}`, "line 1:3: " + tooLong},
		{"splitList of less", `{{splitList "xxxxxxxxxxxxxxxx" "` + half + `" | len}}`, "8193"},
		{"splitList everywhere", `{{splitList "" "` + repeat("x", 15_000) + `" | len}}`, "15000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, full()); got != c.want {
				t.Errorf("%.200s, want %s", got, c.want)
			}
		})
	}
}

// hint returns the hint of the first finding of a template.
func hint(t *testing.T, source string, facts *Facts) string {
	t.Helper()
	parsed, found := Parse(source)
	if parsed != nil {
		_, found = parsed.Render(facts)
	}
	if len(found) == 0 {
		t.Fatal("no finding")
	}
	return found[0].Hint
}

func TestLimitsSayWhatToDo(t *testing.T) {
	for _, c := range []struct{ name, source, message, hint string }{
		{"many actions", repeat("{{1}}", 20_001), "the template has 20001 actions ({{…}}), more than 20000",
			"write what repeats once, in a {{range}} or a {{define}}"},
		{"a long value", `{{indent 999999 "x"}}`, "line 1:3: a function would make a value of more than 256 KiB",
			"write it in parts, with an action each, or let the machine fetch large files by URL"},
		{"a long text", `{{range 9}}{{indent 262100 "x"}}{{end}}`, "the rendered text is longer than 2 MiB",
			"let the machine fetch large files by URL"},
		{"a long loop", `{{range 999999999}}{{end}}`,
			"line 1:9: the template goes on for too long: it has a very long loop, loops within loops, or includes itself",
			"a template is for a few values of a host: let it loop over less"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, full()); got != c.message {
				t.Errorf("%.200s, want %s", got, c.message)
			}
			if got := hint(t, c.source, full()); got != c.hint {
				t.Errorf("hint %s, want %s", got, c.hint)
			}
		})
	}
}

func TestWhatIsNotKnownIsAnError(t *testing.T) {
	for _, fact := range []string{"Hostname", "IP", "MAC", "Namespace", "Name"} {
		if got := render(t, "{{."+fact+"}}", &Facts{}); got != "line 1:3: the machine has no "+fact {
			t.Errorf("%s: %s", fact, got)
		}
	}
	if got := render(t, "{{len .Labels}}{{len .Annotations}}{{len .NICs}}", &Facts{}); got != "000" {
		t.Error(got)
	}
}

func TestKeyTellsFactsApart(t *testing.T) {
	changes := map[string]func(*Facts){
		"hostname":   func(f *Facts) { f.Hostname = "x" },
		"ip":         func(f *Facts) { f.IP = "" },
		"mac":        func(f *Facts) { f.MAC = "x" },
		"namespace":  func(f *Facts) { f.Namespace = "x" },
		"name":       func(f *Facts) { f.Name = "x" },
		"label":      func(f *Facts) { f.Labels["role"] = "x" },
		"more":       func(f *Facts) { f.Labels["rack"] = "" },
		"annotation": func(f *Facts) { f.Annotations = nil },
		"card":       func(f *Facts) { f.NICs[1].IP = "x" },
		"cards":      func(f *Facts) { f.NICs = f.NICs[:1] },
		"boundaries": func(f *Facts) { f.Namespace, f.Name = "rack-an", "ode-1" },
	}
	seen := map[Key]string{full().Key(): "nothing"}
	for name, change := range changes {
		f := full()
		change(f)
		if other, twice := seen[f.Key()]; twice {
			t.Errorf("%s is as %s", name, other)
		}
		seen[f.Key()] = name
	}
	if again := full(); again.Key() != full().Key() {
		t.Error("not stable")
	}
}

func TestRenderingIsStable(t *testing.T) {
	f := full()
	for i := range 50 {
		f.Labels[fmt.Sprint(i)] = fmt.Sprint(i)
	}
	source := "{{toYaml .Labels}}{{toJson .}}{{range $k, $v := .Labels}}{{$k}}{{end}}{{.Labels}}"
	first := render(t, source, f)
	for range 20 {
		if render(t, source, f) != first {
			t.Fatal("another text")
		}
	}
	if !strings.Contains(first, "worker") {
		t.Error(first)
	}
}
