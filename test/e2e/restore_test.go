package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestExportAndRestoreAreComplete does what docs/guides/operations.md shows under "Back up and restore": it exports
// a store with objects of every kind that a user writes, and restores it into another embedded store and into
// an external NATS. Each of 50 hosts is then explained and served as before, and every object is as it was.
func TestExportAndRestoreAreComplete(t *testing.T) {
	needs(t, "jq")
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Back up and restore\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d blocks of commands, not one to export and one to restore", len(blocks))
	}
	dir := t.TempDir()
	run := func(s *server, commands string) {
		t.Helper()
		bin := t.TempDir()
		if err := os.Symlink(kubectlPath(t), filepath.Join(bin, "kubectl")); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig(), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
	}

	source := start(t)
	kept := fillForExport(t, source)
	run(source, blocks[0])
	file := filepath.Join(dir, "glowplug.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the export: mode %v, %v", info.Mode(), err)
	}
	nats := newNATS(t)
	nats.start()
	targets := map[string]*server{"another embedded store": start(t),
		"an external NATS": start(t, "--nats-url", "nats://127.0.0.1:"+nats.port)}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			run(target, blocks[1])
			testkit.Until(t, "everything is compiled and rendered", func() bool {
				return !strings.Contains(target.kubectl("", "get", "ign", "-A"), "Pending")
			})
			before, after := exported(t, source), exported(t, target)
			for name := range before {
				if before[name] != after[name] {
					t.Errorf("%s is\n%s\nwas\n%s", name, after[name], before[name])
				}
			}
			configs := 0
			for _, path := range kept {
				before, after := get(t, source.admin(path)), get(t, target.admin(path))
				if before.status == 200 && strings.Contains(path, "/ignition?") {
					configs++
				}
				if before.status != after.status || comparable(before.body) != comparable(after.body) {
					t.Errorf("%s: %d, was %d\n%s\nwas\n%s", path, after.status, before.status, after.body, before.body)
				}
			}
			if configs < 30 {
				t.Errorf("%d hosts have a config, too few to compare", configs)
			}
		})
	}
}

// fillForExport writes objects of each kind, and returns the paths whose answers have to stay: for each of 50
// hosts its explanation and its config.
func fillForExport(t *testing.T, s *server) (paths []string) {
	t.Helper()
	objects := `
apiVersion: v1
kind: Namespace
metadata: {name: rack-a, annotations: {team: storage}, labels: {site: north}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: rack-a}
data: {door: "4"}
---
apiVersion: v1
kind: Secret
metadata: {name: wifi, namespace: rack-b}
stringData: {key: "horse battery"}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: installer, namespace: rack-a}
spec: {external: {portal: 192.0.2.9, iqn: "iqn.2000-02.com.mikrotik:cd", lun: 1}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack-a}
spec: {type: ignition, format: ignition, config: '{"ignition":{"version":"3.4.0"}}', selector: {matchLabels: {role: worker}}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: edge, namespace: rack-b}
spec:
  type: ignition
  format: butane
  template: true
  config: |
    variant: fcos
    version: 1.5.0
    storage:
      files:
        - {path: /etc/name, contents: {inline: "{{ .Hostname }} {{ secret "wifi" "key" }}"}}
  selector: {matchLabels: {role: worker}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: fallback, namespace: default}
spec: {type: ignition, format: ignition, config: '{"ignition":{"version":"3.3.0"}}', selector: {default: true}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: hosts, namespace: tenant}
rules: [{apiGroups: [""], resources: [baremetalhosts, ignitionconfigs], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: look}
rules: [{apiGroups: [""], resources: [baremetalhosts], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: look}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: look}
subjects: [{kind: ServiceAccount, name: robot, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: hosts}
subjects: [{kind: ServiceAccount, name: robot, namespace: tenant}]
`
	// A template warns that it is not rendered yet, and a host of the island that its image is elsewhere.
	if _, errOut, err := s.tryKubectl(objects, "apply", "-f", "-"); err != nil {
		t.Fatal(errOut)
	}
	var hosts strings.Builder
	for i := range 50 {
		mac := fmt.Sprintf("02:00:00:00:33:%02x", i)
		namespace := []string{"rack-a", "rack-b", "tenant", "default", "rack-a"}[i%5]
		role := []string{"worker", "worker", "worker", "worker", "spare"}[i%5]
		fmt.Fprintf(&hosts, `---
apiVersion: v1
kind: BareMetalHost
metadata: {name: h%d, namespace: %s, labels: {role: %s}}
spec: {bootMACAddress: "%s", image: rack-a/installer}
`, i, namespace, role, mac)
		paths = append(paths, "/api/v1/explain?mac="+mac, "/api/v1/ignition?mac="+mac)
	}
	if _, errOut, err := s.tryKubectl(hosts.String(), "apply", "-f", "-"); err != nil {
		t.Fatal(errOut)
	}
	for i := range 10 {
		s.kubectl("", "patch", "bmh", fmt.Sprintf("h%d", i*5), "-n", "rack-a", "--subresource=status", "--type=merge", "-p",
			`{"status":{"state":"Provisioned"}}`)
	}
	return paths
}

// exported returns the objects of the export as their users wrote them, with the states of the hosts.
func exported(t *testing.T, s *server) map[string]string {
	t.Helper()
	var list struct{ Items []map[string]any }
	kinds := "ns,cm,secrets,streamreleases,iscsicdroms,ign,bmh,sa,clusterroles,roles,clusterrolebindings,rolebindings"
	if err := json.Unmarshal([]byte(s.kubectl("", "get", kinds, "-A", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for _, item := range list.Items {
		meta := item["metadata"].(map[string]any)
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
			delete(meta, field)
		}
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration") // kubectl writes its own
		}
		status, _ := item["status"].(map[string]any)
		item["status"] = map[string]any{"state": status["state"], "phase": status["phase"]}
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		objects[fmt.Sprint(item["kind"], " ", meta["namespace"], "/", meta["name"])] = string(text)
	}
	return objects
}

// comparable is the answer without what a new store has anew: revisions and times.
func comparable(answer string) string {
	return regexp.MustCompile(`"(revision|resourceVersion|created|lastSeen)": ?("[^"]*"|\d+)`).ReplaceAllString(answer, "")
}
