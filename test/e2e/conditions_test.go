package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"glowplug/internal/testkit"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// TestConditionsByKubectl: kubectl wait and get show what a machine would get, before it has
// ever asked, and describe shows that it asked in vain.
func TestConditionsByKubectl(t *testing.T) {
	needs(t)
	s := start(t)
	const host = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack, labels: {role: worker}}
spec: {ip: 127.0.0.1, image: localboot}
`
	const config = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack}
spec:
  type: ignition
  format: butane
  selector: {matchLabels: {role: worker}}
  config: |
    variant: fcos
    version: VERSION
`
	wait := func(object string, conditions ...string) {
		t.Helper()
		for _, condition := range conditions {
			s.kubectl("", "wait", "-n", "rack", "--timeout=10s", "--for=condition="+condition, object)
		}
	}
	s.kubectl(host, "apply", "-f", "-")
	wait("bmh/one", "ConfigMatched=false", "ImageReady", "IdentityUnique", "ConfigReadable", "Ready=false")

	// An unrelated edit leaves no condition behind.
	s.kubectl("", "patch", "-n", "rack", "bmh", "one", "--type=merge", "-p", `{"spec":{"hostname":"node-1"}}`)
	wait("bmh/one", "ConfigMatched=false", "IdentityUnique")
	if a := get(t, s.url("/api/v1/ignition"), "Accept", "*/*"); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	testkit.Until(t, "the event NoConfig", func() bool {
		return strings.Contains(s.kubectl("", "describe", "-n", "rack", "bmh", "one"), "asks for its ignition config")
	})

	// A watch that has begun before the change sees it.
	watched := make(chan string, 1)
	go func() {
		_, stderr, _ := s.tryKubectl("", "wait", "-n", "rack", "--timeout=30s", "--for=condition=Ready", "bmh/one")
		watched <- stderr
	}()
	s.kubectl(strings.ReplaceAll(config, "VERSION", "1.5.0"), "apply", "-f", "-")
	wait("ign/worker", "Ready")
	if stderr := <-watched; stderr != "" {
		t.Errorf("kubectl wait bmh/one: %s", stderr)
	}
	if out := s.kubectl("", "get", "ign", "-n", "rack", "-o", "jsonpath={.items[0].status.phase}"); out != "Ready" {
		t.Errorf("phase %s", out)
	}
	fields := strings.Fields(s.kubectl("", "get", "ign", "-n", "rack", "--no-headers"))
	if len(fields) != 8 || fields[6] != "1" {
		t.Errorf("the column HOSTS of %q", fields)
	}
	if out := s.kubectl("", "get", "bmh", "-n", "rack", "-o", "wide"); !strings.Contains(out, "rack/worker") {
		t.Errorf("the column CONFIG: %s", out)
	}

	// What does not compile is stalled for kstatus, and the last good version is served.
	_, stderr, err := s.tryKubectl(strings.ReplaceAll(config, "VERSION", "9.9.9"), "apply", "-f", "-")
	if err != nil || !strings.Contains(stderr, "Warning: ") {
		t.Errorf("%v %s", err, stderr)
	}
	wait("ign/worker", "Ready=false", "Stalled")
	wait("bmh/one", "ConfigMatched", "Ready")
}

// TestStatusByKstatus: the library with which Flux, Argo CD and helm wait takes no object for
// healthy that does not do what it says.
func TestStatusByKstatus(t *testing.T) {
	needs(t)
	s := start(t)
	const objects = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: served, namespace: rack}
spec: {ip: 192.0.2.1, labels: {a: b}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: unserved, namespace: rack}
spec: {ip: 192.0.2.2}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: good, namespace: rack}
spec: {type: ignition, format: butane, selector: {matchLabels: {a: b}}, config: "variant: fcos\nversion: 1.5.0\n"}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: broken, namespace: rack}
spec: {type: ignition, format: butane, config: "variant: fcos\nversion: 9.9.9\n"}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: missing, namespace: rack}
spec: {isoFile: none.iso}
`
	if _, stderr, err := s.tryKubectl(objects, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v %s", err, stderr)
	}
	for object, want := range map[string]status.Status{
		"bmh/served":    status.CurrentStatus,
		"bmh/unserved":  status.InProgressStatus,
		"ign/good":      status.CurrentStatus,
		"ign/broken":    status.FailedStatus,
		"cdrom/missing": status.InProgressStatus,
	} {
		var got *status.Result
		testkit.Until(t, object+" is "+want.String(), func() bool {
			var o unstructured.Unstructured
			if err := json.Unmarshal([]byte(s.kubectl("", "get", object, "-n", "rack", "-o", "json")), &o); err != nil {
				t.Fatal(err)
			}
			var err error
			if got, err = status.Compute(&o); err != nil {
				t.Fatalf("%s: %v", object, err)
			}
			return got.Status == want
		})
		t.Logf("%s: %s: %s", object, got.Status, got.Message)
	}
}
