package v1

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestServableOfEarlierReleasesIsRead(t *testing.T) {
	var got []ServableVersions
	const stored = `[{"version":"2.4.0","blockedBy":["$.storage.luks: reason"]},{"version":"3.0.0"},{"versions":"3.1.0-3.6.0"}]`
	if err := json.Unmarshal([]byte(stored), &got); err != nil {
		t.Fatal(err)
	}
	want := []ServableVersions{
		{Versions: "2.4.0", BlockedBy: []string{"$.storage.luks: reason"}}, {Versions: "3.0.0"}, {Versions: "3.1.0-3.6.0"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if err := json.Unmarshal([]byte(`[{"versions":7}]`), &got); err == nil {
		t.Error("a number is read")
	}
	out, err := json.Marshal(want[1:2])
	if err != nil || string(out) != `[{"versions":"3.0.0"}]` {
		t.Errorf("%s %v", out, err)
	}
}
