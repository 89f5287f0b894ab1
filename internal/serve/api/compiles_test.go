package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
	controller "glowplug/internal/controller/config"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/domain/report"
	"glowplug/internal/testkit"
)

// Check implements ConfigStatus.
func (c *compiledAtOnce) Check(ctx context.Context, config *v1.IgnitionConfig) (report.Report, error) {
	_, found := compile.Compile(compile.SourceOf(config))
	_, err := c.Admit(ctx, config, nil, true)
	if config.Status.Phase == v1.PhaseError {
		err = nil
	}
	return found, err
}

// startCompiling returns an API with the controller of configs, and a config base.
func startCompiling(t *testing.T) *api {
	t.Helper()
	stores := newStores(t)
	of := stores[kinds.IgnitionConfigs].(followed)
	compiler := controller.New(controller.Options{
		Store: of.Interface.(controller.Store), Snapshot: of.inv, AdmissionLimit: time.Minute,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { compiler.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	a := startOn(t, stores, Listener{Admin: true, Admitted: true}, func(opts *Options) { opts.ConfigStatus = compiler })
	a.must(http.StatusCreated, "POST", configs, over("base", "base"))
	testkit.Until(t, "the snapshot has the layer", func() bool {
		return of.inv.View().Config(model.Ref{Namespace: "g10", Name: "base"}) != nil
	})
	return a
}

// compiled asks for what a config compiles to.
func (a *api) compiled(body any, header ...string) *compile.Verdict {
	a.t.Helper()
	verdict := &compile.Verdict{}
	if err := json.Unmarshal(a.must(http.StatusOK, "POST", compilePath, body, header...).body, verdict); err != nil {
		a.t.Fatal(err)
	}
	return verdict
}

// inG10 returns a config in the namespace g10.
func inG10(c *v1.IgnitionConfig) *v1.IgnitionConfig {
	c.Namespace = "g10"
	return c
}

// TestCompileSaysWhatACreateSays: a config that is only compiled has the findings, the phase and the result that its
// creation has, and is not stored.
func TestCompileSaysWhatACreateSays(t *testing.T) {
	a := startCompiling(t)
	template := over("template", "x")
	template.Spec.Template = true
	broken := over("broken-template", "{{ if }}")
	broken.Spec.Template = true
	kickstart := config("kickstart", "network --bootproto=x\nfoo\n")
	kickstart.Spec.Type, kickstart.Spec.Format = v1.TypeKickstart, v1.FormatKickstart
	for _, c := range []*v1.IgnitionConfig{
		over("good", "x"), over("layered", "x", "base"), over("missing", "x", "none", "base"),
		config("one", badSource), config("two", badSource+"systemd:\n  units: [{name: a.service, enabeld: true}]\n"),
		config("warned", goodSource+"systemd: {units: [{name: a.service, enabled: true}]}\n"),
		config("quotes", "variant: fcos\nversion: 1.5.0\nstorage: {files: [{path: '{{.Hostname}}'}]}\n"),
		config("comment", "# nothing\n"), ignitionConfig("old", `{"ignition":{"version":"2.4.0","config":{"append":[{"source":"http://x"}]}}}`),
		template, broken, kickstart,
	} {
		t.Run(c.Name, func(t *testing.T) {
			elsewhere := c.DeepCopy()
			elsewhere.Namespace = "elsewhere"
			a.compiled(elsewhere)
			verdict := a.compiled(inG10(c))
			if a.do("GET", configs+"/"+c.Name, nil).code != http.StatusNotFound {
				t.Error("it is stored")
			}
			if a.do("GET", "/api/v1/namespaces/elsewhere", nil).code != http.StatusNotFound {
				t.Error("its namespace is stored")
			}
			created := a.do("POST", configs, c)
			if created.code == http.StatusUnprocessableEntity {
				t.Fatalf("%s", created.body)
			}
			var want v1.IgnitionConfig
			if err := json.Unmarshal(created.body, &want); err != nil {
				t.Fatal(err)
			}
			status := &want.Status
			if verdict.Phase != status.Phase || verdict.Hash != status.ConfigHash || verdict.Size != status.CompiledSize ||
				verdict.IgnitionVersion != status.IgnitionVersion {
				t.Errorf("%+v\nwant %+v", verdict, status)
			}
			if got := verdict.Findings.Warnings().Strings(); !slices.Equal(got, status.Warnings) {
				t.Errorf("warnings %q, want %q", got, status.Warnings)
			}
			if got := verdict.Findings.Summary(); got != status.ErrorMessage {
				t.Errorf("errors %q, want %q", got, status.ErrorMessage)
			}
			for _, f := range verdict.Findings { // a sentence of a header is one of the answer
				text := "spec.config: " + f.WithHint()
				if f.Path == "spec.layers" {
					text = f.WithHint()
				}
				if len(verdict.Findings.Errors()) < 2 && !slices.Contains(created.warnings, strings.ReplaceAll(text, `"`, `\"`)) {
					t.Errorf("%q is none of %q", text, created.warnings)
				}
			}
		})
	}
}

// TestCompileHasThePlaceOfEachFinding: each finding, also beyond those of the Warning headers, has line and column.
func TestCompileHasThePlaceOfEachFinding(t *testing.T) {
	a := startCompiling(t)
	source := "variant: fcos\nversion: 1.5.0\nsystemd:\n  units:\n"
	const n = maxWarnings * 3
	for i := range n {
		source += fmt.Sprintf("    - {name: u%d.service, enabeld: true}\n", i)
	}
	verdict := a.compiled(inG10(config("x", source)))
	if verdict.Phase != v1.PhaseError || len(verdict.Findings) != n || verdict.Hash != "" || verdict.Size != 0 {
		t.Fatalf("%+v", verdict)
	}
	f := verdict.Findings[n-1]
	if f.Severity != report.Error || f.Line != 4+n || f.Column != 27 || f.Path != "$.systemd.units.29.enabeld" ||
		!strings.HasPrefix(f.Message, "unused key enabeld") {
		t.Errorf("%+v", f)
	}
	raw := a.must(http.StatusOK, "POST", compilePath, inG10(config("", goodSource))).body
	if !strings.Contains(string(raw), `"findings": []`) || !strings.Contains(string(raw), `"phase": "Ready"`) {
		t.Errorf("%s", raw)
	}
	many := make(report.Report, maxFindings+5)
	many[maxFindings+4].Severity = report.Error
	bounded := boundFindings(many)
	if last := bounded[maxFindings]; len(bounded) != maxFindings+1 || last.Message != "and 5 more findings" ||
		last.Severity != report.Error {
		t.Errorf("%d, %+v", len(bounded), last)
	}
}

// TestCompileRefusesWhatACreateRefuses: with the field path, and for users without the verb create.
func TestCompileRefusesWhatACreateRefuses(t *testing.T) {
	a := startCompiling(t)
	a.bindIn(rbac.View, "vic")
	a.bindIn(rbac.Edit, "ann")
	for body, want := range map[string]string{
		`{"metadata":{"namespace":"g10"},"spec":{"type":"none","format":"butane"}}`:                         "spec.type",
		`{"metadata":{"namespace":"g10"},"spec":{"type":"ignition","format":"butane","layers":[{}]}}`:       "spec.layers[0].name",
		`{"metadata":{"namespace":"G"},"spec":{"type":"ignition","format":"butane"}}`:                       "metadata.name",
		`{"metadata":{"name":"a_b"},"spec":{"type":"ignition","format":"butane","config":"x"}}`:             "metadata.name",
		`{"metadata":{"name":"a"},"spec":{"type":"ignition","format":"butane","config":"\u003credacted>"}}`: "spec.config",
	} {
		if got := a.must(http.StatusUnprocessableEntity, "POST", compilePath, body).fields(t); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %s", body, got, want)
		}
	}
	for _, body := range []string{
		`{`, `[]`, `{} {}`, `{"spec":{"config":5}}`, `{"spec":{"konfig":""}}`, `{"kind":"Secret","apiVersion":"v1"}`,
		`{"kind":"IgnitionConfig","apiVersion":"v2"}`,
	} {
		a.must(http.StatusBadRequest, "POST", compilePath, body)
	}
	a.must(http.StatusRequestEntityTooLarge, "POST", compilePath, strings.Repeat(" ", MaxBodyBytes+1))
	a.must(http.StatusMethodNotAllowed, "GET", compilePath, nil)
	elsewhere := config("x", badSource)
	elsewhere.Namespace = "g11"
	for _, c := range []struct {
		who, namespace string
		body           *v1.IgnitionConfig
		code           int
	}{
		{"ann", "g10", inG10(config("x", badSource)), 200}, {"ann", "g11", elsewhere, 403}, {"ann", "default", config("x", ""), 403},
		{"vic", "g10", inG10(config("x", badSource)), 403}, {"eve", "g10", inG10(config("x", badSource)), 403},
	} {
		got := a.must(c.code, "POST", compilePath, c.body, as(c.who)...)
		if c.code == 200 {
			continue
		}
		created := a.must(c.code, "POST", strings.Replace(configs, "g10", c.namespace, 1), c.body, as(c.who)...)
		if got.status(t).Message != created.status(t).Message {
			t.Errorf("%s: %s, and a create says %s", c.who, got.body, created.body)
		}
	}
}

// TestCompileHidesConfidentialLayers: neither the finding of a merge nor the error of a confidential layer quotes it.
func TestCompileHidesConfidentialLayers(t *testing.T) {
	a := startCompiling(t)
	a.bindIn(rbac.Edit, "ann")
	secret := config("secret", goodSource+"storage: {links: [{path: /"+hidden+", target: /a}]}\n")
	secret.Spec.Confidential = true
	a.must(http.StatusCreated, "POST", configs, secret)
	testkit.Until(t, "the snapshot has the layer", func() bool {
		return a.server.opts.Inventory.View().Config(model.Ref{Namespace: "g10", Name: "secret"}) != nil
	})
	guess := over("x", "x", "secret")
	guess.Spec.Config = goodSource + "storage: {files: [{path: /" + hidden + "/b}]}\n"
	verdict := a.compiled(inG10(guess), as("ann")...)
	if text := fmt.Sprint(verdict); strings.Contains(text, hidden) || !strings.Contains(text, "the reason is confidential") {
		t.Error(text)
	}
}

// TestCompileFollowsConfidential: a user who may not read sources gets the findings of a confidential config no more
// than by its creation.
func TestCompileFollowsConfidential(t *testing.T) {
	a := startConfidential(t)
	c := inG10(config("x", badSource))
	c.Spec.Confidential = true
	for who, want := range map[string]string{"ann": "line 3:1: $.storrage: ", "eve": v1.ConfidentialFindings} {
		if got := a.compiled(c, as(who)...).Findings.Strings(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", who, got)
		}
	}
}

// slowCompiler is a ConfigStatus whose check waits for a sign.
type slowCompiler struct {
	*compiledAtOnce
	begun, release chan string
}

func (s *slowCompiler) Check(ctx context.Context, config *v1.IgnitionConfig) (report.Report, error) {
	s.begun <- config.Name
	<-s.release
	return s.compiledAtOnce.Check(ctx, config)
}

// TestTheNewestCompilationOfAUserWins: a newer request of a user ends the wait of his earlier ones at once, and is
// compiled after the one that is at work, alone; another user does not wait.
func TestTheNewestCompilationOfAUserWins(t *testing.T) {
	slow := &slowCompiler{&compiledAtOnce{}, make(chan string, 10), make(chan string)}
	a := start(t, func(opts *Options) { opts.ConfigStatus = slow })
	a.bindIn(rbac.Edit, "ann")
	a.bindIn(rbac.Edit, "bob")
	answers := map[string]chan answer{}
	send := func(name, who string) {
		answers[name] = make(chan answer, 1)
		go func() { answers[name] <- a.do("POST", compilePath, inG10(config(name, goodSource)), as(who)...) }()
	}
	send("first", "ann")
	if got := <-slow.begun; got != "first" {
		t.Fatal(got)
	}
	send("second", "ann")
	refused := <-answers["first"]
	if refused.code != http.StatusConflict || !strings.HasPrefix(refused.status(t).Message, "a newer request of yours") {
		t.Errorf("%d %s", refused.code, refused.body)
	}
	send("third", "ann")
	if got := (<-answers["second"]).code; got != http.StatusConflict {
		t.Errorf("the second: %d", got)
	}
	send("bob", "bob")
	if got := <-slow.begun; got != "bob" {
		t.Errorf("%s begins beside the one that is at work", got)
	}
	slow.release <- ""
	slow.release <- ""
	if got := <-slow.begun; got != "third" {
		t.Error(got)
	}
	slow.release <- ""
	for _, name := range []string{"bob", "third"} {
		if got := <-answers[name]; got.code != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	testkit.Until(t, "nothing is kept", func() bool {
		a.server.compiles.mu.Lock()
		defer a.server.compiles.mu.Unlock()
		return len(a.server.compiles.newest) == 0 && a.server.compiles.turns.Stats().Used == 0
	})
}

// TestCompilationsEnd: a request that waits too long for its compilation is answered 504, and one that waits too long
// for those of others 429.
func TestCompilationsEnd(t *testing.T) {
	slow := &slowCompiler{&compiledAtOnce{}, make(chan string, 10), make(chan string)}
	a := start(t, func(opts *Options) { opts.ConfigStatus = slow })
	compiles := a.server.compiles
	compiles.turns, compiles.limit = budget.New(1, time.Millisecond), 100*time.Millisecond
	late := a.must(http.StatusGatewayTimeout, "POST", compilePath, inG10(config("x", goodSource))).status(t)
	if !strings.HasPrefix(late.Message, "Timeout: the config is not compiled within 10s") {
		t.Error(late.Message)
	}
	busy := a.must(http.StatusTooManyRequests, "POST", compilePath, inG10(config("x", goodSource))).status(t)
	if !strings.HasPrefix(busy.Message, "other configs are being compiled") {
		t.Error(busy.Message)
	}
	slow.release <- ""
	testkit.Until(t, "the turn is given back", func() bool { return compiles.turns.Stats().Used == 0 })
}
