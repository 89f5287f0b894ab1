package ignition

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_6"
)

// TestNewest holds the versions that are read against the library's.
func TestNewest(t *testing.T) {
	if _, _, err := v3_6.Parse([]byte(`{"ignition":{"version":"` + Newest + `"}}`)); err != nil {
		t.Errorf("%s: %v", Newest, err)
	}
	if family[0].name != Oldest || family[len(family)-1].name != Newest {
		t.Errorf("the family is not of %s to %s", Oldest, Newest)
	}
}

func TestPositionOfEveryValue(t *testing.T) {
	d, failure := parse([]byte("{\"a\": [1, {\"b\\u0063\": \"x\\\"]\"}, []],\n \"d\" :null}"))
	if failure != nil {
		t.Fatal(failure)
	}
	var got []string
	for i := range d.nodes {
		got = append(got, d.path(i)+string(d.kind(i)))
	}
	if want := "${ $.a[ $.a.01 $.a.1{ $.a.1.bc\" $.a.2[ $.dn"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

// FuzzScan holds the scanner against the standard library: it never fails on valid
// JSON, and it finds every value.
func FuzzScan(f *testing.F) {
	for _, text := range []string{`{}`, `[1,[2,{"a":[]}],"\\\""]`, `{"a":{"b":-1.5e3},"c":[true,false,null]}`, ` "x" `} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		d := &document{raw: []byte(text)}
		if d.scan() != nil || d.duplicate != nil {
			return
		}
		if want := values(value); len(d.nodes) != want {
			t.Errorf("%d values found of %d", len(d.nodes), want)
		}
		for i := range d.nodes {
			if d.at(d.nodes[i].Start+1) != i {
				t.Errorf("value %d is not found by its offset", i)
			}
		}
	})
}

func values(value any) int {
	n := 1
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			n += values(v)
		}
	case map[string]any:
		for _, v := range value {
			n += values(v)
		}
	}
	return n
}
