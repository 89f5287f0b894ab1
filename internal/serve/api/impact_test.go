package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/testkit"
)

// startPredicting returns an API that predicts the impact of writes, with a host x that receives the
// config c.
func startPredicting(t *testing.T) *api {
	t.Helper()
	var inv *snapshot.Inventory
	a := start(t, func(opts *Options) {
		inv = opts.Inventory
		opts.Decider = decide.New(decide.Options{Inventory: inv})
	})
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	if got := a.must(http.StatusCreated, "POST", configs, selecting("c", motd("1"))); len(got.warnings) > 0 {
		t.Errorf("a config for a host that had none: %q", got.warnings)
	}
	testkit.Until(t, "it comes to pass", func() bool { return inv.View().Config(model.Ref{Namespace: "g10", Name: "c"}) != nil })
	return a
}

func motd(text string) string {
	return goodSource + "storage: {files: [{path: /etc/motd, contents: {inline: '" + text + "'}}]}\n"
}

func selecting(name, source string) *v1.IgnitionConfig {
	c := config(name, source)
	c.Spec.Selector.MatchIPs = []string{"192.168.10.10"}
	return c
}

// impactsIn returns the warnings about impacts.
func impactsIn(a answer) []string {
	return slices.DeleteFunc(slices.Clone(a.warnings), func(s string) bool { return !strings.HasPrefix(s, "impact") })
}

// TestWritesWarnOfTheirImpact: a write, a dry run and a deletion are answered with what they change
// for hosts; a write that is refused, or changes nothing for them, is not.
func TestWritesWarnOfTheirImpact(t *testing.T) {
	const merge = "application/merge-patch+json"
	a := startPredicting(t)
	invalid := selecting("c", motd("2"))
	invalid.Spec.Type = "none"
	old := selecting("c", motd("2"))
	old.ResourceVersion = "1"
	for _, step := range []struct {
		name, method, path string
		body               any
		code               int
		want               string // "": no warning
	}{
		{"a dry run", "PUT", configs + "/c?dryRun=All", selecting("c", motd("2")), 200,
			"other contents of the config (g10/x)"},
		{"another dry run", "PUT", configs + "/c?dryRun=All", config("c", motd("1")), 200, "no config any more (g10/x)"},
		{"a dry run of a deletion", "DELETE", configs + "/c?dryRun=All", nil, 200, "no config any more (g10/x)"},
		{"an invalid write", "PUT", configs + "/c", invalid, 422, ""},
		{"a write of an old version", "PUT", configs + "/c", old, 409, ""},
		{"a source that does not compile", "PUT", configs + "/c?dryRun=All", selecting("c", badSource), 200,
			"stale: an earlier version of the config is served, since the newest cannot be (g10/x)"},
		{"a label that selects nothing", "PATCH", configs + "/c", `{"metadata":{"labels":{"a":"b"}}}`, 200, ""},
		{"a status", "PATCH", hosts + "/x/status", `{"status":{"state":"Provisioned"}}`, 200, ""},
		{"other contents", "PUT", configs + "/c", selecting("c", motd("2")), 200, "other contents of the config (g10/x)"},
		{"the same again", "PUT", configs + "/c", selecting("c", motd("2")), 200, ""},
		{"another config", "POST", configs, func() any {
			c := config("mac", goodSource)
			c.Spec.Selector.MatchMACs = []string{"ac:1f:6b:8a:a7:9c"}
			return c
		}(), 201, "another config (g10/x)"},
		{"a host that is not there", "DELETE", hosts + "/y", nil, 404, ""},
		{"a deletion", "DELETE", configs + "/mac", nil, 200, "another config (g10/x)"},
	} {
		t.Run(step.name, func(t *testing.T) {
			contentType := "application/json"
			if step.method == "PATCH" {
				contentType = merge
			}
			got := impactsIn(a.must(step.code, step.method, step.path, step.body, "Content-Type", contentType))
			if step.want == "" && len(got) > 0 || step.want != "" && !slices.Equal(got, []string{
				"impact on 1 of 1 hosts: " + step.want}) {
				t.Errorf("%q, want %q", got, step.want)
			}
		})
	}
}

// TestObjectsWithFinalizersAreDeletedLater: the update that removes the last finalizer deletes the
// object, and is answered with what that changes.
func TestObjectsWithFinalizersAreDeletedLater(t *testing.T) {
	const merge = "application/merge-patch+json"
	a := startPredicting(t)
	a.must(http.StatusOK, "PATCH", configs+"/c", `{"metadata":{"finalizers":["example.org/wait"]}}`,
		"Content-Type", merge)
	if got := impactsIn(a.must(http.StatusOK, "DELETE", configs+"/c", nil)); len(got) > 0 {
		t.Errorf("the deletion: %q", got)
	}
	got := impactsIn(a.must(http.StatusOK, "PATCH", configs+"/c", `{"metadata":{"finalizers":null}}`,
		"Content-Type", merge))
	if !slices.Equal(got, []string{"impact on 1 of 1 hosts: no config any more (g10/x)"}) {
		t.Errorf("the last finalizer: %q", got)
	}
}

// TestDefaultsOfUnknownMachines: a default config is for machines that are no hosts, too.
func TestDefaultsOfUnknownMachines(t *testing.T) {
	a := startPredicting(t)
	c := config("all", goodSource)
	c.Spec.Selector.Default = true
	for _, step := range []struct {
		method, path string
		body         any
		code         int
		want         []string
	}{
		{"POST", configs, c, 201, []string{}},
		{"DELETE", configs + "/all", nil, 200, []string{"impact on machines that are no known hosts: no config any more"}},
	} {
		got := impactsIn(a.must(step.code, step.method, step.path, step.body))
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %q", step.method, got)
		}
	}
}

// wipingSource wipes the disk of addDisk.
const wipingSource = goodSource +
	"storage: {filesystems: [{device: /dev/sdb, format: xfs, wipe_filesystem: true}]}\n"

// addDisk gives the host x a disk with data.
func (a *api) addDisk(t *testing.T) {
	t.Helper()
	a.must(http.StatusOK, "PATCH", hosts+"/x/status", `{"status":{"hardware":{"storage":[{"name":"/dev/sdb",
		"sizeBytes":1073741824,"partitionTable":"none","content":{"type":"ext4","label":"data"}}]}}}`,
		"Content-Type", "application/merge-patch+json")
	testkit.Until(t, "it comes to pass", func() bool {
		h := a.server.opts.Inventory.View().Host(model.Ref{Namespace: "g10", Name: "x"})
		return h != nil && h.Hardware != 0
	})
}

// TestWritesWarnOfLostData: a host whose disks are known would lose data.
func TestWritesWarnOfLostData(t *testing.T) {
	a := startPredicting(t)
	a.addDisk(t)
	got := impactsIn(a.must(http.StatusOK, "PUT", configs+"/c", selecting("c", wipingSource)))
	const want = "impact on 1 of 1 hosts whose disks are known: Ignition would destroy data (g10/x: ext4 "
	if len(got) != 2 || !strings.HasPrefix(got[1], want) {
		t.Errorf("%q", got)
	}
}

// startWithSecrets starts an API that predicts with the values of Secrets.
func startWithSecrets(t *testing.T) (a *api, inv *snapshot.Inventory, inSecrets *secrets.Secrets) {
	t.Helper()
	inSecrets = secrets.New(nil)
	a = start(t, func(opts *Options) {
		inv, opts.Secrets = opts.Inventory, inSecrets
		opts.Decider = decide.New(decide.Options{Inventory: inv})
	})
	return a, inv, inSecrets
}

// TestSecretsAreAPartOfTheChangeSet: a template and an image with a login depend on Secrets. A changed value
// is other contents, a missing one is not served, and no answer has a value.
func TestSecretsAreAPartOfTheChangeSet(t *testing.T) {
	a, inv, inSecrets := startWithSecrets(t)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	joining := selecting("joining", goodSource+
		"storage: {files: [{path: /etc/join, contents: {inline: '{{ secret \"join\" \"token\" }}'}}]}\n")
	joining.Spec.Template = true
	unserved := "impact on 1 of 1 hosts: the config is not served (g10/x)"
	if got := impactsIn(a.must(http.StatusCreated, "POST", configs, joining)); !slices.Equal(got, []string{unserved}) {
		t.Errorf("a template without its Secret: %q", got)
	}
	testkit.Until(t, "it comes to pass", func() bool { return inv.View().Config(model.Ref{Namespace: "g10", Name: "joining"}) != nil })
	write := func(value string) {
		inSecrets.Observer().Put(kvstore.Item{Key: "g10/join", Value: []byte(`{"data":{"token":"` + value + `"}}`)})
	}
	of := func(value string) *v1.Secret { return secret("join", "", map[string]string{"token": value}) }
	join := secretsPath + "/join"
	for _, step := range []struct {
		name, method, path string
		body               any
		code               int
		want               []string
	}{
		{"another Secret", "POST", secretsPath, secret("other", "", map[string]string{"token": "x"}), 201, []string{}},
		{"the Secret", "POST", secretsPath, of("planted-1"), 201, []string{}},
		{"the same again", "PUT", join, of("planted-1"), 200, []string{}},
		{"another value", "PUT", join, of("planted-2"), 200,
			[]string{"impact on 1 of 1 hosts: other contents of the config (g10/x)"}},
		{"a dry run of the removal of the key", "PUT", join + "?dryRun=All",
			secret("join", "", map[string]string{"other": "x"}), 200, []string{unserved}},
		{"a dry run of a deletion", "DELETE", join + "?dryRun=All", nil, 200, []string{unserved}},
	} {
		got := a.must(step.code, step.method, step.path, step.body)
		if s, ok := step.body.(*v1.Secret); ok && s.Name == "join" && !strings.Contains(step.path, "dryRun") {
			write(base64.StdEncoding.EncodeToString([]byte(s.StringData["token"])))
		}
		if !slices.Equal(impactsIn(got), step.want) {
			t.Errorf("%s: %q, want %q", step.name, impactsIn(got), step.want)
		}
	}
	changed := of("planted-3")
	changed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	changed.Namespace = "g10"
	text, _ := json.Marshal(changed)
	answer := a.must(http.StatusOK, "POST", impactPath+"?show=true", `{"apply":[`+string(text)+`]}`)
	report := &impact.Report{}
	if err := json.Unmarshal(answer.body, report); err != nil {
		t.Fatal(err)
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("planted-3")))
	if report.Counts[impact.ContentChanged] != 1 || !report.Groups[0].Answers[0].After.Configs[0].SecretsChanged ||
		strings.Contains(string(answer.body), "planted") || strings.Contains(string(answer.body), hash) {
		t.Errorf("%s", answer.body)
	}
}

// TestAnotherKeyOfTheSameValueChangesNothing: the bytes that a machine receives count, and not which key
// of a Secret they are from.
func TestAnotherKeyOfTheSameValueChangesNothing(t *testing.T) {
	a, inv, inSecrets := startWithSecrets(t)
	// 1 and 2 have one value.
	inSecrets.Observer().Put(kvstore.Item{Key: "g10/join", Value: []byte(`{"data":{"1":"eA==","2":"eA==","3":"eQ=="}}`)})
	x := host("x")
	x.Spec.Labels = map[string]string{"rack": "1"}
	a.must(http.StatusCreated, "POST", hosts, x)
	joining := selecting("joining", goodSource+
		"storage: {files: [{path: /etc/join, contents: {inline: '{{ secret \"join\" .Labels.rack }}'}}]}\n")
	joining.Spec.Template = true
	a.must(http.StatusCreated, "POST", configs, joining)
	testkit.Until(t, "it comes to pass", func() bool { return inv.View().Config(model.Ref{Namespace: "g10", Name: "joining"}) != nil })
	for rack, want := range map[string][]string{
		"2": {}, "3": {"impact on 1 of 1 hosts: other contents of the config (g10/x)"},
	} {
		x.Spec.Labels["rack"] = rack
		if got := impactsIn(a.must(http.StatusOK, "PUT", hosts+"/x?dryRun=All", x)); !slices.Equal(got, want) {
			t.Errorf("rack %s: %q, want %q", rack, got, want)
		}
	}
}

// TestLoginsOfImagesWarn: without the Secret of its image, a host boots nothing.
func TestLoginsOfImagesWarn(t *testing.T) {
	a, inv, inSecrets := startWithSecrets(t)
	inSecrets.Observer().Put(kvstore.Item{Key: "g10/chap",
		Value: []byte(`{"data":{"username":"cmFjaw==","password":"bG9uZy1lbm91Z2gtMQ=="}}`)})
	login := secret("chap", "", map[string]string{"username": "rack", "password": "long-enough-1"})
	a.must(http.StatusCreated, "POST", secretsPath, login)
	image := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: "i"}}
	image.Spec.External = &v1.ExternalTarget{Portal: "192.0.2.1", IQN: "iqn.2026-01.example:one"}
	image.Spec.CHAP = &v1.CHAP{SecretName: "chap"}
	image.Namespace, image.Status.Phase = "g10", v1.PhaseReady
	value, _ := json.Marshal(image)
	inv.Images().Put(kvstore.Item{Key: "g10/i", Revision: 1, Value: value})
	x := host("x")
	x.Spec.Image = "g10/i"
	if got := impactsIn(a.must(http.StatusCreated, "POST", hosts, x)); len(got) > 0 {
		t.Errorf("the host: %q", got)
	}
	login.StringData["password"] = "long-enough-2"
	for _, step := range []struct {
		method string
		body   any
		want   string
	}{
		{"PUT", login, "impact on 1 of 1 hosts: another boot (g10/x)"},
		{"DELETE", nil, "impact on 1 of 1 hosts: the image cannot be booted (g10/x)"},
	} {
		got := impactsIn(a.must(http.StatusOK, step.method, secretsPath+"/chap?dryRun=All", step.body))
		if !slices.Equal(got, []string{step.want}) {
			t.Errorf("%s: %q, want %q", step.method, got, step.want)
		}
	}
}

// TestManyWritesAreNotDelayed: the predictions of many writes take a part of the time, and the
// answers say where one was left out.
func TestManyWritesAreNotDelayed(t *testing.T) {
	a := startPredicting(t)
	spend(a.server.impacts.meters.get(""), time.Now(), 2*maxBalance)
	if got := a.must(http.StatusOK, "PUT", configs+"/c", selecting("c", motd("2"))).warnings; !slices.Equal(got,
		[]string{manyWrites}) {
		t.Errorf("%q", got)
	}
	a.server.impacts.meters = newMeters()
	var ends []func()
	for range maxPredictions { // others run
		ends = append(ends, a.server.impacts.begin(t.Context()))
	}
	if got := a.must(http.StatusOK, "PUT", configs+"/c", selecting("c", motd("3"))).warnings; !slices.Equal(got,
		[]string{otherAtWork}) {
		t.Errorf("%q", got)
	}
	if got := a.must(http.StatusCreated, "POST", hosts, host("y")).warnings; slices.Contains(got, otherAtWork) {
		t.Errorf("a host waits for no prediction: %q", got)
	}
	for _, end := range ends {
		end()
	}
	meters, now := newMeters(), time.Now()
	m := meters.get("")
	spend(m, now, 3*time.Second)
	for after, want := range map[time.Duration]bool{1: false, 9: false, 11: true, 30: true} {
		if got := m.TokensAt(now.Add(after*time.Second)) > 0; got != want {
			t.Errorf("after %d s there is time for a prediction: %t", after, got)
		}
	}
	if got := m.TokensAt(now.Add(time.Hour)); got != float64(maxBalance/time.Microsecond) {
		t.Errorf("after an hour there are %v microseconds", got)
	}
}

// TestImpactOfAChangeSet predicts the impact of several objects together, and stores nothing.
func TestImpactOfAChangeSet(t *testing.T) {
	a := startPredicting(t)
	ask := func(body string) *impact.Report {
		t.Helper()
		report := &impact.Report{}
		if err := json.Unmarshal(a.must(http.StatusOK, "POST", impactPath+"?show=true", body).body, report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	text := func(o any) string {
		raw, _ := json.Marshal(o)
		return string(raw)
	}
	layered := selecting("c", motd("2"))
	layered.Namespace, layered.Spec.Layers = "g10", []v1.LayerReference{{Name: "base"}}
	base := config("base", goodSource+"storage: {files: [{path: /etc/base}]}\n")
	base.Namespace = "g10"
	report := ask(`{"apply":[` + text(layered) + `,` + text(base) + `]}`)
	if report.Hosts != 1 || report.Changed != 1 || len(report.Groups) != 1 || len(report.Objects) != 2 {
		t.Fatalf("%+v", report.Impact)
	}
	if got := fmt.Sprint(report.Objects); got != "[{IgnitionConfig g10 c configured} {IgnitionConfig g10 base created}]" {
		t.Error(got)
	}
	report = ask(`{"delete":[{"kind":"IgnitionConfig","metadata":{"namespace":"g10","name":"c"}},` +
		`{"kind":"BareMetalHost","metadata":{"namespace":"g10","name":"x"}}]}`)
	if report.Hosts != 1 || report.Counts[impact.HostDeleted] != 1 || report.IsWorse() {
		t.Errorf("%+v", report.Impact)
	}
	report = ask(`{"delete":[{"kind":"Namespace","metadata":{"name":"g10"}}]}`)
	if report.Counts[impact.HostDeleted] != 1 {
		t.Errorf("the namespace of the host: %+v", report.Impact)
	}
	a.must(http.StatusNotFound, "GET", configs+"/base", nil)
	if got := a.stored("c"); got.Generation != 1 {
		t.Errorf("the config has generation %d", got.Generation)
	}
}

// TestImpactOfAFieldManager: an apply removes what the same manager set before, so the manager is a part of
// the question.
func TestImpactOfAFieldManager(t *testing.T) {
	a := startPredicting(t)
	object := func(selector string) string {
		return `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"mac","namespace":"g10"},"spec":{` +
			`"type":"ignition","format":"ignition","config":"{\"ignition\":{\"version\":\"3.4.0\"}}"` + selector + `}}`
	}
	a.must(http.StatusCreated, "PATCH", configs+"/mac?fieldManager=mine",
		object(`,"selector":{"matchMACs":["ac:1f:6b:8a:a7:9c"]}`), "Content-Type", "application/apply-patch+yaml")
	for query, want := range map[string]int{"?fieldManager=mine": 1, "": 0, "?fieldManager=other": 0} {
		got := a.must(http.StatusOK, "POST", impactPath+query, `{"apply":[`+object("")+`]}`)
		report := &impact.Report{}
		if err := json.Unmarshal(got.body, report); err != nil {
			t.Fatal(err)
		}
		if report.Counts[impact.ConfigChanged] != want {
			t.Errorf("%q: %v, want %d hosts with another config", query, report.Counts, want)
		}
	}
}

// TestImpactOfAReplacement: what an object lacks is removed, whoever set it.
func TestImpactOfAReplacement(t *testing.T) {
	a := startPredicting(t)
	const lacking = `{"apply":[{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"c","namespace":"g10"},"spec":{` +
		`"type":"ignition","format":"ignition","config":"{\"ignition\":{\"version\":\"3.4.0\"}}"}}]}`
	for query, want := range map[string]int{"?replace=true": 1, "?replace=true&fieldManager=other": 1, "": 0} {
		report := &impact.Report{}
		if err := json.Unmarshal(a.must(http.StatusOK, "POST", impactPath+query, lacking).body, report); err != nil {
			t.Fatal(err)
		}
		if report.Counts[impact.Unmatched] != want {
			t.Errorf("%q: %v, want %d hosts without a config", query, report.Counts, want)
		}
	}
	if got := a.stored("c"); got.Generation != 1 {
		t.Errorf("the config has generation %d", got.Generation)
	}
	missing := strings.ReplaceAll(lacking, `"name":"c"`, `"name":"none"`)
	if got := a.do("POST", impactPath+"?replace=true", missing); got.code != http.StatusNotFound {
		t.Errorf("what is not there is replaced: %d %s", got.code, got.body)
	}
}

func TestImpactOfBadInput(t *testing.T) {
	a := startPredicting(t)
	many := strings.Repeat(`{"kind":"IgnitionConfig","metadata":{"name":"c"}},`, maxChanges)
	for body, want := range map[string]string{
		``:                           "the body is not",
		`[]`:                         "the body is not",
		`{"apply":{}}`:               "the body is not",
		`{}`:                         "the change set has no object",
		`{"apply":[` + many + `{}]}`: "must have at most 1000 items",
		`{"apply":[7]}`:              "apply[0]: it is no object",
		`{"apply":[{}]}`:             `apply[0]: the server has no kind ""`,
		`{"apply":[{"kind":"Pod","metadata":{"name":"x"}}]}`:               `apply[0]: the server has no kind "Pod"`,
		`{"apply":[{"kind":"IgnitionConfig"}]}`:                            "apply[0]: ",
		`{"apply":[{"kind":"BareMetalHost","metadata":{"name":"/"}}]}`:     "apply[0]: ",
		`{"delete":[{"kind":"BareMetalHost","metadata":{"name":"none"}}]}`: "delete[0]: BareMetalHost none: ",
		`{"apply":[{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ip":"none"}}]}`: "apply[0]: " +
			"BareMetalHost y: ",
		`{"apply":[{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ipp":"x"}}]}`: "ipp",
		`{"apply":[{"apiVersion":"v1","kind":"UnknownMachine","metadata":{"name":"y"}}]}`:                   "apply[0]: ",
	} {
		got := a.do("POST", impactPath, body)
		var status metav1.Status
		if err := json.Unmarshal(got.body, &status); err != nil || got.code < 400 || got.code >= 500 ||
			!strings.Contains(status.Message, want) {
			t.Errorf("%.80s: %d %.300s, want %q", body, got.code, got.body, want)
		}
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		a.must(http.StatusMethodNotAllowed, method, impactPath, nil)
	}
}

// TestAConfigThatStopsIsToldBeforeItIsWritten: the impact of a config alone, of which Ignition stops on the live image
// of a host, warns as its write does, and so has that of the host together with the config, once.
func TestAConfigThatStopsIsToldBeforeItIsWritten(t *testing.T) {
	var inv *snapshot.Inventory
	a := start(t, func(opts *Options) {
		inv = opts.Inventory
		opts.Decider = decide.New(decide.Options{Inventory: inv})
		told := func(skews ...*explain.Skew) (sentences []string) {
			for _, skew := range skews {
				if skew != nil {
					sentences = append(sentences, skew.String())
				}
			}
			return sentences
		}
		opts.HostWarnings = func(view model.View, h, _ *v1.BareMetalHost) []string {
			return told(explain.SkewOf(opts.Decider.On(view, nil), model.HostFrom(h)))
		}
		opts.ConfigWarnings = func(view model.View, c *v1.IgnitionConfig) []string {
			return told(explain.Skews(opts.Decider.On(view, nil), explain.Changed{Config: model.ConfigFrom(c)}, 9)...)
		}
	})
	live := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: "live"}, Status: v1.ISCSICdromStatus{
		Phase: v1.PhaseReady, Distro: "coreos", KernelArgsApplied: []string{"ignition.config.url=http://192.0.2.1/api/v1/ignition"},
	}}
	value, _ := json.Marshal(live)
	inv.Images().Put(kvstore.Item{Key: "g10/live", Revision: 1, Value: value})
	x := host("x")
	x.TypeMeta, x.Namespace, x.Spec.Image = metav1.TypeMeta{APIVersion: "v1", Kind: "BareMetalHost"}, "g10", "live"
	c := selecting("c", goodSource+"kernel_arguments: {should_exist: [quiet]}\n")
	c.TypeMeta, c.Namespace = metav1.TypeMeta{APIVersion: "v1", Kind: "IgnitionConfig"}, "g10"
	diff := func(objects ...any) []string {
		text, _ := json.Marshal(map[string]any{"apply": objects})
		return a.must(http.StatusOK, "POST", impactPath, string(text)).warnings
	}
	stops := func(got []string) bool {
		return len(got) == 1 && strings.Contains(got[0], "Ignition stops in the emergency shell")
	}
	if got := diff(x, c); !stops(got) {
		t.Errorf("the host and the config: %q", got)
	}
	a.must(http.StatusCreated, "POST", hosts, x)
	if got := diff(c); !stops(got) {
		t.Errorf("the config alone: %q", got)
	}
}

// TestAPendingImageIsNoWarning: a host whose image is not ready yet is no warning, in the answer to a write and in a
// change set; an image that is missing is one.
func TestAPendingImageIsNoWarning(t *testing.T) {
	var inv *snapshot.Inventory
	a := start(t, func(opts *Options) {
		inv = opts.Inventory
		opts.Decider = decide.New(decide.Options{Inventory: inv})
		opts.HostWarnings = func(view model.View, h, _ *v1.BareMetalHost) (sentences []string) {
			for _, advice := range explain.AdviseImage(opts.Decider, view, model.HostFrom(h), "does not exist") {
				sentences = append(sentences, advice.String())
			}
			return sentences
		}
	})
	booting := func(name, image string) *v1.BareMetalHost {
		h := host(name)
		h.Spec.Image, h.Namespace = image, "g10"
		h.Spec.IP, h.Spec.SystemUUID = "", ""
		h.Spec.BootMACAddress = fmt.Sprintf("52:54:00:00:70:%02x", name[0])
		return h
	}
	cdrom := func(name string) *v1.ISCSICdrom {
		return &v1.ISCSICdrom{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ISCSICdrom"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: name}}
	}
	diff := func(objects ...any) (answer, *impact.Report) {
		t.Helper()
		body, report := map[string]any{"apply": objects}, &impact.Report{}
		text, _ := json.Marshal(body)
		got := a.must(http.StatusOK, "POST", impactPath, string(text))
		if err := json.Unmarshal(got.body, report); err != nil {
			t.Fatal(err)
		}
		return got, report
	}
	for _, set := range [][]any{{booting("x", "live"), cdrom("live")}, {cdrom("live"), booting("x", "live")}} {
		if got, report := diff(set...); len(got.warnings) > 0 || report.IsWorse() {
			t.Errorf("a host and its image: %q, %+v", got.warnings, report.Impact)
		}
	}
	if got, report := diff(booting("x", "gone")); len(got.warnings) != 1 || report.Counts[impact.Unbootable] != 1 {
		t.Errorf("a host without its image: %q, %+v", got.warnings, report.Impact)
	}
	if got := a.must(http.StatusCreated, "POST", cdroms, cdrom("live")); len(got.warnings) > 0 {
		t.Errorf("an image: %q", got.warnings)
	}
	testkit.Until(t, "it comes to pass", func() bool { return inv.View().Image(model.Ref{Namespace: "g10", Name: "live"}) != nil })
	if got := a.must(http.StatusCreated, "POST", hosts, booting("x", "live")); len(got.warnings) > 0 {
		t.Errorf("a host whose image is pending: %q", got.warnings)
	}
	if _, report := diff(booting("y", "live")); report.IsWorse() ||
		report.Groups[0].Answers[0].After.Boot.String() != "boots image g10/live, once it is ready" {
		t.Errorf("%+v", report.Groups)
	}
	if got := a.must(http.StatusCreated, "POST", hosts, booting("z", "gone")); len(got.warnings) != 2 {
		t.Errorf("a host whose image is missing: %q", got.warnings)
	}
}
