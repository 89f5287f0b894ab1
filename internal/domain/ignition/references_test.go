package ignition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFetchingOf(t *testing.T) {
	ten, none := 10, 0
	for name, c := range map[string]struct {
		config string
		want   Fetching
	}{
		"nothing": {`{"ignition": {"version": "3.4.0"}}`, Fetching{}},
		"spec 3": {`{"ignition": {"version": "3.4.0", "config": {
			"replace": {"source": null},
			"merge": [{"source": "http://a/"}, {"source": "http://b/", "compression": "gzip", "verification": {"hash": "sha512-00"},
				"httpHeaders": [{"name": "B", "value": "1"}, {"name": "A", "value": null}]}]},
			"timeouts": {"httpResponseHeaders": 10, "httpTotal": 0},
			"proxy": {"httpProxy": "http://p/", "httpsProxy": null, "noProxy": ["a", "b"]},
			"security": {"tls": {"certificateAuthorities": [{"source": "http://ca/"}]}}}}`,
			Fetching{
				Children: []Reference{
					{Path: "$.ignition.config.merge.0", Source: "http://a/"},
					{Path: "$.ignition.config.merge.1", Source: "http://b/", Compression: "gzip", Hash: "sha512-00",
						Headers: []Header{{"B", "1"}, {"A", ""}}},
				},
				ResponseHeaders: &ten, Total: &none, HTTPProxy: "http://p/", NoProxy: []string{"a", "b"},
				Authorities: []Reference{{Path: "$.ignition.security.tls.certificateAuthorities.0", Source: "http://ca/"}},
			}},
		"spec 2": {`{"ignition": {"version": "2.2.0", "config": {"append": [{"source": "http://a/"}], "replace": {"source": "http://r/"}}}}`,
			Fetching{
				Replace:  &Reference{Path: "$.ignition.config.replace", Source: "http://r/"},
				Children: []Reference{{Path: "$.ignition.config.append.0", Source: "http://a/"}},
			}},
		"in any case of letters": {`{"IGNITION": {"version": "3.4.0", "Config": {"MERGE": [{"Source": "http://a/"}]}}}`,
			Fetching{Children: []Reference{{Path: "$.ignition.config.merge.0", Source: "http://a/"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FetchingOf([]byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := FetchingOf([]byte(`{"ignition": []}`)); err == nil {
		t.Error("a list is taken")
	}
}

func TestDetach(t *testing.T) {
	for config, want := range map[string]string{
		`{"ignition": {"version": "3.4.0"} }`: `{"ignition": {"version": "3.4.0"} }`,
		`{"ignition": {"version": "3.4.0", "config": {"merge": []}}, "storage": {"files": [{"path": "/<a>", "mode": 420}]}}`: `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"mode":420,"path":"/<a>"}]}}`,
		`{"Ignition": {"version": "3.4.0", "CONFIG": {}}}`:                                                                   `{"Ignition":{"version":"3.4.0"}}`,
	} {
		if got, err := Detach([]byte(config)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", config, got, err)
		}
	}
}

func TestHeading(t *testing.T) {
	got, err := Heading([]byte(
		`{"ignition": {"version": "3.4.0", "config": {"merge": []}, "timeouts": {"httpTotal": 3}}, "storage": {}}`))
	if want := `{"ignition":{"timeouts":{"httpTotal":3},"version":"3.4.0"}}`; err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	if _, err := Heading([]byte(`{}`)); err == nil {
		t.Error("a config without a heading has one")
	}
}

func TestAttach(t *testing.T) {
	config := []byte(`{"ignition": {"version": "3.4.0", "security": {"tls": {"certificateAuthorities": [
		{"source": "http://ca/", "compression": "gzip", "httpHeaders": [{"name": "a", "value": "b"}], "verification": {"hash": "sha512-00"}}]}}}}`)
	got, err := Attach(config, [][]byte{[]byte("ca")})
	want := `{"ignition":{"security":{"tls":{"certificateAuthorities":[{"source":"data:text/plain;charset=utf-8;base64,Y2E=","verification":{"hash":"sha512-00"}}]}},"version":"3.4.0"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	if got, err := Attach(config, nil); err != nil || string(got) != string(config) {
		t.Errorf("%s %v", got, err)
	}
	if _, err := Attach(config, make([][]byte, 2)); err == nil {
		t.Error("two contents for one authority")
	}
}

func TestReads(t *testing.T) {
	for _, c := range []struct {
		client, config string
		want           bool
	}{
		{"3.4.0", "3.4.0", true}, {"3.4.0", "3.0.0", true}, {"3.4.0", "3.5.0", false}, {"3.4.0", "2.2.0", false},
		{"2.4.0", "2.2.0-experimental", false}, {"2.2.0-experimental", "2.2.0-experimental", true}, {"2.2.0-experimental",
			"2.1.0", true}, {"", "3.0.0", false},
	} {
		if got := Reads(c.client, c.config); got != c.want {
			t.Errorf("%s reads %s: %v", c.client, c.config, got)
		}
	}
	for version, want := range map[string]string{"3.0.0": "3.6.0", "2.0.0": "2.4.0", "2.2.0-experimental": "2.4.0",
		"1": ""} {
		if got := NewestOf(version); got != want {
			t.Errorf("the newest of %s is %s", version, got)
		}
	}
}
