package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestIslandsOutlastCrashes has two servers on one NATS server: the RoleBinding that one of them stores makes an island
// on both. It is one after a kill -9, and without the binding, until an administrator takes away the mark.
func TestIslandsOutlastCrashes(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	url := "nats://127.0.0.1:" + nats.port
	pki := filepath.Join(t.TempDir(), "pki")
	one := start(t, "--nats-url", url, "--pki-dir", pki)
	two := start(t, "--nats-url", url, "--pki-dir", pki)
	one.kubectl(`
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: h, namespace: default}
spec: {bootMACAddress: "02:00:00:00:44:01"}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: c, namespace: tenant}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"}}'
  selector: {matchHostnames: [h]}
`, "apply", "-f", "-")
	servers := []*server{one, two}
	// gets waits until each server answers the machine of the host with a status.
	gets := func(when string, status int) {
		t.Helper()
		for i, s := range servers {
			testkit.Until(t, fmt.Sprintf("%s, server %d answers %d", when, i+1, status), func() bool {
				got, _ := fetch(t, s.admin("/api/v1/ignition?mac=02:00:00:00:44:01"), "")
				return got == status
			})
		}
	}
	warned := func(want, stdin string, args ...string) {
		t.Helper()
		if _, warnings, err := one.tryKubectl(stdin, args...); err != nil || !strings.Contains(warnings, want) {
			t.Fatalf("%v: %s", err, warnings)
		}
	}
	gets("one site", http.StatusOK)
	warned("default/h had tenant/c and gets none", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: eve, apiGroup: rbac.authorization.k8s.io}]
`, "apply", "-f", "-")
	gets("an island", http.StatusNotFound)
	one.kill()
	one.restart()
	gets("after a crash", http.StatusNotFound)
	two.kubectl("", "delete", "rolebinding", "team", "-n", "tenant")
	gets("without the binding", http.StatusNotFound)
	one.kill()
	one.restart()
	gets("without the binding, after a crash", http.StatusNotFound)
	if out := one.kubectl("", "get", "ns", "tenant"); !strings.Contains(out, "ISLAND") || !strings.Contains(out, "true") {
		t.Errorf("kubectl get ns shows no island:\n%s", out)
	}
	warned("default/h had none and gets tenant/c", "", "annotate", "ns", "tenant", "glowplug.dev/island-")
	gets("without the mark", http.StatusOK)
}
