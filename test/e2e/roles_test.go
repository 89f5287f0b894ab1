package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"glowplug/internal/testkit"
)

// TestRolesWithKubectl: the commands of kubectl for roles work as on Kubernetes.
func TestRolesWithKubectl(t *testing.T) {
	needs(t)
	s := start(t)
	contains := func(what, out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s lacks %q:\n%s", what, part, out)
			}
		}
	}
	testkit.Until(t, "the built-in roles are there", func() bool {
		out, _, err := s.tryKubectl("", "get", "clusterrolebindings", "-o", "name")
		return err == nil && strings.Contains(out, "system:discovery")
	})
	contains("get clusterroles", s.kubectl("", "get", "clusterroles"), "NAME", "CREATED AT", "cluster-admin", "admin",
		"edit", "view", "system:discovery")
	contains("create role", s.kubectl("", "create", "role", "boots", "-n", "rack-a", "--verb=get,list",
		"--resource=bmh,ign"), "role.rbac.authorization.k8s.io/boots created")
	contains("create role with names", s.kubectl("", "create", "role", "one", "-n", "rack-a", "--verb=update",
		"--resource=baremetalhosts", "--resource-name=node-1"), "created")
	contains("create clusterrole", s.kubectl("", "create", "clusterrole", "probe", "--verb=get",
		"--non-resource-url=/healthz/*"), "created")
	contains("create rolebinding", s.kubectl("", "create", "rolebinding", "ann", "-n", "rack-a", "--role=boots",
		"--user=ann"), "rolebinding.rbac.authorization.k8s.io/ann created")
	contains("create rolebinding of a cluster role", s.kubectl("", "create", "rolebinding", "ops", "-n", "rack-b",
		"--clusterrole=edit", "--group=ops", "--serviceaccount=rack-b:robot"), "created")
	contains("create clusterrolebinding", s.kubectl("", "create", "clusterrolebinding", "vic", "--clusterrole=view",
		"--user=vic"), "created")
	contains("get rolebindings", s.kubectl("", "get", "rolebindings", "-A", "-o", "wide"), "ROLE", "ClusterRole/edit",
		"USERS", "ann", "ops", "rack-b/robot")
	contains("describe role", s.kubectl("", "describe", "role", "boots", "-n", "rack-a"), "baremetalhosts", "[get list]")
	contains("describe rolebinding", s.kubectl("", "describe", "rolebinding", "ops", "-n", "rack-b"), "ServiceAccount",
		"robot")
	contains("explain", s.kubectl("", "explain", "role.rules"), "resourceNames")
	contains("whoami", s.kubectl("", "auth", "whoami", "--as", "ann", "--as-group", "ops"), "ann", "[ops")
	contains("can-i --list", s.kubectl("", "auth", "can-i", "--list", "-n", "rack-a", "--as", "ann"), "baremetalhosts",
		"[get list]", "selfsubjectreviews")
	const desired = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: boots, namespace: rack-a}
rules:
- {apiGroups: [""], resources: [baremetalhosts], verbs: [get, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: rack-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: boots}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
`
	reconcile := func(objects string) string {
		t.Helper()
		out, stderr, err := s.tryKubectl(objects, "auth", "reconcile", "-f", "-") // its report is on stderr
		if err != nil {
			t.Errorf("auth reconcile: %v: %s", err, stderr)
		}
		return out + stderr
	}
	contains("auth reconcile", reconcile(desired), "reconciled", "missing rules added", "[watch]")
	contains("reconciled", s.kubectl("", "get", "role,rolebinding", "-n", "rack-a", "-o", "yaml"), "watch", "list", "bob",
		"name: ann")
	contains("auth reconcile of another role", reconcile(strings.ReplaceAll(desired, "name: boots", "name: one")),
		"reconciled", "required recreate")
	contains("apply", s.kubectl(strings.ReplaceAll(desired, "rack-a", "rack-c"), "apply", "-f", "-"), "created")
	contains("apply --server-side", s.kubectl(strings.ReplaceAll(desired, "rack-a", "rack-d"), "apply", "--server-side",
		"-f", "-"), "serverside-applied")
	_, stderr, err := s.tryKubectl("", "get", "bmh", "-n", "rack-b", "--as", "ann")
	if want := `baremetalhosts is forbidden: User "ann" cannot list resource "baremetalhosts" in API group "" in the ` +
		`namespace "rack-b"`; err == nil || !strings.Contains(stderr, want) {
		t.Errorf("%v: %s", err, stderr)
	}
	contains("delete ns", s.kubectl("", "delete", "ns", "rack-c"), "deleted")
	if out := s.kubectl("", "get", "roles,rolebindings", "-n", "rack-c", "--ignore-not-found"); out != "" {
		t.Errorf("the roles of a deleted namespace are left:\n%s", out)
	}
}

// TestMergedSecretsStayConfidential: a writer who may not read a confidential layer gets its content neither from a
// config over it, nor by a source that does not compile, without layers, so that the former merge is served.
func TestMergedSecretsStayConfidential(t *testing.T) {
	needs(t)
	s := start(t)
	const secret = "s3cr3t-4711"
	s.kubectl(`
apiVersion: v1
kind: IgnitionConfig
metadata: {name: secret, namespace: rack-a}
spec:
  type: ignition
  format: butane
  confidential: true
  config: |
    variant: fcos
    version: 1.5.0
    kernel_arguments: {should_exist: [token=`+secret+`]}
  selector: {matchLabels: {a: secret}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: over, namespace: rack-a}
spec:
  type: ignition
  format: butane
  layers: [{name: secret}]
  config: |
    variant: fcos
    version: 1.5.0
  selector: {matchLabels: {a: over}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec: {ip: 192.0.2.9, labels: {a: over}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: rack-a}
rules:
- {apiGroups: [""], resources: [ignitionconfigs], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: eve, namespace: rack-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: vic}
`, "apply", "-f", "-")
	const rendered = "/api/v1/namespaces/rack-a/ignitionconfigs/over/rendered"
	testkit.Until(t, "the config is merged", func() bool {
		out, _, err := s.tryKubectl("", "get", "--raw", rendered)
		return err == nil && strings.Contains(out, secret)
	})
	nobodyElse := func(step string) {
		t.Helper()
		for _, who := range []string{"eve", "vic"} {
			for _, path := range []string{rendered, strings.Replace(rendered, "rendered", "plan", 1),
				"/api/v1/explain?host=rack-a/node-1", "/api/v1/namespaces/rack-a/ignitionconfigs"} {
				out, stderr, err := s.tryKubectl("", "get", "--raw", path, "--as", who)
				if strings.Contains(out+stderr, secret) {
					t.Errorf("%s: %s reads %s: %s", step, who, path, out+stderr)
				}
				if strings.Contains(path, "over/") && err == nil {
					t.Errorf("%s: %s may read %s", step, who, path)
				}
			}
		}
	}
	nobodyElse("merged")
	if out, _, err := s.tryKubectl("", "patch", "ign", "over", "-n", "rack-a", "--as", "eve", "--type", "merge", "-p",
		`{"spec":{"layers":null,"config":"variant: nonsense\n"}}`); err != nil {
		t.Fatal(out, err)
	}
	testkit.Until(t, "the former merge is served", func() bool {
		out, _, err := s.tryKubectl("", "get", "--raw", rendered)
		return err == nil && strings.Contains(out, secret)
	})
	nobodyElse("without layers")
}

// TestCanI asks kubectl auth can-i for every verb, kind and name of a fixture, and compares the answers with
// the rules of the fixture.
func TestCanI(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: mixed, namespace: rack-a}
rules:
- {apiGroups: [""], resources: [ignitionconfigs, ignitionconfigs/status], verbs: [get, list]}
- {apiGroups: [""], resources: [baremetalhosts], verbs: [update, patch], resourceNames: [node-1]}
- {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: [get]}
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: rack-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: mixed}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
`, "apply", "-f", "-")
	may := func(verb, resource, name string) bool {
		switch resource {
		case "ignitionconfigs", "ignitionconfigs/status":
			return verb == "get" || verb == "list"
		case "baremetalhosts":
			return name == "node-1" && (verb == "update" || verb == "patch")
		case "configmaps":
			return true
		case "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io":
			return verb == "get"
		}
		return false
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	resources := []string{"ignitionconfigs", "ignitionconfigs/status", "baremetalhosts", "iscsicdroms", "configmaps",
		"events", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"}
	var asked, allowed int
	var mu sync.Mutex
	ask := func(verb, resource, name, namespace string) {
		args := []string{"auth", "can-i", verb, resource, "-n", namespace, "--as", "ann"}
		kind, subresource, hasSub := strings.Cut(resource, "/")
		if args[3] = kind; name != "" {
			args[3] += "/" + name
		}
		if hasSub {
			args = append(args, "--subresource="+subresource)
		}
		out, stderr, _ := s.tryKubectl("", args...)
		got, want := strings.TrimSpace(out), "no"
		if namespace == "rack-a" && may(verb, resource, name) {
			want = "yes"
		}
		mu.Lock()
		defer mu.Unlock()
		if asked++; got == "yes" {
			allowed++
		}
		if word, _, _ := strings.Cut(got, " "); word != want {
			t.Errorf("%s: %s %s, want %s", strings.Join(args, " "), got, stderr, want)
		}
	}
	var questions [][4]string
	for _, verb := range verbs {
		for _, resource := range resources {
			for _, name := range []string{"", "node-1", "node-2"} {
				questions = append(questions, [4]string{verb, resource, name, "rack-a"})
			}
			questions = append(questions, [4]string{verb, resource, "", "rack-b"})
		}
	}
	var group sync.WaitGroup
	for part := range slices.Chunk(questions, len(questions)/4+1) {
		group.Go(func() {
			for _, q := range part {
				ask(q[0], q[1], q[2], q[3])
			}
		})
	}
	group.Wait()
	t.Logf("%d questions, %d answered yes", asked, allowed)
	if asked != len(verbs)*len(resources)*4 || allowed < 40 {
		t.Errorf("%d questions, %d answered yes", asked, allowed)
	}
}
