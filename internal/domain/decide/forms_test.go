package decide

import (
	"strings"
	"testing"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
)

const (
	client2_14 = "application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1"
	client0_35 = "application/vnd.coreos.ignition+json; version=2.2.0, application/vnd.coreos.ignition+json; " +
		"version=1; q=0.5, */*; q=0.1"
)

// chosen is what becomes of a config for a client.
func chosen(f *forms, config *model.Config, accept, userAgent, spec string) (*ConfigDecision, *fault.Error) {
	req := &Request{Accept: accept, UserAgent: userAgent, Claims: identity.Claims{Spec: spec}}
	q := configQuestion{question{decider: &Decider{forms: f}, dec: ConfigDecision{Config: config}, req: req}}
	failure := q.form(ignition.ParseAccept(accept))
	return &q.dec, failure
}

func TestForm(t *testing.T) {
	plain := &model.Config{
		Ref: model.Ref{Namespace: "a", Name: "plain"}, IgnitionVersion: "3.4.0", Hash: "sha256:1",
		Artifact: []byte(`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core"}]}}`),
	}
	newer := &model.Config{
		Ref: model.Ref{Namespace: "a", Name: "newer"}, IgnitionVersion: "3.4.0", Hash: "sha256:2",
		Artifact: []byte(`{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet"]}}`),
	}
	old := &model.Config{
		Ref: model.Ref{Namespace: "a", Name: "old"}, IgnitionVersion: "2.2.0", Hash: "sha256:3",
		Artifact: []byte(`{"ignition":{"version":"2.2.0"}}`),
	}
	tests := []struct {
		name                    string
		config                  *model.Config
		accept, userAgent, spec string
		// version of the form, "" as it is; and what a refusal says.
		version, refused string
	}{
		{name: "no header", config: plain},
		{name: "curl", config: plain, accept: "*/*"},
		{name: "older client", config: plain, accept: client2_14, version: "3.3.0"},
		{name: "a field that it has", config: newer, accept: client2_14, version: "3.3.0"},
		{name: "other major", config: plain, accept: client0_35, userAgent: "Ignition/v0.34.0", version: "2.2.0"},
		{name: "0.35", config: plain, accept: client0_35, userAgent: "Ignition/v0.35.0", version: "2.4.0"},
		{name: "2.0.1", config: plain, accept: client0_35, userAgent: "Ignition/2.0.1", version: "3.0.0"},
		{name: "2.0.1 and what its header says", config: old, accept: client0_35, userAgent: "Ignition/2.0.1",
			version: "3.0.0"},
		{name: "read by an entry of a lower q", config: plain,
			accept: ignition.MediaType + ";version=3.2.0, " + ignition.MediaType + ";version=3.5.0;q=0.5"},
		{name: "read by no entry: the highest q", config: plain, version: "3.2.0",
			accept: ignition.MediaType + ";version=3.3.0;q=0.5, " + ignition.MediaType + ";version=3.2.0"},
		{name: "read by an entry without a version", config: plain,
			accept: ignition.MediaType + ";version=3.2.0, " + ignition.MediaType + ";q=0.5"},
		{name: "up", config: old, accept: client2_14, version: "3.3.0"},
		{name: "a field in the way", config: newer, accept: client0_35,
			refused: "it cannot be converted to spec 2.2.0: $.kernelArguments: it is a field of spec 3.3.0 and later"},
		{name: "asked for", config: plain, spec: "3.2.0", version: "3.2.0"},
		{name: "asked for as it is", config: plain, spec: "3.4.0"},
		{name: "asked for in vain", config: newer, spec: "3.2.0", refused: "$.kernelArguments"},
		{name: "asked for what is not", config: plain, spec: "3.9.0", refused: "there is no Ignition spec 3.9.0"},
	}
	f := newForms()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dec, failure := chosen(f, tt.config, tt.accept, tt.userAgent, tt.spec)
			if tt.refused != "" {
				if failure == nil || failure.Kind != fault.NotAcceptable || !strings.Contains(failure.Sentence, tt.refused) {
					t.Errorf("got %v, want %q", failure, tt.refused)
				}
				return
			}
			if failure != nil {
				t.Fatal(failure)
			}
			if tt.version == "" {
				if dec.Form != nil {
					t.Errorf("converted to %s", dec.Form.Version)
				}
				return
			}
			if dec.Form == nil || dec.Form.Version != tt.version || ignition.VersionOf(dec.Form.Bytes) != tt.version ||
				dec.Form.ETag != `"`+dec.Form.Hash+`"` {
				t.Fatalf("got %+v", dec.Form)
			}
			again, _ := chosen(f, tt.config, tt.accept, tt.userAgent, tt.spec)
			if again.Form != dec.Form {
				t.Error("converted twice")
			}
		})
	}
}

func TestFormsAreBounded(t *testing.T) {
	f := newForms()
	f.limit = 64 << 10
	large := strings.Repeat("a", 1<<10)
	for i := range 100 {
		c := &model.Config{
			IgnitionVersion: "3.4.0", Hash: "sha256:" + string(rune('0'+i)),
			Artifact: []byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:,` +
				large + `"}}]}}`),
		}
		if form := f.of(c, "3.3.0"); form.Bytes == nil {
			t.Fatal(form.refused)
		}
	}
	if f.size > f.limit || f.cached.Len() < 35 || f.cached.Len() > 45 {
		t.Errorf("%d forms of %d bytes", f.cached.Len(), f.size)
	}
}

// BenchmarkForm is what choosing the form adds to a decision: for a client that takes
// the config as it is, and for ones that are given another form.
func BenchmarkForm(b *testing.B) {
	config := &model.Config{
		Ref: model.Ref{Namespace: "a", Name: "plain"}, IgnitionVersion: "3.4.0", Hash: "sha256:" + strings.Repeat("0", 64),
		Artifact: []byte(`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core"}]}}`),
	}
	for _, bm := range []struct{ name, accept, userAgent string }{
		{"none", "", ""},
		{"unchanged", "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1", "Ignition/2.15.0"},
		{"older", client2_14, "Ignition/Debian 2.14.0+ds1-1+b6"},
		{"0.35", client0_35, "Ignition/v0.35.0"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			q := configQuestion{question{
				decider: &Decider{forms: newForms()}, dec: ConfigDecision{Config: config},
				req: &Request{Accept: bm.accept, UserAgent: bm.userAgent},
			}}
			b.ReportAllocs()
			for b.Loop() {
				if failure := q.form(ignition.ParseAccept(bm.accept)); failure != nil {
					b.Fatal(failure)
				}
			}
		})
	}
}
