package model

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"glowplug/internal/domain/template"
)

func TestFactsOfAHost(t *testing.T) {
	const meta = `{"metadata":{"name":"n","uid":"1","labels":{"a":"1","b":"1"}`
	const lastApplied = `"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"bmc\":{\"password\":\"secret\"}}}"`
	for name, c := range map[string]struct {
		value string
		want  template.Facts
	}{
		"everything": {meta + `,"annotations":{"owner":"ops","glowplug.dev/rearm":"2",` + lastApplied +
			`}},"spec":{"bootMACAddress":"52-54-00-12-34-56","ip":"::ffff:10.0.0.1",` +
			`"hostname":"N.Example.","labels":{"b":"2"},"nics":[{"mac":"525400123457","ip":"10.0.0.2","hostname":"data"},{"mac":"52:54:00:12:34:58"}],"bmc":{"password":"secret"}},"status":{"state":"Booting"}}`,
			template.Facts{Hostname: "n.example", IP: "10.0.0.1", MAC: "52:54:00:12:34:56", Namespace: "ns", Name: "n",
				Labels:      map[string]string{"a": "1", "b": "2"},
				Annotations: map[string]string{"owner": "ops", "glowplug.dev/rearm": "2"},
				NICs: []template.NIC{{MAC: "52:54:00:12:34:57", IP: "10.0.0.2", Hostname: "data"},
					{MAC: "52:54:00:12:34:58"}}}},
		"what is not set comes of the cards": {`{"spec":{"nics":[{"mac":"52:54:00:12:34:58"},{"ip":"10.0.0.2"}]}}`,
			template.Facts{Hostname: "n", IP: "10.0.0.2", MAC: "52:54:00:12:34:58", Namespace: "ns", Name: "n",
				NICs: []template.NIC{{MAC: "52:54:00:12:34:58"}, {IP: "10.0.0.2"}}}},
		"nothing": {`{}`, template.Facts{Hostname: "n", Namespace: "ns", Name: "n"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := decodeHost(Stored{Key: "ns/n", Revision: 1, Value: []byte(c.value)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, *h.Facts()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHostsWithoutAnnotationsAreNoLarger: kubectl's own is on nearly every host.
func TestHostsWithoutAnnotationsAreNoLarger(t *testing.T) {
	h, err := decodeHost(Stored{Key: "ns/n",
		Value: []byte(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"ip":"10.0.0.1"}}`)}, nil)
	if err != nil || h.More != nil {
		t.Errorf("%v %+v", err, h.More)
	}
	// 384 bytes is what Go gives out for an object of this size.
	if size := unsafe.Sizeof(Host{}); size > 384 {
		t.Errorf("a host takes %d bytes", size)
	}
}
