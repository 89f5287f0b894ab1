package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/domain/plan"
)

// TestPlan plans a config for a host whose disks an inventory has written into its status.
func TestPlan(t *testing.T) {
	const merge = "application/merge-patch+json"
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	a.must(http.StatusCreated, "POST", configs, ignitionConfig("disks", `{"ignition":{"version":"3.4.0"},"storage":{
		"filesystems":[{"device":"/dev/sda1","format":"xfs","wipeFilesystem":true}]}}`))
	a.must(http.StatusCreated, "POST", configs, config("broken", badSource))
	planOf := func(query string) *plan.Plan {
		t.Helper()
		p := &plan.Plan{}
		if err := json.Unmarshal(a.must(http.StatusOK, "GET", configs+"/disks/plan"+query, nil).body, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := planOf(""); p.Outcome != plan.IsUnknown || p.Config != "g10/disks" || p.Host != "" {
		t.Errorf("without a host: %+v", p)
	}
	if p := planOf("?host=x"); p.Outcome != plan.IsUnknown || p.Host != "g10/x" || p.Facts != "" {
		t.Errorf("a host without facts: %+v", p)
	}
	a.must(http.StatusOK, "PATCH", hosts+"/x/status", `{"status":{"hardware":{"storage":[{"name":"/dev/sda","sizeBytes":1073741824,
		"partitionTable":"gpt","partitions":[{"number":1,"startSector":2048,"sizeSectors":1048576,
		"content":{"type":"ext4","label":"data"}}]}]}}}`, "Content-Type", merge)
	for _, query := range []string{"?host=x", "?host=g10/x"} {
		if p := planOf(query); p.Outcome != plan.Destroys || p.Facts != "hardware" || p.Destroy != 1 {
			t.Errorf("%s: %+v", query, p)
		}
	}
	const lost = `loses ext4 "data" on /dev/sda1, 512 MiB`
	for _, ask := range [][]string{{"?host=x&output=text", "*/*"}, {"?host=x", "text/plain"}} {
		got := a.must(http.StatusOK, "GET", configs+"/disks/plan"+ask[0], nil, "Accept", ask[1])
		if !strings.Contains(string(got.body), lost) || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%v: %s", got.header, got.body)
		}
	}
	for path, code := range map[string]int{"disks/plan?host=none": 404, "none/plan": 404, "broken/plan": 422} {
		a.must(code, "GET", configs+"/"+path, nil)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		a.must(http.StatusMethodNotAllowed, method, configs+"/disks/plan", "{}", "Content-Type", "application/json")
	}
}

// TestHardwareIsChecked: what an inventory writes is as bounded as what a machine reports.
func TestHardwareIsChecked(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	for hardware, want := range map[string]string{
		`{"storage":[{"name":"sda"}]}`:                                                  "has to be that of a device",
		`{"storage":[{"name":"/dev/sda","sizeBytes":-1}]}`:                              "a size of -1 bytes cannot be",
		`{"hostname":"a\u001b"}`:                                                        "control characters",
		`{"cpu":{"model":"` + strings.Repeat("x", 257) + `"}}`:                          "longer than 256 bytes",
		`{"nics":[` + strings.Repeat(`{"name":"a"},`, 256) + `{"name":"b"}]}`:           "256",
		`{"storage":[{"name":"/dev/a","sizeBytes":1},{"name":"/dev/a","sizeBytes":1}]}`: "is listed twice",
	} {
		got := a.must(http.StatusUnprocessableEntity, "PATCH", hosts+"/x/status", `{"status":{"hardware":`+hardware+`}}`,
			"Content-Type", "application/merge-patch+json")
		if status := got.status(t); !strings.Contains(status.Message, want) {
			t.Errorf("%.60s: %s", hardware, status.Message)
		}
	}
}
