package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

const hidden = "hunter2hunter2"

// confidentialObjects are an object of each kind with a secret, by the path of its kind.
func confidentialObjects() map[string]object {
	secret := config("secret", motd(hidden))
	secret.Spec.Confidential = true
	machine := host("secret")
	machine.Spec.BMC = &v1.BMC{Address: "10.0.0.9", Username: "root", Password: hidden}
	image := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}
	image.Spec.ISOFile = "a.iso"
	image.Spec.CHAP = &v1.CHAP{Username: "u", Password: hidden, MutualUsername: "t", MutualPassword: hidden + "m"}
	return map[string]object{configs: secret, hosts: machine, cdroms: image}
}

// lastApplied adds the annotation of kubectl apply.
func lastApplied(t *testing.T, obj object) object {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	out := obj.DeepCopyObject().(object)
	out.SetAnnotations(map[string]string{v1.AnnotationLastApplied: string(text) + "\n"})
	return out
}

// startConfidential returns an API with the objects, a viewer vic, an editor ann, and an editor eve who
// may not read what is confidential.
func startConfidential(t *testing.T) *api {
	t.Helper()
	a := start(t, func(opts *Options) { opts.Decider = decide.New(decide.Options{Inventory: opts.Inventory}) })
	a.bindIn(rbac.View, "vic")
	a.bindIn(rbac.Edit, "ann")
	a.must(http.StatusCreated, "POST", rolesPath, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "writer"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"*"}, APIGroups: []string{""},
			Resources: []string{"ignitionconfigs", "baremetalhosts", "iscsicdroms", "baremetalhosts/status"},
		}},
	})
	a.must(http.StatusCreated, "POST", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eve"}, RoleRef: roleRef(rbac.KindRole, "writer"), Subjects: users("eve"),
	})
	for path, obj := range confidentialObjects() {
		a.must(http.StatusCreated, "POST", path, lastApplied(t, obj))
	}
	return a
}

// TestViewersReadNothingConfidential: in no answer to a viewer is a confidential value; those who may get the
// subresource read it.
func TestViewersReadNothingConfidential(t *testing.T) {
	a := startConfidential(t)
	var group sync.WaitGroup
	for path := range confidentialObjects() {
		name := path[strings.LastIndex(path, "/")+1:]
		for _, request := range []string{path, path + "/secret", path + "/secret/status",
			path + "?watch=true&timeoutSeconds=1",
			path + "?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" +
				"&allowWatchBookmarks=true"} {
			for _, accept := range []string{"application/json", "application/yaml",
				"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
				"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
				group.Go(func() {
					got := a.do("GET", request, nil, append(as("vic"), "Accept", accept)...)
					if strings.Contains(string(got.body), hidden) {
						t.Errorf("GET %s as %s: %s", request, accept, got.body)
					}
				})
			}
			if strings.Contains(request, "watch") {
				continue
			}
			got := string(a.must(http.StatusOK, "GET", request, nil, as("vic")...).body)
			if !strings.Contains(got, `"\u003credacted\u003e"`) && !strings.Contains(got, redacted) {
				t.Errorf("GET %s does not say that a value is redacted: %s", request, got)
			}
			if got := a.must(http.StatusOK, "GET", request, nil, as("ann")...).body; !strings.Contains(string(got), hidden) {
				t.Errorf("ann reads no %s", name)
			}
		}
	}
	group.Wait()
	for _, path := range []string{configs + "/secret/rendered", configs + "/secret/plan"} {
		refused := a.must(http.StatusForbidden, "GET", path, nil, as("vic")...).status(t).Message
		if !strings.Contains(refused, "needs the verb get on ignitionconfigs/rendered") {
			t.Error(refused)
		}
		a.must(http.StatusOK, "GET", path, nil, as("ann")...)
	}
	a.must(http.StatusCreated, "POST", configs, config("open", motd("public")))
	a.must(http.StatusOK, "GET", configs+"/open/rendered", nil, as("vic")...)
	a.must(http.StatusForbidden, "GET", configs+"/open/rendered", nil, as("bob")...)
}

// TestWatchesHideWhatIsConfidential: an event of a watch that goes on is redacted as well.
func TestWatchesHideWhatIsConfidential(t *testing.T) {
	a := startConfidential(t)
	for _, who := range []string{"vic", "ann"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", a.url+hosts+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Impersonate-User", who)
		resp, err := a.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		changed := confidentialObjects()[hosts].(*v1.BareMetalHost)
		changed.Spec.BMC.Password = hidden + "-" + who
		a.must(http.StatusOK, "PUT", hosts+"/secret", changed)
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if got := lines.Text(); strings.Contains(got, hidden) != (who == "ann") || !strings.Contains(got, "MODIFIED") {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// TestRedactedValuesAreKept: who writes back what he has read changes nothing that he has not seen, and
// <redacted> is no value.
func TestRedactedValuesAreKept(t *testing.T) {
	a := startConfidential(t)
	for path, obj := range confidentialObjects() {
		t.Run(path, func(t *testing.T) {
			read := a.must(http.StatusOK, "GET", path+"/secret", nil, as("eve")...).object(t)
			read.SetLabels(map[string]string{"a": "b"})
			body := string(a.must(http.StatusOK, "PUT", path+"/secret", read.Object, as("eve")...).body)
			if strings.Contains(body, hidden) {
				t.Errorf("the answer: %s", body)
			}
			stored := a.must(http.StatusOK, "GET", path+"/secret", nil).object(t)
			want := lastApplied(t, obj)
			if got := stored.GetAnnotations()[v1.AnnotationLastApplied]; !strings.Contains(got, hidden) ||
				strings.Contains(got, redacted) || got != want.GetAnnotations()[v1.AnnotationLastApplied] {
				t.Errorf("the annotation of kubectl apply: %s", got)
			}
			text, _ := json.Marshal(stored.Object["spec"])
			if !strings.Contains(string(text), hidden) || strings.Contains(string(text), "redacted") ||
				stored.GetLabels()["a"] != "b" {
				t.Errorf("stored: %s", text)
			}
			// As a new object it has no value.
			read.SetName("copy")
			read.SetResourceVersion("")
			read.SetUID("")
			got := a.must(http.StatusUnprocessableEntity, "POST", path, read.Object, as("eve")...).status(t)
			if !strings.Contains(got.Message, "there is none: give the value itself") {
				t.Error(got.Message)
			}
		})
	}
}

// TestNoPatchCopiesWhatIsConfidential: a writer who may not read a value cannot move it to where he reads it, nor
// make it public.
func TestNoPatchCopiesWhatIsConfidential(t *testing.T) {
	a := startConfidential(t)
	const jsonPatch, merge, ssa = "application/json-patch+json", "application/merge-patch+json",
		"application/apply-patch+yaml"
	fieldOf := map[string]string{configs: "/spec/config", hosts: "/spec/bmc/password", cdroms: "/spec/chap/password"}
	for path, from := range fieldOf {
		patch := fmt.Sprintf(`[{"op":"copy","from":%q,"path":"/metadata/annotations/x"}]`, from)
		copied := a.do("PATCH", path+"/secret", patch, append(as("eve"), "Content-Type", jsonPatch)...)
		if got := copied.object(t).GetAnnotations()["x"]; got != redacted {
			t.Errorf("%s: copied %s", path, got)
		}
		test := a.do("PATCH", path+"/secret", fmt.Sprintf(`[{"op":"test","path":%q,"value":%q}]`, from, hidden),
			append(as("eve"), "Content-Type", jsonPatch)...)
		if test.code == http.StatusOK {
			t.Errorf("%s: a patch tells whether a guess is right", path)
		}
		for _, who := range []string{"eve", "vic"} {
			if got := a.must(http.StatusOK, "GET", path+"/secret", nil, as(who)...); strings.Contains(string(got.body), hidden) {
				t.Errorf("%s reads %s", who, got.body)
			}
		}
		if got := a.must(http.StatusOK, "GET", path+"/secret", nil); !strings.Contains(string(got.body), hidden) {
			t.Errorf("the value of %s is lost: %s", path, got.body)
		}
	}
	test := a.do("PATCH", hosts+"/secret/status", `[{"op":"test","path":"/spec/bmc/password","value":"`+hidden+`"}]`,
		append(as("eve"), "Content-Type", jsonPatch)...)
	if test.code == http.StatusOK {
		t.Error("a patch of the status tells whether a guess is right")
	}
	for contentType, body := range map[string]string{
		merge: `{"spec":{"confidential":false}}`,
		ssa: `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"secret"},` +
			`"spec":{"confidential":false,"type":"ignition","format":"butane"}}`,
	} {
		query := ""
		if contentType == ssa {
			query = "?fieldManager=x&force=true"
		}
		got := a.do("PATCH", configs+"/secret"+query, body, append(as("eve"), "Content-Type", contentType)...)
		if got.code != http.StatusForbidden || !strings.Contains(string(got.body), "ignitionconfigs/source") {
			t.Errorf("%s: %d %s", contentType, got.code, got.body)
		}
	}
	a.must(http.StatusOK, "PATCH", configs+"/secret", `{"spec":{"confidential":false}}`,
		append(as("ann"), "Content-Type", merge)...)
}

// TestFindingsOfConfidentialConfigs: neither the status nor a warning quotes the source to those who may not read
// it.
func TestFindingsOfConfidentialConfigs(t *testing.T) {
	a := startConfidential(t)
	const merge = "application/merge-patch+json"
	a.must(http.StatusOK, "PATCH", configs+"/secret", `{"spec":{"config":"variant: fcos\nversion: `+hidden+`\n"}}`,
		"Content-Type", merge)
	found := string(a.must(http.StatusOK, "GET", configs+"/secret", nil, as("ann")...).body)
	if !strings.Contains(found, hidden) {
		t.Errorf("the finding does not quote the source: %s", found)
	}
	kept := `{"spec":{"config":"<redacted>"},"metadata":{"annotations":{"x":"y"}}}`
	got := a.must(http.StatusOK, "PATCH", configs+"/secret", kept, append(as("eve"), "Content-Type", merge)...)
	if warnings := strings.Join(got.warnings, "\n"); strings.Contains(warnings, hidden) ||
		!strings.Contains(warnings, v1.ConfidentialFindings) {
		t.Errorf("%q", got.warnings)
	}
	for _, who := range []string{"eve", "vic"} {
		read := string(a.must(http.StatusOK, "GET", configs+"/secret", nil, as(who)...).body)
		if strings.Contains(read, hidden) {
			t.Errorf("%s reads %s", who, read)
		}
	}
	strict := `{"spec":{"config":"<redacted>","selector":{"default":true}},` +
		`"metadata":{"annotations":{"glowplug.dev/reject-broken-configs":"true"}}}`
	got = a.must(http.StatusUnprocessableEntity, "PATCH", configs+"/secret", strict,
		append(as("eve"), "Content-Type", merge)...)
	if strings.Contains(string(got.body), hidden) {
		t.Errorf("the refusal of a broken config: %s", got.body)
	}
	broken := config("secret", "")
	broken.Status = v1.IgnitionConfigStatus{
		ErrorMessage: hidden, Warnings: []string{hidden}, Conditions: []metav1.Condition{{Message: hidden}},
		Hosts: &v1.RenderedHosts{Failures: []v1.HostFailure{{Message: hidden}}},
	}
	configSecrecy(rights{}).hideAll(broken)
	if text, _ := json.Marshal(broken); strings.Contains(string(text), hidden) {
		t.Errorf("a finding is not hidden: %s", text)
	}
}

// The answer to a write has the object, and the right to write it is not the one to read its values.
func TestAnswersToWritesAreRedacted(t *testing.T) {
	a := startConfidential(t)
	const merge = "application/merge-patch+json"
	check := func(method, path string, body any) {
		t.Helper()
		got := a.must(http.StatusOK, method, path, body, append(as("eve"), "Content-Type", merge)...)
		if strings.Contains(string(got.body), hidden) {
			t.Errorf("%s %s: %s", method, path, got.body)
		}
	}
	check("PATCH", hosts+"/secret/status", `{"status":{"state":"Provisioned"}}`)
	for path := range confidentialObjects() {
		a.must(http.StatusOK, "PATCH", path+"/secret", `{"metadata":{"finalizers":["example.org/wait"]}}`,
			"Content-Type", merge)
		for _, deleted := range []string{path + "?dryRun=All", path + "/secret?dryRun=All", path + "/secret", path} {
			check("DELETE", deleted, nil)
		}
	}
}

// TestResultsOfConfidentialLayers: what a config receives from a confidential layer is confidential.
func TestResultsOfConfidentialLayers(t *testing.T) {
	a := startConfidential(t)
	over := config("over", goodSource)
	over.Spec.Layers = []v1.LayerReference{{Name: "secret"}}
	a.must(http.StatusCreated, "POST", configs, over)
	testkit.Until(t, "it comes to pass", func() bool {
		return a.do("GET", configs+"/over/rendered", nil).code == http.StatusOK
	})
	a.must(http.StatusForbidden, "GET", configs+"/over/rendered", nil, as("vic")...)
	a.must(http.StatusOK, "GET", configs+"/over/rendered", nil, as("ann")...)
}

// TestRenderingNeedsTheHost: a template is not rendered with the facts of a host that the user may not get.
func TestRenderingNeedsTheHost(t *testing.T) {
	a := startConfidential(t)
	a.must(http.StatusCreated, "POST", strings.Replace(hosts, "g10", "g11", 1), host("theirs"))
	a.must(http.StatusCreated, "POST", configs, config("open", goodSource))
	refused := a.must(http.StatusForbidden, "GET", configs+"/open/plan?host=g11/theirs", nil, as("ann")...)
	if !strings.Contains(refused.status(t).Message, "in the namespace g11") {
		t.Error(refused.status(t).Message)
	}
	a.must(http.StatusOK, "GET", configs+"/open/plan?host=secret", nil, as("ann")...)
}

// TestImpactHidesWhatIsConfidential: the differences of a confidential config are shown to those who may read it.
func TestImpactHidesWhatIsConfidential(t *testing.T) {
	a := startConfidential(t)
	for _, who := range []string{"eve", "ann"} {
		a.must(http.StatusCreated, "POST", clusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: who}, RoleRef: roleRef(rbac.KindClusterRole, "impact"), Subjects: users(who),
		})
	}
	a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "impact"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"impact"},
		}},
	})
	const merge = "application/merge-patch+json"
	a.must(http.StatusOK, "PATCH", configs+"/secret", `{"spec":{"selector":{"matchIPs":["192.168.10.10"]}}}`,
		"Content-Type", merge)
	changed := config("secret", motd("other"))
	changed.Spec.Confidential = true
	changed.Spec.Selector.MatchIPs = []string{"192.168.10.10"}
	changed.APIVersion, changed.Kind, changed.Namespace = "v1", "IgnitionConfig", "g10"
	for who, shown := range map[string]bool{"eve": false, "ann": true} {
		got := string(a.must(http.StatusOK, "POST", impactPath+"?show=true", map[string]any{"apply": []any{changed}},
			as(who)...).body)
		if strings.Contains(got, hidden) != shown || strings.Contains(got, "(confidential") == shown {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// TestServedSourcesStayConfidential: a config that is not confidential any more, but goes on to serve the
// confidential source, since the newest one does not compile, shows it to nobody else.
func TestServedSourcesStayConfidential(t *testing.T) {
	a := startConfidential(t)
	open := config("secret", "variant: nonsense\n")
	a.must(http.StatusOK, "PUT", configs+"/secret", open)
	for _, sub := range []string{"rendered", "plan"} {
		if got := a.do("GET", configs+"/secret/"+sub, nil, as("vic")...); got.code != http.StatusForbidden {
			t.Errorf("%s: %d %s", sub, got.code, got.body)
		}
	}
}

// TestTheAnnotationOfAnOpenConfig: the annotation of kubectl apply does not show a source that was confidential.
func TestTheAnnotationOfAnOpenConfig(t *testing.T) {
	a := startConfidential(t)
	const merge = "application/merge-patch+json"
	const opened = `{"spec":{"confidential":false,"config":"variant: fcos\nversion: 1.5.0\n"}}`
	a.must(http.StatusOK, "PATCH", configs+"/secret", opened, "Content-Type", merge)
	for _, path := range []string{configs, configs + "/secret", configs + "?watch=true&timeoutSeconds=1"} {
		got := string(a.must(http.StatusOK, "GET", path, nil, as("vic")...).body)
		if strings.Contains(got, hidden) || !strings.Contains(got, "version: 1.5.0") {
			t.Errorf("%s: %s", path, got)
		}
	}
	// Also where the annotation alone has the value.
	for path, without := range map[string]string{hosts: `{"spec":{"bmc":null}}`, cdroms: `{"spec":{"chap":null}}`} {
		a.must(http.StatusOK, "PATCH", path+"/secret", without, "Content-Type", merge)
		got := a.must(http.StatusOK, "GET", path+"/secret", nil, as("vic")...)
		if strings.Contains(string(got.body), hidden) {
			t.Errorf("%s: %s", path, got.body)
		}
		// And where that is no object, so that nobody knows where the value is.
		broken, _ := json.Marshal(`{"spec":{"password":"` + hidden + `"`)
		annotation := `{"metadata":{"annotations":{"` + v1.AnnotationLastApplied + `":` + string(broken) + `}}}`
		a.must(http.StatusOK, "PATCH", path+"/secret", annotation, "Content-Type", merge)
		got = a.must(http.StatusOK, "GET", path+"/secret", nil, as("vic")...)
		if text := got.object(t).GetAnnotations()[v1.AnnotationLastApplied]; text != redacted {
			t.Errorf("%s: the annotation is %q", path, text)
		}
	}
}

// TestNoGuessIsConfirmed: a writer who may not read a value does not find out with a write, or its dry run,
// whether a guess is right.
func TestNoGuessIsConfirmed(t *testing.T) {
	a := startConfidential(t)
	const merge = "application/merge-patch+json"
	right, _ := json.Marshal(motd(hidden))
	for path, guesses := range map[string][2]string{
		hosts:   {`{"spec":{"bmc":{"password":"` + hidden + `"}}}`, `{"spec":{"bmc":{"password":"wrong"}}}`},
		configs: {`{"spec":{"config":` + string(right) + `}}`, `{"spec":{"config":"variant: fcos\nversion: 1.5.0\n"}}`},
		cdroms: {`{"spec":{"chap":{"password":"` + hidden + `","mutualPassword":"` + hidden + `m"}}}`,
			`{"spec":{"chap":{"password":"wrongwrongwrong","mutualPassword":"otherotherother"}}}`},
	} {
		var generations []int64
		for _, guess := range guesses {
			got := a.must(http.StatusOK, "PATCH", path+"/secret?dryRun=All", guess, append(as("eve"), "Content-Type", merge)...)
			generations = append(generations, got.object(t).GetGeneration())
		}
		if generations[0] != generations[1] {
			t.Errorf("%s: a right guess has generation %d, a wrong one %d", path, generations[0], generations[1])
		}
	}
	one := a.do("PATCH", cdroms+"/secret?dryRun=All", `{"spec":{"chap":{"password":"`+hidden+`m"}}}`,
		append(as("eve"), "Content-Type", merge)...)
	if message := one.status(t).Message; !strings.Contains(message, "gives all passwords of the object, or none") {
		t.Errorf("%d %s", one.code, message)
	}
}
