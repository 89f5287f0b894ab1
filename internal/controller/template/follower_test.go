package template

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	domaintemplate "glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// everything is news of all hosts.
var everything = snapshot.Change{All: true}

type runtimeObject = runtime.Object

func TestStatusFollowsTheHosts(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack | quote }}"))
	s.settled("a", "worker", "Ready 0/0/0")
	s.worker("a", 1, "rack", "r1")
	s.worker("a", 2, "rack", "r2")
	config := s.settled("a", "worker", "Ready 2/0/2")
	if st := config.Status; st.IgnitionVersion != "3.4.0" || st.CompiledGeneration != 1 || st.LastCompiled == "" || st.ErrorMessage != "" {
		t.Errorf("%+v", st)
	}
	s.worker("a", 3)
	config = s.settled("a", "worker", "Error 2/1/3")
	want := `1 of 3 hosts fails: host a/node-3: line 7:27: .Labels.rack: there is no "rack"`
	if config.Status.ErrorMessage != want || config.Status.Hosts.Failures[0] != (v1.HostFailure{Host: "a/node-3", Message: strings.TrimPrefix(want, "1 of 3 hosts fails: host a/node-3: ")}) {
		t.Errorf("%+v", config.Status)
	}
	// The others are served.
	if dec := s.ask("10.0.0.1"); dec.Err != nil || !strings.Contains(string(dec.Config.Artifact), "data:,r1") {
		t.Errorf("%+v", dec)
	}
	dec := s.ask("10.0.0.3")
	if dec.Err == nil || dec.Err.Kind != fault.Unavailable || dec.Err.Sentence != `config a/worker, a template, cannot be rendered for host a/node-3: line 7:27: .Labels.rack: there is no "rack"` {
		t.Errorf("%+v", dec.Err)
	}
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
	if got := strings.Join(s.events.all, ", "); !strings.HasPrefix(got, "worker Normal Rendered, worker Warning RenderFailed, worker Normal Rendered") {
		t.Error(got)
	}
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
			if dec := s.ask(fmt.Sprintf("10.0.0.%d", n)); dec.Err != nil || !strings.Contains(string(dec.Config.Artifact), fmt.Sprintf("data:,node-%d", n)) {
				t.Fatalf("%+v", dec)
			}
		}
		s.booted("a", n)
	}
	check := func(want int64, when string) {
		t.Helper()
		time.Sleep(50 * time.Millisecond)
		if got := s.compiled.Load(); got != want {
			t.Errorf("%s: compiled %d times, want %d", when, got, want)
		}
	}
	check(10, "boots")
	if after := s.config("a", "worker"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the status was written although nothing has changed")
	}
	s.worker("a", 1, "x", "y")
	s.await("the change of a host", func() bool { return s.compiled.Load() == 11 })
	check(11, "a label")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}", "{{ .IP }}"))
	s.settled("a", "worker", "Ready 10/0/10")
	check(21, "another template")
	// The selector alone costs no compilation.
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	s.settled("a", "worker", "Ready 10/0/10")
	check(21, "the selector")
	if dec := s.ask("10.0.0.3"); dec.Config.Stale {
		t.Error("stale")
	}
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
	if st := s.config("a", "worker").Status; st.Phase != v1.PhasePending {
		t.Errorf("%+v", st)
	}
	close(gate)
	asking.Wait()
	s.settled("a", "worker", "Ready 2/0/2")
	if n := s.compiled.Load(); n != 2 {
		t.Errorf("compiled %d times", n)
	}
}

func TestLastGoodRendering(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1, "rack", "r1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Labels.rack }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	good := s.ask("10.0.0.1").Config
	if good.Stale || good.ETag != `"`+good.Hash+`"` {
		t.Errorf("%+v", good)
	}
	// A host that loses what the template asks for.
	s.worker("a", 1)
	s.settled("a", "worker", "Error 0/1/1")
	if dec := s.ask("10.0.0.1"); dec.Err != nil || !dec.Config.Stale || dec.Config.Hash != good.Hash {
		t.Errorf("%+v", dec)
	}
	s.worker("a", 1, "rack", "r2")
	s.settled("a", "worker", "Ready 1/0/1")
	if dec := s.ask("10.0.0.1"); dec.Config.Stale || dec.Config.Hash == good.Hash {
		t.Errorf("%+v", dec.Config)
	}
	// What is rendered does not compile: the place is in the rendered text.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, "{{/* one */ -}}\n"+butane("x")+"storrage: {{ .Name }}\n")
	config := s.settled("a", "worker", "Error 0/1/1")
	if want := "1 of 1 hosts fails: host a/node-1: in the rendered text, line 8:1: "; !strings.HasPrefix(config.Status.ErrorMessage, want) {
		t.Errorf("%s", config.Status.ErrorMessage)
	}
	if dec := s.ask("10.0.0.1"); dec.Err != nil || !dec.Config.Stale || !strings.Contains(string(dec.Config.Artifact), "r2") {
		t.Errorf("%+v", dec)
	}
	// A template that cannot be read: the one before it goes on to be rendered.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name "))
	s.worker("a", 2)
	s.await("the new host", func() bool { h := s.config("a", "worker").Status.Hosts; return h != nil && h.Ready == 2 })
	config = s.config("a", "worker")
	if config.Status.Phase != v1.PhaseError || config.Status.ErrorMessage != "line 7:17: unclosed action" {
		t.Errorf("%+v", config.Status)
	}
	if dec := s.ask("10.0.0.2"); dec.Err != nil || !dec.Config.Stale || !strings.Contains(string(dec.Config.Artifact), "node-2") {
		t.Errorf("%+v", dec)
	}
	// It is of the format that it was written in.
	s.put("a", "worker", v1.TypeIgnition, v1.FormatIgnition, "{{ .Name ")
	s.worker("a", 3)
	s.await("one host more", func() bool { h := s.config("a", "worker").Status.Hosts; return h != nil && h.Ready == 3 })
	if dec := s.ask("10.0.0.3"); dec.Err != nil || !dec.Config.Stale || !strings.Contains(string(dec.Config.Artifact), "node-3") {
		t.Errorf("%+v", dec)
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name "))
	// A config that is no template any longer.
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"template": false, "config": butane("plain")}})
	if config = s.config("a", "worker"); config.Status.Phase != v1.PhaseReady || config.Status.Hosts != nil || config.Compiled.Template {
		t.Errorf("%+v", config.Status)
	}
	if dec := s.ask("10.0.0.2"); dec.Err != nil || dec.Config.Stale || !strings.Contains(string(dec.Config.Artifact), "plain") {
		t.Errorf("%+v", dec)
	}
}

func TestReplicasAndRestartsWriteNothingAnew(t *testing.T) {
	s := start(t, decide.Policy{})
	for n := 1; n <= 5; n++ {
		s.worker("a", n)
	}
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ if eq .Name \"node-3\" }}{{ fail \"not here\" }}{{ end }}x"))
	before := s.settled("a", "worker", "Error 4/1/5")
	other := s.serve(decide.Policy{})
	other.follower.Changed(everything)
	s.await("the other server", func() bool { return other.compiled.Load() == 5 })
	time.Sleep(100 * time.Millisecond)
	if after := s.config("a", "worker"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("%+v", after.Status)
	}
	if one, two := s.ask("10.0.0.1").Config, other.ask("10.0.0.1").Config; one.Hash != two.Hash {
		t.Errorf("%s and %s", one.Hash, two.Hash)
	}
	// What a server that was stopped left Pending is finished by the next.
	left := s.config("a", "worker")
	left.Status.Phase, left.Status.Hosts = v1.PhasePending, nil
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker/status", "application/merge-patch+json",
		map[string]any{"status": map[string]any{"phase": "Pending", "hosts": nil}})
	s.serve(decide.Policy{}).follower.Changed(everything)
	s.settled("a", "worker", "Error 4/1/5")
}

func TestKickstartTemplate(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "server", v1.TypeKickstart, v1.FormatKickstart, "network --hostname={{ .Hostname }}\n{{ range .NICs }}# {{ .MAC }}\n{{ end }}nonsense\n")
	config := s.settled("a", "server", "Ready 1/0/1")
	if len(config.Status.Warnings) != 1 || !strings.HasPrefix(config.Status.Warnings[0], "for host a/node-1: in the rendered text, line 3") {
		t.Errorf("%q", config.Status.Warnings)
	}
	dec := s.askFor(decide.Kickstart, "10.0.0.1")
	if dec.Err != nil || string(dec.Config.Artifact) != "network --hostname=node-1\n# 52:54:00:00:01:01\nnonsense\n" {
		t.Errorf("%+v", dec)
	}
}

func TestTemplateOfAnotherNamespace(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("b", 1)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Namespace }}/{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	if dec := s.ask("10.0.0.1"); dec.Err != nil || !strings.Contains(string(dec.Config.Artifact), "b%2Fnode-1") {
		t.Errorf("%+v", dec)
	}
}

func TestIsolationKeepsATemplateToItsNamespace(t *testing.T) {
	s := start(t, decide.Policy{Isolate: true})
	s.worker("a", 1)
	s.worker("b", 2)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	if dec := s.ask("10.0.0.2"); dec.Err == nil || dec.Err.Kind != fault.NoMatch {
		t.Errorf("%+v", dec)
	}
}

func TestTemplatesSeeNoSecret(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "all", v1.TypeKickstart, v1.FormatKickstart, "# {{ toJson . }}\n")
	s.settled("a", "all", "Ready 1/0/1")
	dec := s.askFor(decide.Kickstart, "10.0.0.1")
	want := `# {"Annotations":{"owner":"ops"},"Hostname":"node-1","IP":"10.0.0.1","Labels":{"role":"worker"},"MAC":"52:54:00:00:00:01",` +
		`"NICs":[{"MAC":"52:54:00:00:01:01"}],"Name":"node-1","Namespace":"a"}` + "\n"
	if dec.Err != nil || string(dec.Config.Artifact) != want {
		t.Errorf("%+v %s", dec.Err, dec.Config.Artifact)
	}
}

func TestImageNamesATemplate(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1, "role", "none")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.send("PATCH", "namespaces/a/baremetalhosts/node-1", "application/merge-patch+json", map[string]any{"spec": map[string]any{"image": "coreos"}})
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
	s.send("PATCH", "namespaces/a/ignitionconfigs/"+name, "application/merge-patch+json", map[string]any{"spec": map[string]any{"layers": all}})
}

func TestTemplateOverLayers(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.worker("a", 2)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.layers("worker", "base")
	if c := s.settled("a", "worker", "Error 0/2/2"); !strings.HasPrefix(c.Status.ErrorMessage, "spec.layers: there is no config base in this namespace") {
		t.Errorf("%+v", c.Status)
	}
	motd := func(text string) string {
		return "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/motd\n      contents: {inline: " + text + "}\n"
	}
	s.base("base", motd("one"))
	c := s.settled("a", "worker", "Ready 2/0/2")
	if len(c.Status.Layers) != 1 || c.Status.Layers[0].Hash != s.config("a", "base").Status.ConfigHash {
		t.Errorf("%+v", c.Status.Layers)
	}
	holds := func(texts ...string) bool {
		dec := s.ask("10.0.0.2")
		for _, text := range texts {
			if dec.Err != nil || !strings.Contains(string(dec.Config.Artifact), text) {
				return false
			}
		}
		return true
	}
	if !holds("data:,one", "data:,node-2") {
		t.Errorf("%+v", s.ask("10.0.0.2"))
	}
	e := s.decider.Explain(&decide.Request{Type: decide.Ignition, Caller: identity.Caller{Addr: addr("10.0.0.2")}})
	if len(e.Winner.Layers) != 1 || len(e.Winner.Origins) != 2 || e.Winner.Origins[0].From[0] == e.Winner.Origins[1].From[0] {
		t.Errorf("%+v", e.Winner)
	}
	// A change of the layer reaches the hosts at once, and the status soon.
	s.base("base", motd("two"))
	if !holds("data:,two", "data:,node-2") {
		t.Errorf("%+v", s.ask("10.0.0.2"))
	}
	s.await("the status", func() bool {
		c := s.config("a", "worker").Status
		return c.Phase == v1.PhaseReady && len(c.Layers) == 1 && c.Layers[0].Hash == s.config("a", "base").Status.ConfigHash
	})
	// One that breaks is used as it was, with a warning.
	s.base("base", "variant: fcos\nversion: 1.5.0\nstorrage: {}\n")
	s.await("the warning", func() bool { return len(s.config("a", "worker").Status.Warnings) == 1 })
	if !holds("data:,two", "data:,node-2") {
		t.Errorf("%+v", s.ask("10.0.0.2"))
	}
	// A template is no layer.
	s.base("top", motd("top"))
	s.layers("top", "worker")
	s.await("the error", func() bool {
		return strings.HasPrefix(s.config("a", "top").Status.ErrorMessage, "spec.layers: worker is a template, and a template cannot be a layer; ")
	})
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{"spec": map[string]any{"template": false, "config": butane("plain")}})
	s.await("the end of the error", func() bool {
		return !strings.Contains(s.config("a", "top").Status.ErrorMessage, "a template cannot be a layer")
	})
}

func TestUnknownMachine(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("default", "any", v1.TypeIgnition, v1.FormatButane, butane("{{ .IP }}"))
	s.send("PATCH", "namespaces/default/ignitionconfigs/any", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	s.settled("default", "any", "Ready 0/0/0")
	if dec := s.ask("192.0.2.7"); dec.Err != nil || !strings.Contains(string(dec.Config.Artifact), "192.0.2.7") {
		t.Errorf("%+v", dec)
	}
	s.put("default", "any", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.send("PATCH", "namespaces/default/ignitionconfigs/any", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	dec := s.ask("192.0.2.7")
	if want := "cannot be rendered for 192.0.2.7, which is no known host: line 7:20: the host has no Name"; dec.Err == nil || !strings.HasSuffix(dec.Err.Sentence, want) {
		t.Errorf("%+v", dec.Err)
	}
}

func TestRenderedFormsAreNegotiated(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.settled("a", "worker", "Ready 1/0/1")
	dec := &decide.Decision{}
	req := &decide.Request{Type: decide.Ignition, Accept: "application/vnd.coreos.ignition+json; version=3.1.0, */*;q=0.1"}
	req.Caller.Addr = addr("10.0.0.1")
	s.decider.Decide(req, dec)
	if dec.Err != nil || dec.Form == nil || dec.Form.Version != "3.1.0" || !strings.Contains(string(dec.Form.Bytes), "node-1") {
		t.Errorf("%+v", dec)
	}
}

// What a host asked for in a role is not what it is given without it.
func TestLastGoodRenderingIsOfTheSameRole(t *testing.T) {
	s := start(t, decide.Policy{})
	as := func(role string) *decide.Decision {
		dec := &decide.Decision{}
		s.decider.Decide(&decide.Request{
			Type: decide.Ignition, Caller: identity.Caller{Addr: addr("10.0.0.1"), Believed: true}, Claims: identity.Claims{Role: role},
		}, dec)
		return dec
	}
	s.worker("a", 1, "rack", "r1")
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane(`{{ .Labels.rack }}-{{ .Labels.role }}`))
	s.send("PATCH", "namespaces/a/ignitionconfigs/worker", "application/merge-patch+json", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"default": true}}})
	s.settled("a", "worker", "Ready 1/0/1")
	plain, admin := as("").Config, as("admin").Config
	if plain == nil || admin == nil || plain.Hash == admin.Hash {
		t.Fatalf("%+v %+v", plain, admin)
	}
	s.worker("a", 1) // which the template fails for
	s.settled("a", "worker", "Error 0/1/1")
	for role, want := range map[string]string{"": plain.Hash, "admin": admin.Hash} {
		if dec := as(role); dec.Err != nil || !dec.Config.Stale || dec.Config.Hash != want {
			t.Errorf("role %q: %+v", role, dec)
		}
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
	facts := func() domaintemplate.Key {
		s.follower.mu.Lock()
		defer s.follower.mu.Unlock()
		return s.follower.rosters[Ref{Namespace: "a", Name: "worker"}].hosts[Ref{Namespace: "a", Name: "node-1"}].facts
	}
	before := facts()
	s.worker("a", 1, "rack", "r2")
	s.await("the change", func() bool { return facts() != before })
	s.worker("a", 1, "rack", "r1")
	s.await("the way back", func() bool { return facts() == before })
	close(gate)
	s.settled("a", "worker", "Ready 1/0/1")
	s.worker("a", 1)
	s.settled("a", "worker", "Error 0/1/1")
}

// A host that is back before anybody has seen that it was gone is rendered for.
func TestHostThatIsGoneForAMoment(t *testing.T) {
	s := start(t, decide.Policy{})
	s.put("a", "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
	s.worker("a", 1)
	s.settled("a", "worker", "Ready 1/0/1")
	f, ref := s.follower, Ref{Namespace: "a", Name: "node-1"}
	gone := Ref{Namespace: "a", Name: "node-2"}
	f.mu.Lock()
	r := f.rosters[Ref{Namespace: "a", Name: "worker"}]
	// As it is between the end of a host and the news of it.
	r.hosts[gone] = &result{queued: true}
	r.pending++
	r.todo = append(r.todo, gone)
	f.enqueue(r)
	f.mu.Unlock()
	s.await("the host to be let go", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return r.hosts[gone] == nil && r.hosts[ref] != nil && r.pending == 0
	})
	s.worker("a", 2)
	s.settled("a", "worker", "Ready 2/0/2")
}
