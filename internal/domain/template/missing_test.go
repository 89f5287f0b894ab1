package template

import (
	"strings"
	"testing"
)

func TestMissingKeys(t *testing.T) {
	const (
		host  = "$.Hostname, $.IP, $.MAC, $.Namespace, $.Name, $.Labels, $.Annotations, $.NICs, $.Server"
		label = "set it on the host, or let the template do without: "
	)
	ofHost := strings.ReplaceAll(host, "$", "")
	facts := full()
	facts.IP = ""
	for _, c := range []struct{ name, source, message, hint string }{
		{"of the host", "{{.IP}}", "line 1:3: the host has no IP",
			`set it on the host, or write {{ get . "IP" | default "…" }}`},
		{"of the host, after a Secret", `{{secret "a" "b"}}{{.IP}}`, "line 1:21: the host has no IP",
			`set it on the host, or write {{ get . "IP" | default "…" }}`},
		{"of the host, in a loop", "{{range .NICs}}{{$.IP}}{{end}}", "line 1:19: the host has no IP",
			`set it on the host, or write {{ get $ "IP" | default "…" }}`},
		{"of the host, by index", `{{index . "IP"}}`, "line 1:3: the host has no IP",
			`set it on the host, or write {{ get . "IP" | default "…" }}`},
		{"of the host, in a definition", `{{define "a"}}{{.IP}}{{end}}{{template "a" .}}`, "line 1:17: the host has no IP",
			`set it on the host, or write {{ get . "IP" | default "…" }}`},
		{"no name of the host", "{{.Foo}}", "line 1:3: there is no .Foo", "a template can name " + ofHost},
		{"no name of the host, in a loop", "{{range .NICs}}{{$.Foo}}{{end}}", "line 1:19: there is no .Foo",
			"a template can name " + host},
		{"of a card", "{{range .NICs}}{{.IP}}{{end}}", "line 1:18: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get . "IP" | default "…" }}`},
		{"of a card in a variable", "{{range $i, $nic := .NICs}}{{$nic.Hostname}}{{end}}",
			"line 1:34: the network card spec.nics[1] has no Hostname",
			`set spec.nics[1].hostname of the host, or write {{ get $nic "Hostname" | default "…" }}`},
		{"of a card by number", "{{(index .NICs 1).IP}}", "line 1:18: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get (index .NICs 1) "IP" | default "…" }}`},
		{"of a card by index", `{{index .NICs 1 "IP"}}`, "line 1:3: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get (index .NICs 1) "IP" | default "…" }}`},
		{"of a map by index, after a comparison", `{{index (dict "a" (eq .Name "b")) "c"}}`,
			`line 1:3: index (dict "a" (eq .Name "b")) "c": there is no "c"`,
			`let the template do without: {{ get (dict "a" (eq .Name "b")) "c" | default "…" }}`},
		{"of a card by index in parentheses", `{{(index .NICs 1 "IP").IP}}`,
			"line 1:4: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get (index .NICs 1) "IP" | default "…" }}`},
		{"of a card, compared", `{{range .NICs}}{{if eq .IP "a"}}{{end}}{{end}}`,
			"line 1:24: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get . "IP" | default "…" }}`},
		{"of a card, in a definition", `{{define "a"}}{{$.IP}}{{end}}{{range .NICs}}{{template "a" .}}{{end}}`,
			"line 1:18: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get $ "IP" | default "…" }}`},
		{"no name of a card", "{{range .NICs}}{{.Foo}}{{end}}", "line 1:18: a network card has no .Foo",
			"a network card has .MAC, .IP, .Hostname; the host has " + host},
		{"no name of a card in a variable", "{{range $nic := .NICs}}{{$nic.Foo}}{{end}}",
			"line 1:30: a network card has no .Foo",
			"a network card has $nic.MAC, $nic.IP, $nic.Hostname; the host has " + host},
		{"no name of a card, in a definition", `{{define "a"}}{{.Foo}}{{end}}{{range .NICs}}{{template "a" .}}{{end}}`,
			"line 1:17: a network card has no .Foo", "a network card has .MAC, .IP, .Hostname"},
		{"a name of the host for a card", "{{range .NICs}}{{.Labels.role}}{{end}}",
			"line 1:25: a network card has no .Labels",
			"write $.Labels for that of the host: . is not the host here"},
		{"a label", "{{.Labels.site}}", `line 1:10: .Labels.site: there is no "site"`,
			label + `{{ get .Labels "site" | default "…" }}`},
		{"a label, in a loop", "{{range .NICs}}{{$.Labels.site}}{{end}}", `line 1:19: $.Labels.site: there is no "site"`,
			label + `{{ get $.Labels "site" | default "…" }}`},
		{"a label, with labels", "{{with .Labels}}{{.site}}{{end}}", `line 1:19: .site: there is no label "site"`,
			label + `{{ get . "site" | default "…" }}`},
		{"a name of the host for a label", "{{with .Labels}}{{.IP}}{{end}}", `line 1:19: .IP: there is no label "IP"`,
			"write $.IP for that of the host: . is not the host here"},
		{"labels in a variable", `{{$l := .Labels}}{{$l.site}}`, `line 1:22: $l.site: there is no label "site"`,
			label + `{{ get $l "site" | default "…" }}`},
		{"a label by index", `{{range .NICs}}{{index $.Labels "a/b"}}{{end}}`,
			`line 1:18: index $.Labels "a/b": there is no "a/b"`, label + `{{ get $.Labels "a/b" | default "…" }}`},
		{"a label by index of a key in a pipeline", `{{"a/b" | index .Labels}}`,
			`line 1:11: index .Labels: there is no "a/b"`,
			label + `{{ get .Labels "a/b" | default "…" }}`},
		{"a label with quotes by index", `{{index .Labels "a\"b"}}`,
			`line 1:3: index .Labels "a\"b": there is no "a\"b"`, label + `{{ get .Labels "a\"b" | default "…" }}`},
		{"an annotation", "{{.Annotations.a}}", `line 1:15: .Annotations.a: there is no "a"`,
			label + `{{ get .Annotations "a" | default "…" }}`},
		{"of a map", `{{$d := dict "a" 1}}{{$d.b}}`, `line 1:25: $d.b: there is no "b"`,
			`let the template do without: {{ get $d "b" | default "…" }}`},
		{"of a map in a map", `{{$d := dict "a" (dict "b" 1)}}{{$d.a.c}}`, `line 1:36: $d.a.c: there is no "c"`,
			`let the template do without: {{ get $d.a "c" | default "…" }}`},
		{"of a map in a map, from the first", `{{$d := dict "a" (dict "b" 1)}}{{$d.c.c}}`,
			`line 1:36: $d.c.c: there is no "c"`,
			`let the template do without: {{ get $d "c" | default "…" }}`},
		{"of a field in parentheses", `{{(.Labels).site}}`, `line 1:12: (.Labels).site: there is no label "site"`,
			label + `{{ get (.Labels) "site" | default "…" }}`},
		{"of a variable in parentheses", `{{range $n := .NICs}}{{($n).IP}}{{end}}`,
			"line 1:28: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get ($n) "IP" | default "…" }}`},
		{"in parentheses", `{{(dict "a" (index .NICs 1).IP).b}}`, "line 1:28: the network card spec.nics[1] has no IP",
			`set spec.nics[1].ip of the host, or write {{ get (index .NICs 1) "IP" | default "…" }}`},
		{"of a map in parentheses", `{{(dict "a" 1).b}}`, `line 1:15: (dict "a" 1).b: there is no "b"`,
			`let the template do without: {{ get (dict "a" 1) "b" | default "…" }}`},
		{"of a map of a long text", `{{(dict "a" "` + repeat("x", 200) + `").b}}`,
			`line 1:216: (dict "a" "` + repeat("x", 189) + `…: there is no "b"`, ""},
		{"the second time", `{{range list .Labels (dict "b" 1)}}{{.b}}{{end}}`, `line 1:38: .b: there is no label "b"`,
			label + `{{ get . "b" | default "…" }}`},
		{"of the second of two", `{{range list (dict "b" 1) .Labels}}{{.b}}{{end}}`, `line 1:38: .b: there is no label "b"`,
			label + `{{ get . "b" | default "…" }}`},
		{"of what comes back from a definition", `{{define "a"}}{{if hasKey . "NICs"}}{{range .NICs}}{{template "a" .}}` +
			`{{end}}{{end}}{{.Namespace}}{{end}}{{template "a" .}}`, "line 1:86: a network card has no .Namespace",
			"a network card has .MAC, .IP, .Hostname"},
		{"after much else", "{{range 60000}}{{if $.Name}}{{end}}{{end}}{{.Labels.site}}",
			`line 1:52: .Labels.site: there is no "site"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(t, c.source, facts); got != c.message {
				t.Errorf("%s, want %s", got, c.message)
			}
			if got := hint(t, c.source, facts); got != c.hint {
				t.Errorf("hint %s, want %s", got, c.hint)
			}
		})
	}
}

// An unknown machine has no host on which a fact could be set.
func TestMissingKeysOfUnknownMachine(t *testing.T) {
	unknown := &Facts{IP: "10.0.0.2"}
	for _, c := range []struct{ source, message, hint string }{
		{"{{.Name}}", "line 1:3: the machine has no Name",
			`add a BareMetalHost for the machine, or write {{ get . "Name" | default "…" }}`},
		{"{{.Server}}", "line 1:3: the server does not know its own URL",
			`start it with --http-url, or write {{ get . "Server" | default "…" }}`},
		{"{{.Labels.site}}", `line 1:10: .Labels.site: there is no "site"`,
			`add a BareMetalHost for the machine, or let the template do without: {{ get .Labels "site" | default "…" }}`},
	} {
		if got := render(t, c.source, unknown); got != c.message {
			t.Errorf("%s, want %s", got, c.message)
		}
		if got := hint(t, c.source, unknown); got != c.hint {
			t.Errorf("hint %s, want %s", got, c.hint)
		}
	}
}

// A hint is followed to the letter.
func TestHintsOfMissingKeysWork(t *testing.T) {
	for _, c := range []struct{ before, action, after, want string }{
		{"", "{{.Labels.site}}", "", "…"},
		{"{{range .NICs}}", "{{$.Labels.site}}", "{{end}}", "……"},
		{"{{range .NICs}}", "{{.IP}}", ";{{end}}", "10.0.0.2;…;"},
		{"{{range $n := .NICs}}", "{{$n.IP}}", ";{{end}}", "10.0.0.2;…;"},
		{`{{$d := dict "a" 1}}`, "{{$d.b}}", "", "…"},
		{"", `{{index .NICs 1 "IP"}}`, "", "…"},
		{"", "{{(index .NICs 1).Hostname}}", "", "…"},
		{`{{define "a"}}`, "{{$.role}} {{.site}}", `{{end}}{{template "a" .Labels}}`, "…"},
	} {
		found := hint(t, c.before+c.action+c.after, full())
		_, get, ok := strings.Cut(found, "{{ get ")
		if got := render(t, c.before+"{{ get "+get+c.after, full()); !ok || got != c.want {
			t.Errorf("%s: %s makes %s, want %s", c.action, found, got, c.want)
		}
	}
}
