package rendering

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/testkit"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// kickstart is a template as the inventory has it.
func kickstart(source string) *model.Config {
	artifact, found := compile.Compile(compile.Source{
		Type: compile.TypeKickstart, Format: compile.FormatKickstart, Config: source, Template: true,
	})
	if artifact == nil {
		panic(found.Summary())
	}
	return &model.Config{
		Ref: Ref{Namespace: "a", Name: "ks"}, UID: "1", Type: compile.TypeKickstart, Format: compile.FormatKickstart,
		Artifact: artifact.Bytes, Hash: artifact.Hash, Template: true,
	}
}

func node(n int) *model.Host {
	return &model.Host{Ref: Ref{Namespace: "a", Name: fmt.Sprintf("node-%d", n)}, UID: fmt.Sprint(n)}
}

func TestCacheIsBoundedAndKeepsEqualsOnce(t *testing.T) {
	const hosts = 80
	c := New(Options{})
	defer c.Close()
	c.hosts.limit = hosts*resultBytes + 48<<10 // all, if they have one text
	config := kickstart("# {{ .Name }}\n" + strings.Repeat("#\n", 5000))
	for n := range hosts {
		h := node(n)
		if _, err := c.Render(config, h, h.Facts(), decide.Asker{}); err != nil {
			t.Fatal(err)
		}
	}
	if c.hosts.size > c.hosts.limit {
		t.Errorf("%d bytes; the limit is %d", c.hosts.size, c.hosts.limit)
	}
	if n := c.hosts.entries.Len(); n < 10 || len(c.hosts.artifacts) != n {
		t.Errorf("%d entries, %d artifacts; want as many, and 10 at least", n, len(c.hosts.artifacts))
	}
	same := kickstart("# for all\n" + strings.Repeat("#\n", 5000))
	for n := range hosts {
		h := node(n)
		if _, err := c.Render(same, h, h.Facts(), decide.Asker{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.hosts.entries.Len(); n < hosts {
		t.Errorf("%d entries of one text; want %d", n, hosts)
	}
	c.hosts.entries.Purge()
	if c.hosts.size != 0 || len(c.hosts.artifacts) != 0 {
		t.Errorf("%d bytes and %d artifacts of no entry", c.hosts.size, len(c.hosts.artifacts))
	}
}

// A template has the URL of the server that renders it, for whichever machine: each of two servers gives its own, and
// one that does not know its URL refuses the template.
func TestATemplateHasTheURLOfItsServer(t *testing.T) {
	config, h := kickstart(`url --url={{ .Server }}/iso{{ secret "a" "b" }}`+"\n"), node(1)
	ofRole := h.Facts()
	ofRole.Labels = map[string]string{"role": "x"}
	hashes := map[string]bool{}
	for _, url := range []string{"http://10.0.0.1:8082", "https://boot.example.com"} {
		c := New(Options{Server: url, Secret: func(_, _, _ string) (string, error) { return "", nil }})
		defer c.Close()
		for name, machine := range map[string]struct {
			host  *model.Host
			facts *template.Facts
		}{
			"a host": {h, nil}, "a host with a role": {h, ofRole}, "an unknown machine": {nil, &template.Facts{IP: "10.0.0.9"}},
		} {
			for range 2 { // the second answer may be cached
				out, err := c.Render(config, machine.host, machine.facts, decide.Asker{Reveal: true})
				if err != nil || string(out.Artifact) != "url --url="+url+"/iso\n" {
					t.Errorf("%s: %+v %v, want %s", name, out, err, url)
					continue
				}
				hashes[out.Hash] = true
			}
		}
	}
	if len(hashes) != 2 {
		t.Errorf("%d hashes for two URLs", len(hashes))
	}
	c := New(Options{})
	defer c.Close()
	_, err := c.Render(config, h, nil, decide.Asker{})
	if err == nil || err.Kind != fault.Unavailable || !strings.Contains(err.Sentence, "the server does not know its own URL") {
		t.Errorf("without a URL: %v", err)
	}
}

func TestTenThousandHostsFit(t *testing.T) {
	r := newResults(maxHostBytes)
	config := &model.Config{Ref: Ref{Namespace: "a", Name: "ks"}, Hash: "sha256:1"}
	job := &Task{config: config, Source: config.Hash}
	for n := range 10_000 {
		h := node(n)
		r.add(machineOf(config, h, nil), job.Version(h), &Result{Artifact: make([]byte, 5<<10), Hash: fmt.Sprint(n)})
	}
	if n := r.entries.Len(); n != 10_000 {
		t.Errorf("%d are cached, of %d bytes", n, r.size)
	}
}

func TestWhoAsksWaitsNoLongerThanPatience(t *testing.T) {
	c := New(Options{})
	gate, calls := make(chan struct{}), &atomic.Int32{}
	c.patience = 20 * time.Millisecond
	c.opts.Render = func(t *compile.Template, f *template.Facts) compile.Rendering {
		calls.Add(1)
		<-gate
		return t.Render(f)
	}
	config, h := kickstart("# {{ .Name }}\n"), node(1)
	_, err := c.Render(config, h, h.Facts(), decide.Asker{})
	const yet = "is yet to be rendered for host a/node-1"
	if err == nil || err.Kind != fault.Unavailable || !strings.Contains(err.Sentence, yet) {
		t.Errorf("%+v", err)
	}
	gone := make(chan struct{})
	close(gone)
	c.patience = time.Hour
	if _, err := c.Render(config, h, h.Facts(), decide.Asker{Gone: gone}); err == nil {
		t.Error("nobody waits, and it is rendered")
	}
	close(gate)
	out, err := c.Render(config, h, h.Facts(), decide.Asker{})
	if err != nil || string(out.Artifact) != "# node-1\n" || out.Template {
		t.Errorf("%+v %v", out, err)
	}
	if calls.Load() != 1 {
		t.Errorf("rendered %d times", calls.Load())
	}
	c.Close()
	if _, err := c.Render(config, node(2), node(2).Facts(), decide.Asker{}); err == nil || err.Kind != fault.Unavailable {
		t.Errorf("%v after the end", err)
	}
}

func TestCloseWaitsForNoMoreThanIsBeingRendered(t *testing.T) {
	gate, started, calls := make(chan struct{}), make(chan struct{}, 50), &atomic.Int32{}
	c := New(Options{Render: func(t *compile.Template, f *template.Facts) compile.Rendering {
		calls.Add(1)
		started <- struct{}{}
		<-gate
		return t.Render(f)
	}})
	job := c.Task(kickstart("# {{ .Name }}\n"))
	var waiting sync.WaitGroup
	for n := range 50 {
		waiting.Go(func() { c.RenderAhead(t.Context(), &job, node(n)) })
	}
	<-started
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	testkit.Until(t, "all that has no slot to be given up", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closing.Err() != nil && testutil.ToFloat64(c.metrics.pending(false)) == 0
	})
	close(gate)
	<-closed
	waiting.Wait()
	if most := int32(runtime.GOMAXPROCS(0)); calls.Load() > most {
		t.Errorf("%d were rendered, more than %d at a time", calls.Load(), most)
	}
}

func TestFaultOfARenderingIsItsOwn(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	c.opts.Render = func(*compile.Template, *template.Facts) compile.Rendering { panic("oops") }
	h := node(1)
	_, err := c.Render(kickstart("#\n"), h, h.Facts(), decide.Asker{})
	if err == nil || !strings.Contains(err.Sentence, "oops") {
		t.Errorf("%v", err)
	}
	c.opts.Render = (*compile.Template).Render
	_, err = c.Render(kickstart("{{/* nothing */}}"), h, h.Facts(), decide.Asker{})
	if err == nil || !strings.Contains(err.Sentence, "the config is empty") {
		t.Errorf("%v", err)
	}
	secret := kickstart("{{.Labels.s3cr3t}}")
	secret.Confidential = true
	_, err = c.Render(secret, h, h.Facts(), decide.Asker{})
	if err == nil || strings.Contains(err.Sentence, "s3cr3t") || !strings.Contains(err.Sentence, "confidential") {
		t.Errorf("%v", err)
	}
}
