package api

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
)

// manifest fills the usual parts of a manifest.
func manifest(kind, spec string) string {
	return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"x"},"spec":` + spec + `}`
}

func TestInvalidIsNamedByItsPath(t *testing.T) {
	a := start(t)
	const good = `"type":"ignition","format":"butane","config":"variant: fcos\nversion: 1.5.0\n"`
	tests := []struct {
		name, path, body string
		fields           []string
	}{
		{"MAC", hosts, manifest("BareMetalHost", `{"bootMACAddress":"AC:1F:6B"}`), []string{"spec.bootMACAddress"}},
		{"IP", hosts, manifest("BareMetalHost", `{"ip":"192.168.10.256"}`), []string{"spec.ip"}},
		{"IP of nobody", hosts, manifest("BareMetalHost", `{"ip":"0.0.0.0"}`), []string{"spec.ip"}},
		{"hostname", hosts, manifest("BareMetalHost", `{"hostname":"a b"}`), []string{"spec.hostname"}},
		{"newline in a hostname", hosts, manifest("BareMetalHost", `{"hostname":"a\nb"}`), []string{"spec.hostname"}},
		{"expansion in a hostname", hosts, manifest("BareMetalHost", `{"hostname":"${net0/mac}"}`),
			[]string{"spec.hostname"}},
		{"label", hosts, manifest("BareMetalHost", `{"labels":{"role":"a b","a b":"c"}}`), []string{"spec.labels[role]",
			"spec.labels[a b]"}},
		{"metadata label", hosts, `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"x","labels":{"a":"b c"}}}`,
			[]string{"metadata.labels"}},
		{"cards", hosts, manifest("BareMetalHost", `{"nics":[{"mac":"01:00:5e:00:00:01"},{},{"ip":"x","hostname":"-"}]}`),
			[]string{"spec.nics[0].mac", "spec.nics[1]", "spec.nics[2].ip", "spec.nics[2].hostname"}},
		{"UUID", hosts, manifest("BareMetalHost", `{"systemUUID":"00000000-0000-0000-0000-000000000000"}`),
			[]string{"spec.systemUUID"}},
		{"CIDR", hosts, manifest("BareMetalHost", `{"bootSources":["10.0.0.0/8","10.0.0.0/33"]}`),
			[]string{"spec.bootSources[1]"}},
		{"image", hosts, manifest("BareMetalHost", `{"image":"../x"}`), []string{"spec.image"}},
		{"boot mode", hosts, manifest("BareMetalHost", `{"bootMode":"twice"}`), []string{"spec.bootMode"}},
		{"kernel arguments", hosts, manifest("BareMetalHost", `{"kernelArgs":["ok","a\nboot","${x}",""]}`),
			[]string{"spec.kernelArgs[1]", "spec.kernelArgs[2]", "spec.kernelArgs[3]"}},

		{"type", configs, manifest("IgnitionConfig", `{"type":"cloud-init","format":"butane","config":"x"}`),
			[]string{"spec.type"}},
		{"format", configs, manifest("IgnitionConfig", `{"type":"ignition","format":"yaml","config":"x"}`),
			[]string{"spec.format"}},
		{"type and format", configs, manifest("IgnitionConfig", `{"type":"ignition","format":"kickstart","config":"x"}`),
			[]string{"spec.format"}},
		{"format and type", configs, manifest("IgnitionConfig", `{"type":"kickstart","format":"butane","config":"x"}`),
			[]string{"spec.format"}},
		{"kickstart version", configs, manifest("IgnitionConfig",
			`{"type":"kickstart","format":"kickstart","config":"text","kickstartVersion":"F12"}`),
			[]string{"spec.kickstartVersion"}},
		{"kickstart version of an Ignition config", configs, manifest("IgnitionConfig", `{`+good+
			`,"kickstartVersion":"F43"}`), []string{"spec.kickstartVersion"}},
		{"nothing", configs, manifest("IgnitionConfig", `{}`), []string{"spec.type", "spec.format", "spec.config"}},
		{"oversize source", configs, manifest("IgnitionConfig", `{"type":"ignition","format":"butane","config":"`+
			strings.Repeat("x", v1.MaxConfigBytes+1)+`"}`), []string{"spec.config"}},
		{"selector", configs, manifest("IgnitionConfig", `{`+good+
			`,"selector":{"matchLabels":{"a":"b c"},"matchHostnames":["ok","a b"],"matchIPs":["10.0.0.0/8","10.0.0.0/x"],"matchMACs":["","zz"]}}`),
			[]string{"spec.selector.matchLabels[a]", "spec.selector.matchHostnames[1]", "spec.selector.matchIPs[1]",
				"spec.selector.matchMACs[0]", "spec.selector.matchMACs[1]"}},

		{"ISO outside", cdroms, manifest("ISCSICdrom", `{"isoFile":"a/../../etc/passwd"}`), []string{"spec.isoFile"}},
		{"absolute ISO", cdroms, manifest("ISCSICdrom", `{"isoFile":"/etc/passwd"}`), []string{"spec.isoFile"}},
		{"two sources", cdroms, manifest("ISCSICdrom", `{"isoFile":"x.iso","url":"https://example.org/x.iso","sha256":"`+
			strings.Repeat("0", 64)+`"}`), []string{"spec.url"}},
		{"URL", cdroms, manifest("ISCSICdrom", `{"url":"file:///x"}`), []string{"spec.url", "spec.sha256"}},
		{"external", cdroms, manifest("ISCSICdrom", `{"external":{"portal":"a b","iqn":"x","lun":-1},"transport":"http"}`),
			[]string{"spec.external.portal", "spec.external.iqn", "spec.external.lun", "spec.transport"}},
		{"access", cdroms, manifest("ISCSICdrom", `{"access":"Hosts"}`), []string{"spec.access"}},
		{"reference", cdroms, manifest("ISCSICdrom", `{"ignitionConfig":"a/b/c"}`), []string{"spec.ignitionConfig"}},
		{"menu text", cdroms, manifest("ISCSICdrom", `{"description":"a\nshell","version":"${x}"}`),
			[]string{"spec.description", "spec.version"}},
		{"mutual CHAP, half of it", cdroms, manifest("ISCSICdrom",
			`{"chap":{"username":"a","password":"b","mutualUsername":"c"}}`), []string{"spec.chap.mutualPassword"}},
		{"mutual CHAP of one secret", cdroms, manifest("ISCSICdrom",
			`{"chap":{"username":"a","password":"b","mutualUsername":"c","mutualPassword":"b"}}`),
			[]string{"spec.chap.mutualPassword"}},
		{"CHAP", cdroms, manifest("ISCSICdrom", `{"chap":{"username":"a","password":"b\nc"},"allowedInitiators":["x"]}`),
			[]string{"spec.chap.password", "spec.allowedInitiators[0]"}},

		{"namespace", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a.b"}}`,
			[]string{"metadata.name"}},
		{"namespace by use", "/api/v1/namespaces/a.b/baremetalhosts", manifest("BareMetalHost", `{}`),
			[]string{"metadata.namespace"}},
		{"event", "/api/v1/namespaces/g10/events",
			`{"apiVersion":"v1","kind":"Event","metadata":{"name":"x"},"involvedObject":{"namespace":"other"},"type":"Odd","reportingComponent":"","reportingInstance":""}`, []string{"involvedObject.namespace", "type"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a.t = t
			answer := a.must(http.StatusUnprocessableEntity, "POST", test.path, test.body)
			got := answer.fields(t)
			slices.Sort(got)
			want := slices.Sorted(slices.Values(test.fields))
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if strings.Contains(string(answer.body), "b\\nc") {
				t.Error("the answer quotes a password")
			}
		})
	}
	a.t = t
	if n := strings.Count(string(a.must(http.StatusOK, "GET", "/api/v1/namespaces", nil).body), `"uid"`); n > 1 {
		t.Errorf("%d namespaces: one was made for an object that was refused", n)
	}
}

func TestNames(t *testing.T) {
	a := start(t)
	for _, name := range []string{strings.Repeat("a", 5000), "..", ".", "*", "x*", "x>", "x y", "x/y", "X", "x\n"} {
		body := strings.Replace(manifest("BareMetalHost", `{}`), `"x"`, `"`+strings.ReplaceAll(name, "\n", `\n`)+`"`, 1)
		if got := a.must(http.StatusUnprocessableEntity, "POST", hosts, body).fields(t); !slices.Equal(got,
			[]string{"metadata.name"}) {
			t.Errorf("POST %.10q: %v", name, got)
		}
	}
	for _, name := range []string{strings.Repeat("a", 5000), "..", "*", "x%3E", "x%20y", "X", "x%0A"} {
		apply := strings.Replace(manifest("BareMetalHost", `{}`), `"x"`, `"`+name+`"`, 1)
		for _, method := range []string{"GET", "DELETE"} {
			a.must(http.StatusUnprocessableEntity, method, hosts+"/"+name, nil)
		}
		if code := a.do("PATCH", hosts+"/"+name+"?fieldManager=a", apply, "Content-Type",
			"application/apply-patch+yaml").code; code/100 != 4 {
			t.Errorf("apply of %.10q: %d", name, code)
		}
	}
	a.must(http.StatusCreated, "POST", hosts, host("alive"))
}

func TestTooLarge(t *testing.T) {
	a := start(t)
	began := time.Now()
	// Nothing but the length is ever sent: who waits for the body waits for ever.
	body, stuck := io.Pipe()
	defer stuck.Close()
	req, _ := http.NewRequest("POST", a.url+configs, body)
	req.ContentLength = 50 << 20
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || time.Since(began) > 5*time.Second {
		t.Errorf("%d after %v", resp.StatusCode, time.Since(began))
	}
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		if code := a.do("POST", configs, io.LimitReader(forever('x'), 50<<20), "Content-Type",
			media).code; code != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked %s: %d", media, code)
		}
	}
}

type forever byte

func (f forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func TestLargeSource(t *testing.T) {
	a := start(t)
	large := config("large", "# "+strings.Repeat("x", v1.MaxConfigBytes-100)+"\n"+goodSource)
	// As client-side kubectl apply does.
	large.Annotations = map[string]string{v1.AnnotationLastApplied: `{"spec":{"config":"` +
		strings.ReplaceAll(large.Spec.Config, "\n", `\n`) + `"}}`}
	a.must(http.StatusCreated, "POST", configs, large)
	large.Labels = map[string]string{"a": "b"}
	a.must(http.StatusOK, "PUT", configs+"/large", large)
	large.Annotations["other"] = strings.Repeat("x", 300<<10)
	if got := a.must(http.StatusUnprocessableEntity, "PUT", configs+"/large", large).fields(t); !slices.Equal(got,
		[]string{"metadata.annotations"}) {
		t.Errorf("%v", got)
	}
}
