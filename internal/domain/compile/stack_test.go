package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shelf is configs by name: their layers, after a colon, and marks of what is the
// matter with them.
func shelf(configs ...string) func(string) *Layer {
	all := map[string]*Layer{}
	for _, text := range configs {
		head, layers, _ := strings.Cut(text, ":")
		words := strings.Fields(head)
		l := &Layer{Name: words[0], Type: TypeIgnition, Bytes: []byte("{}"), Layers: strings.Fields(layers)}
		for _, mark := range words[1:] {
			switch mark {
			case "failing":
				l.Failing, l.Failure = true, "line 3:1: wrong"
			case "never":
				l.Failing, l.Failure, l.Bytes = true, "line 3:1: wrong", nil
			case "pending":
				l.Pending, l.Bytes = true, nil
			case "recompiling":
				l.Pending = true
			case "kickstart":
				l.Type = TypeKickstart
			}
		}
		all[l.Name] = l
	}
	return func(name string) *Layer { return all[name] }
}

// ladder is l1 over l2 over … over ln.
func ladder(n int, ring bool) []string {
	var all []string
	for i := 1; i < n; i++ {
		all = append(all, fmt.Sprintf("l%d: l%d", i, i+1))
	}
	if ring {
		return append(all, fmt.Sprintf("l%d: l1", n))
	}
	return append(all, fmt.Sprintf("l%d", n))
}

// wide is top over twelve configs over n.
func wide(n int) []string {
	top, all := "top:", []string(nil)
	for i := range 12 {
		top += fmt.Sprintf(" w%d", i)
		under := ""
		for j := i; j < n; j += 12 {
			under += fmt.Sprintf(" n%d", j)
			all = append(all, fmt.Sprintf("n%d", j))
		}
		all = append(all, fmt.Sprintf("w%d:%s", i, under))
	}
	return append(all, top)
}

func TestStack(t *testing.T) {
	for _, c := range []struct {
		name    string
		configs []string
		layers  string
		want    string // the stack, or what is said
	}{
		{"none", nil, "", ""},
		{"in order", []string{"a", "b", "c: a"}, "b c a", "b c a"},
		{"a diamond", []string{"base", "l: base", "r: base"}, "l r", "l r"},
		{"missing", []string{"a"}, "a gone", "there is no config gone in this namespace: x → gone"},
		{"a kickstart", []string{"k kickstart"}, "k",
			"k is a kickstart, and only a config of type ignition is a layer: x → k"},
		{"never compiled", []string{"a never"}, "a", "a has no compiled result: x → a; a: line 3:1: wrong"},
		{"failing", []string{"a failing", "b"}, "a b",
			"a b; warning: a has an error, and its last good compilation is used; a: line 3:1: wrong"},
		{"compiled for the first time", []string{"a pending", "b"}, "a b", "pending"},
		{"compiled for the first time, and missing", []string{"a pending"}, "a gone",
			"there is no config gone in this namespace: x → gone"},
		{"compiled again", []string{"a recompiling"}, "a", "a"},
		{"a circle of two", []string{"a: x"}, "a", "the layers go in a circle: x → a → x"},
		{"a circle of three", []string{"a: b", "b: c x", "c"}, "c a", "the layers go in a circle: x → a → b → x"},
		{"a circle below", []string{"a failing: b", "b failing: a"}, "a",
			"a; warning: a has an error, and its last good compilation is used; a: line 3:1: wrong"},
		{"16 layers", ladder(16, false), "l1", "l1"},
		{"17 layers", ladder(17, false), "l1",
			"more than 16 layers lie under one another: x → l1 → l2 → l3 → l4 → l5 → l6 → l7 → l8 → l9 → l10 → l11 → l12 → " +
				"l13 → l14 → l15 → l16 → l17"},
		{"17 layers, by the longer way", append(ladder(17, false), "s"), "s l9 l1",
			"more than 16 layers lie under one another: x → l1 → l2 → l3 → l4 → l5 → l6 → l7 → l8 → l9 → l10 → l11 → l12 → " +
				"l13 → l14 → l15 → l16 → l17"},
		{"many, side by side", append(ladder(1, false), wide(200)...), "top", "top"},
		{"more than 256", append(ladder(1, false), wide(300)...), "top", "more than 256 configs lie under x"},
		{"a large circle", append(ladder(40, false)[:39], "l40: x"), "l1",
			"the layers go in a circle: x → l1 → l2 → l3 → l4 → l5 → l6 → l7 → l8 → l9 → l10 → l11 → l12 → l13 → l14 → l15 → " +
				"l16 → … → x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stack, pending, found := Stack("x", strings.Fields(c.layers), shelf(c.configs...))
			var got []string
			for _, l := range stack {
				got = append(got, l.Name)
			}
			text := strings.Join(got, " ")
			if found.HasError() {
				text = strings.Join(found.Errors().Strings(), "; ")
			} else if pending {
				text = "pending"
			}
			for _, w := range found.Warnings() {
				text += "; warning: " + w.String()
			}
			if text = strings.ReplaceAll(text, "spec.layers: ", ""); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestStackIsBounded walks a dense graph, in which there are more ways than atoms.
func TestStackIsBounded(t *testing.T) {
	var configs, names []string
	for i := range 32 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	for level := range 40 {
		for _, name := range names {
			under := ""
			for _, other := range names {
				under += fmt.Sprintf(" %s-%d", other, (level+1)%40)
			}
			configs = append(configs, fmt.Sprintf("%s-%d: %s", name, level, under))
		}
	}
	var layers []string
	for _, name := range names {
		layers = append(layers, name+"-0")
	}
	if _, _, found := Stack("x", layers, shelf(configs...)); !found.HasError() || Height("x", layers,
		shelf(configs...)) <= MaxDepth {
		t.Error("a graph without end is no stack")
	}
}

const head = `{"ignition":{"version":"3.4.0"}`

func file(path, data string) string {
	return fmt.Sprintf(`{"path":%q,"contents":{"source":"data:,%s"}}`, path, data)
}

func layerOf(name, config string) *Layer {
	return &Layer{Name: name, Type: TypeIgnition, Bytes: []byte(config)}
}

func TestLay(t *testing.T) {
	base := layerOf("base", head+`,"storage":{"files":[`+file("/a", "base")+","+file("/b", "base")+`]}}`)
	mid := layerOf("mid", head+
		`,"storage":{"files":[{"path":"/a","mode":420}]},"systemd":{"units":[{"name":"x.service","enabled":true}]}}`)
	laid, found := Lay("x", []byte(head+`,"storage":{"files":[`+file("/a", "x")+`]}}`), []*Layer{base, mid})
	if laid == nil || len(found) > 0 {
		t.Fatal(found)
	}
	want := `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:,x"},"mode":420},{"path":"/b","contents":{"source":"data:,base"}}]},"systemd":{"units":[{"enabled":true,"name":"x.service"}]}}`
	if got := string(laid.Artifact.Bytes); got != want || laid.Artifact.IgnitionVersion != "3.4.0" ||
		laid.Artifact.Hash != hashOf([]byte(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(laid.Origins()); got != "[{file /a [base mid x]} {file /b [base]} {unit x.service [mid]}]" {
		t.Error(got)
	}
	if Judge(laid.Artifact); len(laid.Artifact.Forms) == 0 {
		t.Error("no forms")
	}
}

func TestLayRefuses(t *testing.T) {
	for _, c := range []struct{ name, layer, own, want string }{
		{"a field that the higher version reads otherwise",
			`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","mode":2541}]}}`,
			`{"ignition":{"version":"3.6.0"}}`,
			"layer base: it cannot be converted to spec 3.6.0: $.storage.files.0.mode: spec 3.6.0 sets the special bits"},
		{"a field of the config itself", `{"ignition":{"version":"3.0.0"}}`,
			`{"ignition":{"version":"2.4.0"},"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"size":9,"start":0}]}]}}`,
			"the config itself: it cannot be converted to spec 3.0.0: $.storage.disks.0.partitions.0.size"},
		{"parts that do not go together", head + `,"storage":{"links":[{"path":"/a","target":"/c"}]}}`, head +
			`,"storage":{"files":[` + file("/a/b", "x") + `]}}`,
			"spec.layers: merged over its layers the config is not valid: $.storage.files.0: file path includes link in " +
				"config (from x)"},
		{"a layer that replaces", head[:len(head)-1] + `,"config":{"replace":{"source":"http://a/b"}}}}`, head + `}`,
			"layer base: $.ignition.config.replace: it would take the place of the whole config"},
		{"a layer of spec 2 that appends", `{"ignition":{"version":"2.2.0","config":{"append":[{"source":"http://a/b"}]}}}`,
			`{"ignition":{"version":"2.3.0"}}`,
			"layer base: $.ignition.config.append: spec 2 forgets it"},
		{"too much", head + `,"storage":{"files":[` + file("/a", strings.Repeat("x", MaxMerged)) + `]}}`, head + `}`,
			"larger than 4194304 bytes"},
		{"no config", `{}`, head + `}`, "layer base: line 1:1: $.ignition.version: the spec version is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			laid, found := Lay("x", []byte(c.own), []*Layer{layerOf("base", c.layer)})
			if laid != nil || !strings.Contains(found.Summary(), c.want) {
				t.Errorf("got  %v\nwant %s", found.Strings(), c.want)
			}
		})
	}
}

// TestReasonsOfConfidentialLayers: the author of a config need not be one who may read its layers.
func TestReasonsOfConfidentialLayers(t *testing.T) {
	for _, c := range []struct{ layer, own string }{
		{head + `,"storage":{"links":[{"path":"/s3cr3t","target":"/c"}]}}`, head + `,"storage":{"files":[` +
			file("/s3cr3t/b", "x") + `]}}`},
		{`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/s3cr3t","mode":2541}]}}`,
			`{"ignition":{"version":"3.6.0"}}`},
	} {
		layer := layerOf("base", c.layer)
		layer.Confidential = true
		laid, found := Lay("x", []byte(c.own), []*Layer{layer})
		if text := found.Summary(); laid != nil || !strings.Contains(text, concealedReason) ||
			strings.Contains(text, "storage") {
			t.Error(text)
		}
	}
}

func TestLayWarns(t *testing.T) {
	merges := layerOf("base", head[:len(head)-1]+`,"config":{"merge":[{"source":"http://a/b"}]}}}`)
	laid, found := Lay("x", []byte(head+"}"), []*Layer{merges})
	if laid == nil || !strings.Contains(strings.Join(found.Strings(), ""),
		"layer base: $.ignition.config.merge: the machine merges it over the whole config") {
		t.Error(found)
	}
	proxied := layerOf("base", `{"ignition":{"version":"2.2.0","proxy":{"httpProxy":"http://p/"}}}`)
	laid, found = Lay("x", []byte(`{"ignition":{"version":"2.2.0"}}`), []*Layer{proxied})
	if laid == nil || !slices.ContainsFunc(found.Strings(), func(s string) bool {
		return strings.Contains(s,
			"the proxy of the config on top alone")
	}) {
		t.Error(found)
	}
}
