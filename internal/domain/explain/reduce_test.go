package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fill sets every text of a value, with a map and a list of one entry each.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf(text))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	}
}

// naming returns the fields of a value that contain a text.
func naming(v reflect.Value, path, text string) (paths []string) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), text) {
			return []string{path}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return naming(v.Elem(), path, text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			paths = append(paths, naming(v.Index(i), path, text)...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			paths = append(paths, naming(v.MapIndex(key), path, text)...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Type().Field(i).Anonymous {
				name = ""
			}
			paths = append(paths, naming(v.Field(i), strings.Trim(path+"."+name, "."), text)...)
		}
	}
	return paths
}

// TestReducedExplanationNamesNothingOfOthers: no field of a reduced explanation names an object of a namespace that its
// reader may not read, except those that describe the host itself and its request.
func TestReducedExplanationNamesNothingOfOthers(t *testing.T) {
	l := &lab{}
	for _, ref := range [][2]string{{"g10", "mine"}, {"g11", "secret"}, {"g11", "winner"}, {"g12", "open"}} {
		l.Config(ref[0], ref[1], "ignition", sel{})
	}
	view := l.Inventory(t).View()
	e := &Explanation{}
	fill(reflect.ValueOf(e).Elem(),
		"that g11/secret, (g11/secret) and /iso/g11/secret/x, not g12/open or g11/winner, is g11/secret.")
	e.Named, e.Host, e.Winner.Config, e.Boot.Image = "g10/host", "g10/host", "g11/winner", "g11/image"
	candidate := e.Candidates[0]
	for _, config := range []string{"g11/secret", "g10/mine", "g11/winner", "g12/open"} {
		candidate.Config = config
		e.Candidates = append(e.Candidates, candidate)
	}
	e.Candidates = e.Candidates[1:]
	own := e.Notices[0]
	own.Host = "g10/host"
	e.Notices[0].Host = "g11/secret"
	e.Notices = append(e.Notices, own)
	may := func(namespace string) bool { return namespace != "g11" }
	e.Reduce(view, Reader{Configs: may, All: may})

	want := []string{ // what the network, the host and its Boots say of the machine
		"Endpoint", "As", "Client.Address", "Client.Addresses", "Client.Neighbor", "Client.OtherMAC", "Client.Accept",
		"Client.UserAgent", "Facts.MACs", "Facts.IPs", "Facts.Hostnames", "Facts.Labels", "Facts.Namespace", "Facts.Role",
		"FoundBy", "Boot.Arguments.Argument", "Boot.Arguments.From", "Boot.State", "Boot.Release", "Boot.MaxIgnition",
		"Winner.Tier", "Winner.Hash", "Winner.IgnitionVersion", "Winner.Served", "Candidates.Type", "Candidates.Tier",
		"Candidates.Outcome", "Notices.Reason", "Others.IgnitionVersion",
	}
	got := slices.Compact(naming(reflect.ValueOf(e).Elem(), "", "g11/secret"))
	unique := slices.DeleteFunc(slices.Clone(got), func(path string) bool { return slices.Contains(want, path) })
	if len(unique) > 0 {
		t.Errorf("these name an object of another namespace: %q", unique)
	}
	if w := e.Winner; e.Hidden != 2 || len(e.Candidates) != 2 || len(e.Notices) != 1 || w.Layers != nil ||
		w.Origins != nil {
		t.Errorf("%+v %+v", e, e.Winner)
	}
	const text = "that one in another namespace, (one in another namespace) and /iso/one in another namespace/x, not g12/open " +
		"or g11/winner, is one in another namespace."
	if e.Error != text {
		t.Error(e.Error)
	}
}

// TestReduceLeavesWhatIsReadable: a reader of all namespaces has all of an explanation, and texts that only look like
// names stay.
func TestReduceLeavesWhatIsReadable(t *testing.T) {
	l := &lab{}
	l.Config("g11", "secret", "ignition", sel{})
	view := l.Inventory(t).View()
	for _, may := range []bool{true, false} {
		reads := func(string) bool { return may }
		e := &Explanation{Host: "g10/host", Error: "g11/other, /api/v1/ignition, a/, /b, 10.0.0.0/24, text/plain"}
		if may {
			e.Error += ", g11/secret"
			e.Candidates = []Candidate{{Config: "g11/secret"}}
		}
		want := fmt.Sprint(*e)
		if e.Reduce(view, Reader{reads, reads}); fmt.Sprint(*e) != want {
			t.Errorf("%v\nwant %v", *e, want)
		}
	}
}
