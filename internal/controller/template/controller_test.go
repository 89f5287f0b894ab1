package template

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/store/kvstore"
)

func TestStatusFollowsTheHosts(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack | quote }}"))
	s.settled("a", "worker", "Ready 0/0/0")
	s.worker("a", 1, "rack", "r1")
	s.worker("a", 2, "rack", "r2")
	config := s.settled("a", "worker", "Ready 2/0/2")
	check(t, "ignitionVersion", config.Status.IgnitionVersion, "3.4.0")
	check(t, "compiledGeneration", config.Status.CompiledGeneration, 1)
	check(t, "errorMessage", config.Status.ErrorMessage, "")
	check(t, "there is no lastCompiled", config.Status.LastCompiled == "", false)
	s.worker("a", 3)
	config = s.settled("a", "worker", "Ready 2/1/3")
	const reason = `line 7:27: .Labels.rack: there is no "rack"`
	check(t, "errorMessage", config.Status.ErrorMessage, "1 of 3 hosts fails: host a/node-3: "+reason)
	check(t, "the failure", config.Status.Hosts.Failures[0], v1.HostFailure{Host: "a/node-3", Message: reason})
	// The others are served.
	checkGiven(t, s.ask("10.0.0.1"), false, "data:,r1")
	checkRefused(t, s.ask("10.0.0.3"), fault.Unavailable,
		"config a/worker, a template, cannot be rendered for host a/node-3: "+reason)
	s.worker("a", 3, "rack", "r3")
	s.settled("a", "worker", "Ready 3/0/3")
	s.worker("a", 2, "role", "other")
	s.settled("a", "worker", "Ready 2/0/2")
	s.send("DELETE", "namespaces/a/baremetalhosts/node-1", "application/json", nil)
	s.settled("a", "worker", "Ready 1/0/1")
	// Another config takes the host away: the decision's own rules say who is counted.
	s.send("POST", "namespaces/a/ignitionconfigs", "application/json", map[string]any{
		"apiVersion": "v1", "kind": "IgnitionConfig", "metadata": map[string]any{"name": "own"},
		"spec": map[string]any{"type": "ignition", "format": "ignition", "config": `{"ignition":{"version":"3.4.0"}}`,
			"selector": map[string]any{"matchIPs": []string{"10.0.0.3"}}},
	})
	s.settled("a", "worker", "Ready 0/0/0")
	s.send("DELETE", "namespaces/a/ignitionconfigs/own", "application/json", nil)
	s.settled("a", "worker", "Ready 1/0/1")
	const first = "worker Normal Rendered, worker Warning RenderFailed, worker Normal Rendered"
	if got := strings.Join(s.events.all, ", "); !strings.HasPrefix(got, first) {
		t.Error(got)
	}
}

// TestHostsThatFailStopNoOther: a template that cannot be rendered for some of its hosts is Ready and names them,
// each of them has a condition, and the others are served.
func TestHostsThatFailStopNoOther(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack | quote }}"))
	s.worker("a", 1, "rack", "r1")
	for n := 2; n <= 7; n++ {
		s.worker("a", n)
	}
	config := s.settled("a", "worker", "Ready 1/6/7")
	check(t, "errorMessage", config.Status.ErrorMessage, `6 of 7 hosts fail: host a/node-2: line 7:27: .Labels.rack: `+
		`there is no "rack"; and a/node-3, a/node-4, a/node-5, a/node-6 and 1 more, see status.hosts.failures`)
	check(t, "it is ready", meta.IsStatusConditionTrue(config.Status.Conditions, v1.ConditionReady), true)
	checkGiven(t, s.ask("10.0.0.1"), false, "data:,r1")
	view := s.inv.View()
	for name, met := range map[string]bool{"node-1": true, "node-2": false, "node-7": false} {
		c := explain.ConfigMatched(s.decider, view, view.Host(Ref{Namespace: "a", Name: name}))
		if c.Met != met || c.Unknown || !met && (c.Reason != explain.ReasonNotRendered ||
			!strings.Contains(c.Message, `cannot be rendered for this host: line 7:27: .Labels.rack: there is no "rack"`)) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for name, want := range map[string]bool{"node-1": false, "node-2": true} {
		_, got := s.rechecked.Load(name)
		check(t, name+" is checked again", got, want)
	}
	for n := 2; n <= 7; n++ {
		s.worker("a", n, "rack", "r2")
	}
	check(t, "errorMessage", s.settled("a", "worker", "Ready 7/0/7").Status.ErrorMessage, "")
}

func TestOneCompilationForAHostAndAChange(t *testing.T) {
	s := start(t, decide.Policy{})
	for n := 1; n <= 10; n++ {
		s.worker("a", n)
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	before := s.settled("a", "worker", "Ready 10/0/10")
	for n := 1; n <= 10; n++ {
		for range 3 {
			checkGiven(t, s.ask(fmt.Sprintf("10.0.0.%d", n)), false, fmt.Sprintf("data:,node-%d", n))
		}
		s.booted("a", n)
	}
	s.reconciled()
	check(t, "renderings after boots", s.compiled.Load(), 10+1)
	check(t, "resourceVersion", s.config("a", "worker").ResourceVersion, before.ResourceVersion)
	s.worker("a", 1, "x", "y")
	s.await("the change of a host", func() bool { return s.compiled.Load() == 11+1 })
	s.reconciled()
	check(t, "renderings after a label", s.compiled.Load(), 11+2)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}", "{{ .IP }}"))
	s.settled("a", "worker", "Ready 10/0/10")
	s.reconciled()
	check(t, "renderings after another template", s.compiled.Load(), 21+3)
	// The selector alone costs no compilation.
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{
			"matchLabels": map[string]string{"role": "worker"}, "matchIPs": []string{"10.0.0.1"},
		}}})
	s.settled("a", "worker", "Ready 10/0/10")
	s.reconciled()
	check(t, "renderings after the selector", s.compiled.Load(), 21+4)
	checkGiven(t, s.ask("10.0.0.3"), false)
}

// reconciled waits until all changes so far are reconciled: it makes another template for
// a host of its own, which is rendered after them.
func (s *site) reconciled() {
	s.t.Helper()
	s.markers++
	name := fmt.Sprintf("marker-%d", s.markers)
	s.worker("a", 100+s.markers, "role", name)
	s.putFor(name, "a", name, v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", name, "Ready 1/0/1")
}

func TestManyWhoAskAtOnceWaitForOneRendering(t *testing.T) {
	s := start(t, decide.Policy{})
	gate := make(chan struct{})
	s.before = func() { <-gate }
	s.worker("a", 1)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if dec := s.ask("10.0.0.1"); dec.Err != nil {
				t.Error(dec.Err)
			}
		})
	}
	// The inventory is not held meanwhile.
	s.worker("a", 2)
	check(t, "phase", s.config("a", "worker").Status.Phase, v1.PhasePending)
	close(gate)
	asking.Wait()
	s.settled("a", "worker", "Ready 2/0/2")
	check(t, "renderings", s.compiled.Load(), 2)
}

func TestLastGoodRendering(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1, "rack", "r1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	good := s.ask("10.0.0.1").Config
	check(t, "stale", good.Stale, false)
	check(t, "ETag", good.ETag, `"`+good.Hash+`"`)
	// A host that loses what the template asks for.
	s.worker("a", 1)
	s.settled("a", "worker", "Error 0/1/1")
	dec := s.ask("10.0.0.1")
	checkGiven(t, dec, true)
	check(t, "hash", dec.Config.Hash, good.Hash)
	s.worker("a", 1, "rack", "r2")
	s.settled("a", "worker", "Ready 1/0/1")
	checkGiven(t, s.ask("10.0.0.1"), false, "r2")
	// What is rendered does not compile: the place is in the rendered text.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, "{{/* one */ -}}\n"+butane("x")+"storrage: {{ .Name }}\n")
	config := s.settled("a", "worker", "Error 0/1/1")
	const place = "1 of 1 hosts fails: host a/node-1: in the rendered text, line 8:1: "
	if !strings.HasPrefix(config.Status.ErrorMessage, place) {
		t.Errorf("%s", config.Status.ErrorMessage)
	}
	checkGiven(t, s.ask("10.0.0.1"), true, "r2")
	// A template that cannot be read: the one before it goes on to be rendered.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name "))
	s.worker("a", 2)
	s.await("the new host", func() bool { h := s.config("a", "worker").Status.Hosts; return h != nil && h.Ready == 2 })
	config = s.config("a", "worker")
	check(t, "phase", config.Status.Phase, v1.PhaseError)
	if message := config.Status.ErrorMessage; !strings.HasPrefix(message, "line 7:17: unclosed action (") {
		t.Errorf("errorMessage: %s", message)
	}
	checkGiven(t, s.ask("10.0.0.2"), true, "node-2")
	// It is of the format that it was written in.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatIgnition, "{{ .Name ")
	s.worker("a", 3)
	s.await("one host more", func() bool { h := s.config("a", "worker").Status.Hosts; return h != nil && h.Ready == 3 })
	checkGiven(t, s.ask("10.0.0.3"), true, "node-3")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name "))
	// A config that is no template any longer.
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"template": false, "config": butane("plain")}})
	config = s.config("a", "worker")
	check(t, "phase", config.Status.Phase, v1.PhaseReady)
	check(t, "hosts", config.Status.Hosts, nil)
	check(t, "template", config.Compiled.Template, false)
	checkGiven(t, s.ask("10.0.0.2"), false, "plain")
}

func TestReplicasAndRestartsWriteNothingAnew(t *testing.T) {
	s := start(t, decide.Policy{})
	for n := 1; n <= 5; n++ {
		s.worker("a", n)
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane,
		butane(`{{ if eq .Name "node-3" }}{{ fail "not here" }}{{ end }}x`))
	before := s.settled("a", "worker", "Ready 4/1/5")
	other := s.serve(decide.Policy{})
	s.await("the other server", func() bool { return other.compiled.Load() == 5 && other.updates.Load() > 0 })
	check(t, "resourceVersion", s.config("a", "worker").ResourceVersion, before.ResourceVersion)
	check(t, "hash of the other server", other.ask("10.0.0.1").Config.Hash, s.ask("10.0.0.1").Config.Hash)
	// What a server that was stopped left Pending is finished by the next.
	left := s.config("a", "worker")
	left.Status.Phase, left.Status.Hosts = v1.PhasePending, nil
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker/status", "application/merge-patch+json",
		map[string]any{"status": map[string]any{"phase": "Pending", "hosts": nil}})
	s.serve(decide.Policy{})
	s.settled("a", "worker", "Ready 4/1/5")
}

func TestKickstartTemplate(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "server", v1.TypeKickstart, v1.FormatKickstart,
		"network --hostname={{ .Hostname }}\n{{ range .NICs }}# {{ .MAC }}\n{{ end }}nonsense\n")
	config := s.settled("a", "server", "Ready 1/0/1")
	const warning = "for host a/node-1: in the rendered text, line 3"
	if len(config.Status.Warnings) != 1 || !strings.HasPrefix(config.Status.Warnings[0], warning) {
		t.Errorf("%q", config.Status.Warnings)
	}
	dec := s.askFor(decide.Kickstart, "10.0.0.1")
	checkGiven(t, dec, false, "network --hostname=node-1\n# 52:54:00:00:01:01\nnonsense\n")
}

func TestTemplateOfAnotherNamespace(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("b", 1)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Namespace }}/{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	checkGiven(t, s.ask("10.0.0.1"), false, "b%2Fnode-1")
}

func TestIsolationKeepsATemplateToItsNamespace(t *testing.T) {
	s := start(t, decide.Policy{})
	s.inv.Namespaces().Put(kvstore.Item{Key: "a", Revision: 1,
		Value: []byte(`{"metadata":{"annotations":{"glowplug.dev/island":"true"}}}`)})
	s.worker("a", 1)
	s.worker("b", 2)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	checkRefused(t, s.ask("10.0.0.2"), fault.NoMatch, "")
}

func TestTemplatesSeeNoSecret(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "all", v1.TypeKickstart, v1.FormatKickstart, "# {{ toJson . }}\n")
	s.settled("a", "all", "Ready 1/0/1")
	dec := s.askFor(decide.Kickstart, "10.0.0.1")
	want := `# {"Annotations":{"owner":"ops"},"Hostname":"node-1","IP":"10.0.0.1","Labels":{"role":"worker"},` +
		`"MAC":"52:54:00:00:00:01",` +
		`"NICs":[{"MAC":"52:54:00:00:01:01"}],"Name":"node-1","Namespace":"a"}` + "\n"
	check(t, "the config", string(dec.Config.Artifact), want)
}

func TestImageNamesATemplate(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1, "role", "none")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.send("PATCH", "namespaces/a/baremetalhosts/node-1", "application/merge-patch+json",
		map[string]any{"spec": map[string]any{"image": "coreos"}})
	s.settled("a", "worker", "Ready 0/0/0")
	s.send("POST", "namespaces/a/iscsicdroms", "application/json", map[string]any{
		"apiVersion": "v1", "kind": "ISCSICdrom", "metadata": map[string]any{"name": "coreos"},
		"spec": map[string]any{"isoFile": "x.iso", "ignitionConfig": "worker"},
	})
	s.settled("a", "worker", "Ready 1/0/1")
	s.send("DELETE", "namespaces/a/iscsicdroms/coreos", "application/json", nil)
	s.settled("a", "worker", "Ready 0/0/0")
}

// base applies a config that is no template, as a layer.
func (s *site) base(name, source string) {
	s.t.Helper()
	s.send("PATCH", "namespaces/a/ignitionconfigs/"+name+"?fieldManager=test&force=true", applied, map[string]any{
		"apiVersion": "v1", "kind": "IgnitionConfig", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"type": "ignition", "format": "butane", "config": source},
	})
}

func (s *site) layers(name string, layers ...string) {
	s.t.Helper()
	var all []map[string]string
	for _, layer := range layers {
		all = append(all, map[string]string{"name": layer})
	}
	s.send("PATCH", "namespaces/a/ignitionconfigs/"+name, "application/merge-patch+json",
		map[string]any{"spec": map[string]any{"layers": all}})
}

func TestTemplateOverLayers(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.worker("a", 2)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.layers("worker", "base")
	const missing = "spec.layers: there is no config base in this namespace"
	if c := s.settled("a", "worker", "Error 0/2/2"); !strings.HasPrefix(c.Status.ErrorMessage, missing) {
		t.Errorf("errorMessage: %s", c.Status.ErrorMessage)
	}
	motd := func(text string) string {
		return "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/motd\n" +
			"      contents: {inline: " + text + "}\n"
	}
	s.base("base", motd("one"))
	c := s.settled("a", "worker", "Ready 2/0/2")
	check(t, "number of layers", len(c.Status.Layers), 1)
	check(t, "hash of the layer", c.Status.Layers[0].Hash, s.config("a", "base").Status.ConfigHash)
	checkGiven(t, s.ask("10.0.0.2"), false, "data:,one", "data:,node-2")
	e := explain.Explain(s.decider, &decide.Request{Type: decide.Ignition, Caller: identity.Caller{Addr: addr("10.0.0.2")}})
	check(t, "number of layers in the explanation", len(e.Winner.Layers), 1)
	check(t, "number of origins", len(e.Winner.Origins), 2)
	check(t, "equal origins", e.Winner.Origins[0].From[0] == e.Winner.Origins[1].From[0], false)
	// A change of the layer reaches the hosts at once, and the status soon.
	s.base("base", motd("two"))
	checkGiven(t, s.ask("10.0.0.2"), false, "data:,two", "data:,node-2")
	s.await("the status", func() bool {
		c := s.config("a", "worker").Status
		return c.Phase == v1.PhaseReady && len(c.Layers) == 1 && c.Layers[0].Hash == s.config("a", "base").Status.ConfigHash
	})
	// One that breaks is used as it was, with a warning.
	s.base("base", "variant: fcos\nversion: 1.5.0\nstorrage: {}\n")
	s.await("the warning", func() bool { return len(s.config("a", "worker").Status.Warnings) == 1 })
	checkGiven(t, s.ask("10.0.0.2"), false, "data:,two", "data:,node-2")
	// A template is no layer.
	s.base("top", motd("top"))
	s.layers("top", "worker")
	s.await("the error", func() bool {
		return strings.HasPrefix(s.config("a", "top").Status.ErrorMessage,
			"spec.layers: worker is a template, and a template cannot be a layer; ")
	})
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json",
		map[string]any{"spec": map[string]any{"template": false, "config": butane("plain")}})
	s.await("the end of the error", func() bool {
		return !strings.Contains(s.config("a", "top").Status.ErrorMessage, "a template cannot be a layer")
	})
}

// TestDeletedLayerIsAnEvent: also where the template fails for a host before and after that.
func TestDeletedLayerIsAnEvent(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.worker("a", 2, "rack", "r2")
	s.base("base", butane("base"))
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack }}"))
	s.layers("worker", "base")
	failures := func() int {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		n := 0
		for _, each := range s.events.all {
			if each == "worker Warning RenderFailed" {
				n++
			}
		}
		return n
	}
	s.settled("a", "worker", "Ready 1/1/2")
	s.await("the event of the host", func() bool { return failures() > 0 })
	before := failures()
	s.send("DELETE", "namespaces/a/ignitionconfigs/base", "", nil)
	s.settled("a", "worker", "Error 0/2/2")
	s.await("the event of the layer", func() bool { return failures() == before+1 })
	s.base("base", butane("base"))
	s.settled("a", "worker", "Ready 1/1/2")
	check(t, "number of events", failures(), before+1)
}

func TestUnknownMachine(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("default", "any", v1.TypeIgnition, v1.FormatButane, butane("{{ .IP }}"))
	s.send("PATCH", "namespaces/default/ignitionconfigs/any", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	s.settled("default", "any", "Ready 0/0/0")
	checkGiven(t, s.ask("192.0.2.7"), false, "192.0.2.7")
	s.put("default", "any", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.send("PATCH", "namespaces/default/ignitionconfigs/any", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	checkRefused(t, s.ask("192.0.2.7"), fault.Unavailable,
		"cannot be rendered for 192.0.2.7, which is no known host: line 7:20: the machine has no Name")
}

func TestRenderedFormsAreNegotiated(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	req := &decide.Request{Type: decide.Ignition, Accept: "application/vnd.coreos.ignition+json; version=3.1.0, */*;q=0.1"}
	req.Caller.Addr = addr("10.0.0.1")
	dec := s.decider.Config(req)
	if dec.Err != nil || dec.Form == nil {
		t.Fatalf("%v, form %v", dec.Err, dec.Form)
	}
	check(t, "version", dec.Form.Version, "3.1.0")
	check(t, "the form names the host", strings.Contains(string(dec.Form.Bytes), "node-1"), true)
}

// What a host asked for in a role is not what it is given without it.
func TestLastGoodRenderingIsOfTheSameRole(t *testing.T) {
	s := start(t, decide.Policy{})
	as := func(role string) decide.ConfigDecision {
		return s.decider.Config(&decide.Request{
			Type:   decide.Ignition,
			Caller: identity.Caller{Addr: addr("10.0.0.1"), Believed: true}, Claims: identity.Claims{Role: role},
		})
	}
	s.worker("a", 1, "rack", "r1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane(`{{ .Labels.rack }}-{{ .Labels.role }}`))
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	s.settled("a", "worker", "Ready 1/0/1")
	plain, admin := as("").Config, as("admin").Config
	if plain == nil || admin == nil || plain.Hash == admin.Hash {
		t.Fatal("the role makes no difference")
	}
	s.worker("a", 1) // which the template fails for
	s.settled("a", "worker", "Error 0/1/1")
	for role, want := range map[string]string{"": plain.Hash, "admin": admin.Hash} {
		dec := as(role)
		checkGiven(t, &dec, true)
		check(t, "hash for role "+role, dec.Config.Hash, want)
	}
}

// A host that changes there and back while it is rendered for is rendered for
// whenever it changes again.
func TestChangeThereAndBackWhileItIsRendered(t *testing.T) {
	s := start(t, decide.Policy{})
	gate, begun := make(chan struct{}), make(chan struct{}, 100)
	s.before = func() {
		begun <- struct{}{}
		<-gate
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack }}"))
	s.worker("a", 1, "rack", "r1")
	<-begun
	s.worker("a", 1, "rack", "r2")
	s.worker("a", 1, "rack", "r1")
	close(gate)
	s.settled("a", "worker", "Ready 1/0/1")
	checkGiven(t, s.ask("10.0.0.1"), false, "r1")
	s.worker("a", 1)
	s.settled("a", "worker", "Error 0/1/1")
}

// A host that is gone and back while it is rendered for is rendered for as it is now.
func TestHostThatIsGoneForAMoment(t *testing.T) {
	s := start(t, decide.Policy{})
	gate, begun := make(chan struct{}), make(chan struct{}, 100)
	s.before = func() {
		begun <- struct{}{}
		<-gate
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack }}"))
	s.worker("a", 1, "rack", "r1")
	<-begun
	s.send("DELETE", "namespaces/a/baremetalhosts/node-1", "application/json", nil)
	s.worker("a", 1, "rack", "r2")
	close(gate)
	s.settled("a", "worker", "Ready 1/0/1")
	checkGiven(t, s.ask("10.0.0.1"), false, "r2")
	s.send("DELETE", "namespaces/a/baremetalhosts/node-1", "application/json", nil)
	s.settled("a", "worker", "Ready 0/0/0")
}
