package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/egress"
	"glowplug/internal/remote"
)

const (
	baseConfig = `{"ignition": {"version": "3.2.0"}, "systemd": {"units": [{"name": "base.service", "enabled": true}]}}`
	ignType    = "application/vnd.coreos.ignition+json"
)

func ignitionConfig(name, source string) *v1.IgnitionConfig {
	c := config(name, source)
	c.Spec.Format = v1.FormatIgnition
	return c
}

func fetching(t *testing.T, allow ...string) func(*Options) {
	t.Helper()
	list, err := egress.Listed("--allow-fetch", allow)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Render = remote.New(remote.Options{Allow: list, Timeout: 300 * time.Millisecond}).Render
	}
}

func TestRendered(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base":
			fmt.Fprint(w, baseConfig)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	defer pages.Close()
	merging := func(path string) string {
		return `{"ignition": {"version": "3.1.0", "config": {"merge": [{"source": "` + pages.URL + path + `"}]}}}`
	}
	a := start(t, fetching(t, "127.0.0.0/8"))
	for name, source := range map[string]string{
		"plain": baseConfig + "\n", "merging": merging("/base"), "missing": merging("/none"), "busy": merging("/busy"),
		"text":      merging("/base?x"),
		"elsewhere": strings.Replace(merging("/base"), "127.0.0.1", "10.1.2.3", 1),
	} {
		a.must(http.StatusCreated, "POST", configs, ignitionConfig(name, source))
	}
	a.must(http.StatusCreated, "POST", configs, config("broken", badSource))
	kickstart := config("ks", "text\n")
	kickstart.Spec.Type, kickstart.Spec.Format = v1.TypeKickstart, v1.FormatKickstart
	a.must(http.StatusCreated, "POST", configs, kickstart)

	// What names nothing is given to the last byte.
	got := a.must(http.StatusOK, "GET", configs+"/plain/rendered", nil)
	if string(got.body) != baseConfig+"\n" || got.header.Get("Content-Type") != ignType {
		t.Errorf("%q %v", got.body, got.header)
	}
	got = a.must(http.StatusOK, "GET", configs+"/merging/rendered", nil, "Accept", ignType)
	if want := `{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"enabled":true,"name":"base.service"}]}}`; string(
		got.body) != want {
		t.Errorf("%s", got.body)
	}
	if !strings.HasPrefix(got.header.Get("ETag"), `"sha256:`) ||
		got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Errorf("%v", got.header)
	}
	got = a.must(http.StatusOK, "GET", configs+"/merging/rendered?spec=3.4.0", nil)
	if !strings.Contains(string(got.body), `"version":"3.4.0"`) {
		t.Errorf("%s", got.body)
	}

	for _, c := range []struct {
		name   string
		code   int
		reason metav1.StatusReason
		want   string
	}{
		{"none/rendered", 404, metav1.StatusReasonNotFound, `"none" not found`},
		{"ks/rendered", 400, metav1.StatusReasonBadRequest, "ks is a kickstart"},
		{"broken/rendered", 422, metav1.StatusReasonInvalid, "the config has no compiled result of type ignition: line 3:1"},
		{"plain/rendered?spec=x", 400, metav1.StatusReasonBadRequest, `there is no Ignition spec "x"`},
		{"missing/rendered", 502, "FetchFailed", "g10/missing → " + pages.URL + "/none: the server answered 404 Not Found"},
		{"busy/rendered", 504, metav1.StatusReasonTimeout, "503 Service Unavailable"},
		{"elsewhere/rendered", 403, metav1.StatusReasonForbidden,
			"10.1.2.3 may not be fetched from: --allow-fetch does not name it"},
		{"merging/rendered?spec=3.1.0", 422, metav1.StatusReasonInvalid, "a machine that reads spec 3.1.0 fails on it"},
	} {
		for _, accept := range []string{"*/*", "application/json", ignType} {
			got := a.must(c.code, "GET", configs+"/"+c.name, nil, "Accept", accept)
			status := got.status(t)
			if status.Reason != c.reason || !strings.Contains(status.Message, c.want) {
				t.Errorf("%s: %s: %s", c.name, status.Reason, status.Message)
			}
		}
	}
	a.must(http.StatusCreated, "POST", configs, ignitionConfig("kargs",
		`{"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["quiet"]}}`))
	if status := a.must(http.StatusNotAcceptable, "GET", configs+"/kargs/rendered?spec=3.2.0",
		nil).status(t); !strings.Contains(status.Message, "$.kernelArguments") {
		t.Error(status.Message)
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		a.must(http.StatusMethodNotAllowed, method, configs+"/plain/rendered", "{}", "Content-Type",
			"application/merge-patch+json")
	}

	// The last good config is what machines are given.
	a.must(http.StatusOK, "PUT", configs+"/plain", ignitionConfig("plain", "{"))
	got = a.must(http.StatusOK, "GET", configs+"/plain/rendered", nil)
	if got.header.Get("X-Glowplug-Stale") != "true" || string(got.body) != baseConfig+"\n" {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestRenderedIsOffByDefault(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, ignitionConfig("a",
		`{"ignition": {"version": "3.1.0", "config": {"replace": {"source": "http://10.0.0.1/"}}}}`))
	if got := a.must(http.StatusForbidden, "GET", configs+"/a/rendered", nil).status(t); !strings.Contains(got.Message,
		"fetching is off") {
		t.Error(got.Message)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(a.must(http.StatusOK, "GET", "/api/v1", nil).body, &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.APIResources {
		if r.Name == kinds.IgnitionConfigs+"/rendered" {
			if got := fmt.Sprintln(r.Verbs, r.Kind, r.Namespaced); got != "[get] IgnitionConfig true\n" {
				t.Error(got)
			}
			return
		}
	}
	t.Error("it is not in discovery")
}

func TestRenderedNeedsPermission(t *testing.T) {
	a := startOn(t, newStores(t), Listener{NeedsLoopback: true})
	a.must(http.StatusUnauthorized, "GET", configs+"/a/rendered", nil)
}

// TestRenderedOverLayers renders what machines are served, layers and all.
func TestRenderedOverLayers(t *testing.T) {
	a := start(t)
	const own = `{"ignition": {"version": "3.2.0", "config": {"merge": [{"source": "data:,%7B%22ignition%22%3A%7B%22version%22%3A%223.0.0%22%7D%7D"}]}}`
	top := ignitionConfig("top", own+"}")
	top.Spec.Layers = []v1.LayerReference{{Name: "base"}}
	a.must(http.StatusCreated, "POST", configs, top)
	a.change("top", func(c *v1.IgnitionConfig) {
		c.Compiled.Own = &v1.OwnCompilation{Artifact: c.Compiled.Artifact, IgnitionVersion: "3.2.0"}
		c.Compiled.Artifact = []byte(own + `, "systemd": {"units": [{"name": "base.service", "enabled": true}]}}`)
	})
	got := a.must(http.StatusOK, "GET", configs+"/top/rendered", nil)
	if !strings.Contains(string(got.body), "base.service") || strings.Contains(string(got.body), "merge") {
		t.Errorf("%s", got.body)
	}
}

// TestRenderedWhilePending says to come again.
func TestRenderedWhilePending(t *testing.T) {
	a := start(t)
	a.status.pending.Store(true)
	a.must(http.StatusCreated, "POST", configs, ignitionConfig("a", baseConfig))
	a.must(http.StatusServiceUnavailable, "GET", configs+"/a/rendered", nil)
}
