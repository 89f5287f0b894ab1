package api

import (
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// TestAnAnnotationOfAnotherSource: the annotation does not show the source of a time when the config was confidential,
// also where it says nothing of that: spec.confidential was patched on and off again. No patch copies it either.
func TestAnAnnotationOfAnotherSource(t *testing.T) {
	a := startConfidential(t)
	const merge, patch = "application/merge-patch+json", "application/json-patch+json"
	a.must(http.StatusCreated, "POST", configs, lastApplied(t, config("turned", motd(hidden))))
	read := func() string { return string(a.must(http.StatusOK, "GET", configs+"/turned", nil, as("vic")...).body) }
	if got := read(); strings.Count(got, hidden) != 2 {
		t.Errorf("an open config, applied as it is: %s", got)
	}
	for _, change := range []string{`{"spec":{"confidential":true}}`,
		`{"spec":{"confidential":false,"config":"variant: fcos\nversion: 1.5.0\n"}}`} {
		a.must(http.StatusOK, "PATCH", configs+"/turned", change, "Content-Type", merge)
		if got := read(); strings.Contains(got, hidden) {
			t.Errorf("after %s: %s", change, got)
		}
	}
	a.must(http.StatusOK, "PATCH", configs+"/turned", `[{"op":"copy","from":"/metadata/annotations/`+
		strings.ReplaceAll(v1.AnnotationLastApplied, "/", "~1")+`","path":"/metadata/annotations/copy"}]`,
		append(as("eve"), "Content-Type", patch)...)
	if got := read(); strings.Contains(got, hidden) {
		t.Errorf("a copy: %s", got)
	}
	if got := string(a.must(http.StatusOK, "GET", configs+"/turned", nil, as("ann")...).body); !strings.Contains(got, hidden) {
		t.Errorf("the annotation was not kept: %s", got)
	}
}

// TestPatchesOfAWrongTypeQuoteNothing: the error of a patch that gives a field a value of a wrong type names the
// field, and quotes nothing of the stored object.
func TestPatchesOfAWrongTypeQuoteNothing(t *testing.T) {
	a := startConfidential(t)
	a.must(http.StatusCreated, "POST", secretsPath, secret("root", "", map[string]string{"password": plantedValue}))
	for path, patches := range map[string][2]string{
		secretsPath + "/root":            {`{"immutable":"x"}`, `[{"op":"add","path":"/immutable","value":"x"}]`},
		configs + "/secret":              {`{"spec":{"template":"x"}}`, `[{"op":"add","path":"/spec/template","value":"x"}]`},
		hosts + "/secret":                {`{"spec":{"image":5}}`, `[{"op":"add","path":"/spec/image","value":5}]`},
		hosts + "/secret/status":         {`{"status":{"state":5}}`, `[{"op":"add","path":"/status","value":{"state":5}}]`},
		cdroms + "/secret":               {`{"spec":{"readOnly":5}}`, `[{"op":"add","path":"/spec/readOnly","value":5}]`},
		secretsPath + "/root?dryRun=All": {`{"data":5}`, `[{"op":"add","path":"/data","value":5}]`},
	} {
		for i, contentType := range []string{"application/merge-patch+json", "application/json-patch+json"} {
			got := a.do("PATCH", path, patches[i], "Content-Type", contentType)
			body := string(got.body)
			if got.code != http.StatusUnprocessableEntity || !strings.Contains(body, "cannot unmarshal") {
				t.Errorf("%s %s: %d %s", path, patches[i], got.code, body)
			}
			if strings.Contains(body, hidden) || strings.Contains(body, plantedBase64) {
				t.Errorf("%s %s quotes the object: %s", path, patches[i], body)
			}
		}
	}
}
