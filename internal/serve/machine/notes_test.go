package machine

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// TestBootsAreDescribed: the boot of a host has what its machine said of itself, and which config it received and
// why.
func TestBootsAreDescribed(t *testing.T) {
	config := *testConfig
	config.Compiled, config.Generation = 7, 8 // the newest source is wrong
	r := newRig(t, found(&config))
	header := http.Header{"User-Agent": {"Ignition/2.19.0"}}
	if resp, _ := do(t, r, http.MethodGet, PathIgnition+"?hostname=node-1", header); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	want := []*v1.Boot{{
		Client: "127.0.0.1", UserAgent: "Ignition/2.19.0", Match: &v1.BootMatch{Tier: found(&config).Tier.String()},
		Facts: &v1.BootFacts{FoundBy: "address", Claimed: map[string]string{"hostname": "node-1"}, Believed: map[string]string{}},
		Config: &v1.BootConfig{
			Name: "g10/coreos-builder", Generation: 7, Hash: "sha256:abc", Version: "3.4.0",
		},
	}}
	if diff := cmp.Diff(want, r.journal.boots); diff != "" {
		t.Error(diff)
	}
}

// TestWhatMachinesAreGivenIsKept: the bytes of the config in the version that was served, under the hash in the boot,
// and with placeholders where it has values of Secrets. What a believed caller reads, and sources, are not kept.
func TestWhatMachinesAreGivenIsKept(t *testing.T) {
	masked := &decide.Form{Version: "3.0.0", Bytes: []byte("masked form"), Hash: "sha256:maskedform"}
	revealed := changed(func(c *model.Config) {
		c.Artifact, c.Hash, c.ETag = []byte("the value"), "sha256:masked", `"sha256:value"`
		c.Revealed, c.Masked = true, changed(func(c *model.Config) { c.Artifact, c.Hash = []byte("masked"), "sha256:masked" })
	})
	form := func(config *model.Config, form *decide.Form) decide.ConfigDecision {
		d := found(config)
		d.Form = form
		return d
	}
	for name, c := range map[string]struct {
		decision decide.ConfigDecision
		query    string
		believe  bool
		want     []string
	}{
		"a config": {decision: found(testConfig), want: []string{"sha256:abc " + testBody}},
		"another version": {decision: form(testConfig, &decide.Form{Version: "3.0.0", Bytes: []byte("form"), Hash: "sha256:form"}),
			want: []string{"sha256:form form"}},
		"with Secrets": {decision: found(revealed), want: []string{"sha256:masked masked"}},
		"with Secrets, another version": {want: []string{"sha256:maskedform masked form"},
			decision: form(revealed, &decide.Form{Bytes: []byte("the value"), Hash: masked.Hash, Masked: masked})},
		"with Secrets, and no such version with placeholders": {want: []string{"sha256:masked "},
			decision: form(revealed, &decide.Form{Bytes: []byte("the value"), Hash: "sha256:masked", Masked: &decide.Form{}})},
		"a token": {decision: found(changed(func(c *model.Config) { c.Artifact = []byte("a " + boottoken.Placeholder) })),
			query: "?token=" + boottoken.Placeholder,
			want:  []string{"sha256:abc a <token>"}},
		"the source":         {decision: found(testConfig), query: "?format=raw"},
		"a believed caller":  {decision: found(testConfig), query: "?mac=52:54:00:00:00:01", believe: true},
		"an unknown machine": {decision: decide.ConfigDecision{Config: testConfig}},
	} {
		var kept []string
		r := newRig(t, c.decision, func(o *Options) {
			o.Keep = func(name string, content []byte) {
				hash, ofConfig := strings.CutPrefix(name, "config/"+testConfig.Ref.String()+" ")
				if !ofConfig {
					t.Errorf("kept as %q", name)
				}
				kept = append(kept, hash+" "+string(content))
			}
		})
		r.believe = c.believe
		if resp, body := do(t, r, http.MethodGet, PathIgnition+c.query, nil); resp.StatusCode != http.StatusOK {
			t.Fatal(name, resp.Status, body)
		}
		r.Server.Close() // waits for the handler
		if !slices.Equal(kept, c.want) {
			t.Errorf("%s: %q is kept", name, kept)
		}
		for _, boot := range r.journal.boots {
			if boot.Config.Hash+" " != c.want[0][:len(boot.Config.Hash)+1] {
				t.Errorf("%s: the boot has %s", name, boot.Config.Hash)
			}
		}
	}
}
