package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// TestRestoredStoreIsTheSame takes a backup of a store with objects of every kind that a user writes, and restores it
// into another embedded store, from there into an external NATS, and back. Each of 200 hosts is then explained and
// served as before, every object is as it was, with its UID, generation and state, and the credentials of users and
// of a ServiceAccount are accepted.
func TestRestoredStoreIsTheSame(t *testing.T) {
	needs(t)
	source := start(t)
	kept := fillForBackup(t, source)
	token := strings.TrimSpace(source.kubectl("", "create", "token", "robot", "-n", "tenant"))
	source.kubectl("", "create", "clusterrolebinding", "boss", "--clusterrole=admin", "--user=boss")
	for _, path := range []string{"/api/v1/backup", "/api/v1/fsck"} {
		for _, user := range []string{"nobody", "boss"} { // who is the administrator of all namespaces
			if _, errOut, err := source.tryKubectl("", "get", "--raw", path, "--as="+user); err == nil ||
				!strings.Contains(errOut, "forbidden") {
				t.Errorf("%s gets %s: %v %s", user, path, err, errOut)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "glowplug.tar.gz")
	command(t, "backup", file, "--server", source.admin(""))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the backup: %v, %v", info, err)
	}
	nats := newNATS(t)
	nats.start()
	before := objectsOf(t, source)
	revision := revisionOf(t, source)
	for _, step := range []struct {
		name string
		args []string // of the store
	}{
		{"another embedded store", nil},
		{"an external NATS", []string{"--nats-url", "nats://127.0.0.1:" + nats.port}},
		{"back into an embedded store", nil},
	} {
		target := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t),
			args: step.args}
		command(t, append([]string{"restore", file, "--data-dir", target.dir}, step.args...)...)
		target.launch()
		target.waitReady()
		testkit.Until(t, "everything is compiled and rendered", func() bool {
			return !strings.Contains(target.kubectl("", "get", "ign", "-A"), "Pending")
		})
		after := objectsOf(t, target)
		for name := range before {
			if before[name] != after[name] {
				t.Errorf("%s: %s is\n%s\nwas\n%s", step.name, name, after[name], before[name])
			}
		}
		configs := 0
		for _, path := range kept {
			before, after := get(t, source.admin(path)), get(t, target.admin(path))
			if before.status == 200 && strings.Contains(path, "/ignition?") {
				configs++
			}
			if before.status != after.status || comparable(before.body) != comparable(after.body) {
				t.Errorf("%s: %s: %d, was %d\n%s\nwas\n%s", step.name, path, after.status, before.status, after.body, before.body)
			}
		}
		if configs < 100 {
			t.Errorf("%d hosts have a config, too few to compare", configs)
		}
		if now := revisionOf(t, target); now <= revision {
			t.Errorf("%s: the resourceVersion goes back from %d to %d", step.name, revision, now)
		}
		for _, credential := range [][]string{{"--kubeconfig", source.kubeconfig()}, {"--kubeconfig", "/dev/null", "--token", token}} {
			args := append(credential, "-s", "https://127.0.0.1:"+target.tls, "--insecure-skip-tls-verify", "get", "bmh", "-n", "tenant",
				"-o", "name")
			if credential[1] != "/dev/null" { // the CA is the same
				args = append(credential, "-s", "https://127.0.0.1:"+target.tls, "get", "bmh", "-n", "tenant", "-o", "name")
			}
			out, err := exec.Command(kubectlPath(t), args...).CombinedOutput()
			if err != nil || strings.Count(string(out), "baremetalhost/") != 40 {
				t.Errorf("%s: %v: %v %s", step.name, credential[0], err, out)
			}
		}
		command(t, "backup", file, "--server", target.admin(""))
		if code := target.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if out, err := exec.Command(program, append([]string{"restore", file, "--data-dir", target.dir}, step.args...)...).
			CombinedOutput(); err == nil || !strings.Contains(string(out), "--replace writes a backup of them") {
			t.Errorf("%s: a store with objects: %v %s", step.name, err, out)
		}
		out := command(t, append([]string{"restore", file, "--data-dir", target.dir, "--replace"}, step.args...)...)
		if strings.Contains(out, "`glowplug store adopt`") != (step.args != nil) {
			t.Errorf("%s: only other servers of a NATS have to adopt what was restored: %s", step.name, out)
		}
	}
}

// TestExportIsAppliedAgain: what export writes, with Secrets, makes another server export the same files, and an object
// that is gone loses its file.
func TestExportIsAppliedAgain(t *testing.T) {
	needs(t)
	source, target := start(t), start(t)
	fillForBackup(t, source)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	command(t, "export", first, "--secrets", "--server", source.admin(""))
	if out, err := exec.Command(program, "apply", "-f", first, "--server", target.admin("")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, launch.Tail(string(out), 2000))
	}
	command(t, "export", second, "--secrets", "--server", target.admin(""))
	if out, err := exec.Command("diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	secret := filepath.Join(second, "rack-b", "secret", "wifi.yaml")
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if out := command(t, "export", second, "--server", target.admin("")); !strings.Contains(out, ", 1 files removed") {
		t.Error(out)
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("without --secrets there is a Secret")
	}
}

// command runs a command of the program.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("glowplug %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// revisionOf is the newest resourceVersion of the hosts.
func revisionOf(t *testing.T, s *server) int {
	t.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(s.kubectl("", "get", "--raw", "/api/v1/baremetalhosts?limit=1")), &list); err != nil {
		t.Fatal(err)
	}
	revision, err := strconv.Atoi(list.Metadata.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// fillForBackup writes objects of each kind, and returns the paths whose answers have to stay: for each of 200
// hosts its explanation and its config.
func fillForBackup(t *testing.T, s *server) (paths []string) {
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
	for i := range 200 {
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

// objectsOf returns all objects but events, with the states of the hosts and the phases of the configs.
func objectsOf(t *testing.T, s *server) map[string]string {
	t.Helper()
	var list struct{ Items []map[string]any }
	kinds := "ns,cm,secrets,streamreleases,iscsicdroms,ign,bmh,sa,tokens,clusterroles,roles,clusterrolebindings,rolebindings"
	if err := json.Unmarshal([]byte(s.kubectl("", "get", kinds, "-A", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for _, item := range list.Items {
		meta := item["metadata"].(map[string]any)
		for _, field := range []string{"resourceVersion", "managedFields"} {
			delete(meta, field)
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
