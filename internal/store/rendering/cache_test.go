package rendering

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// kickstart is a template as the inventory has it.
func kickstart(source string) *snapshot.Config {
	artifact, found := compile.Compile(compile.Source{Type: compile.TypeKickstart, Format: compile.FormatKickstart, Config: source, Template: true})
	if artifact == nil {
		panic(found.Summary())
	}
	return &snapshot.Config{
		Ref: Ref{Namespace: "a", Name: "ks"}, UID: "1", Type: compile.TypeKickstart, Format: compile.FormatKickstart,
		Artifact: artifact.Bytes, Hash: artifact.Hash, Template: true,
	}
}

func node(n int) *snapshot.Host {
	return &snapshot.Host{Ref: Ref{Namespace: "a", Name: fmt.Sprintf("node-%d", n)}, UID: fmt.Sprint(n)}
}

func TestCacheIsBoundedAndKeepsEqualsOnce(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	c.kept.limit = 1000*entryCost + 48<<10 // 1000 of one text
	config := kickstart("# {{ .Name }}\n" + strings.Repeat("#\n", 5000))
	for n := range 1000 {
		h := node(n)
		if _, err := c.Render(config, h, h.Facts(), decide.Asker{}); err != nil {
			t.Fatal(err)
		}
	}
	if c.kept.size > c.kept.limit || c.kept.order.Len() < 50 || c.kept.order.Len() != len(c.kept.entries) || len(c.kept.hosts) != len(c.kept.entries) || len(c.kept.bodies) != len(c.kept.entries) {
		t.Errorf("%d bytes, %d entries, %d lasts, %d bodies", c.kept.size, c.kept.order.Len(), len(c.kept.hosts), len(c.kept.bodies))
	}
	same := kickstart("# for all\n" + strings.Repeat("#\n", 5000))
	for n := range 1000 {
		h := node(n)
		if _, err := c.Render(same, h, h.Facts(), decide.Asker{}); err != nil {
			t.Fatal(err)
		}
	}
	if c.kept.order.Len() < 1000 {
		t.Errorf("%d entries of one text", c.kept.order.Len())
	}
	for c.kept.order.Len() > 0 {
		c.kept.drop(c.kept.order.Back())
	}
	if c.kept.size != 0 || len(c.kept.bodies)+len(c.kept.hosts)+len(c.kept.entries) != 0 {
		t.Errorf("%d bytes of nothing: %+v", c.kept.size, c.kept)
	}
}

func TestTenThousandHostsFit(t *testing.T) {
	k := newKept(maxKept)
	for n := range 10_000 {
		h := node(n)
		config := kickstartOf(n)
		k.put((&Task{config: config, Source: config.Hash}).key(h.Facts()), ownerOf(config, h), &Rendered{Artifact: make([]byte, 5<<10), Hash: fmt.Sprint(n)})
	}
	if k.order.Len() != 10_000 {
		t.Errorf("%d are kept, of %d bytes", k.order.Len(), k.size)
	}
}

func kickstartOf(int) *snapshot.Config {
	return &snapshot.Config{Ref: Ref{Namespace: "a", Name: "ks"}, Hash: "sha256:1"}
}

func TestWhoAsksWaitsNoLongerThanPatience(t *testing.T) {
	c := New(Options{})
	gate, calls := make(chan struct{}), &atomic.Int32{}
	c.patience = 20 * time.Millisecond
	c.render = func(t *compile.Template, f *template.Facts) compile.Rendering {
		calls.Add(1)
		<-gate
		return t.Render(f)
	}
	config, h := kickstart("# {{ .Name }}\n"), node(1)
	_, err := c.Render(config, h, h.Facts(), decide.Asker{})
	if err == nil || err.Kind != fault.Unavailable || !strings.Contains(err.Sentence, "is yet to be rendered for host a/node-1") {
		t.Errorf("%+v", err)
	}
	gone := make(chan struct{})
	close(gone)
	c.patience = time.Hour
	if _, err := c.Render(config, h, h.Facts(), decide.Asker{Gone: gone}); err == nil {
		t.Error("nobody waits, and it is rendered")
	}
	close(gate)
	if out, err := c.Render(config, h, h.Facts(), decide.Asker{}); err != nil || string(out.Artifact) != "# node-1\n" || out.Template {
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
	c := New(Options{})
	started, calls := make(chan struct{}, 50), &atomic.Int32{}
	c.render = func(t *compile.Template, f *template.Facts) compile.Rendering {
		calls.Add(1)
		started <- struct{}{}
		<-c.stop
		return t.Render(f)
	}
	config := kickstart(`{{ $c := "` + strings.Repeat("丬", 85_000) + `€" }}{{ $s := "` + strings.Repeat("€", 85_000) + `" }}{{ range 50 }}{{ $x := trimAll $c $s }}{{ end }}`)
	job := c.Task(config)
	var waiting []*call
	for n := range 50 {
		waiting = append(waiting, c.begin(&job, ownerOf(config, node(n)), node(n).Facts(), []rank{ahead, asking}[n%2], nil))
	}
	<-started
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	if most := int32(runtime.GOMAXPROCS(0)); calls.Load() > most {
		t.Errorf("%d were rendered, more than %d at a time", calls.Load(), most)
	}
	for _, call := range waiting {
		<-call.done
	}
}

func TestHostsGoFirst(t *testing.T) {
	s := newSlots(1)
	stop := make(chan struct{})
	enter := func(turn *turn) *turn {
		if !s.enter(turn) {
			t.Fatal("there is no place")
		}
		return turn
	}
	first := enter(newTurn(stranger))
	names := map[*turn]string{}
	for name, r := range map[string]rank{"stranger": stranger, "ahead": ahead, "asking": asking} {
		names[enter(newTurn(r))] = name
	}
	joined := enter(newTurn(ahead))
	names[joined] = "joined"
	s.hurry(joined)
	var order []string
	for has := first; len(order) < len(names); {
		s.give(has)
		for turn, name := range names {
			select {
			case <-turn.given:
				if !slices.Contains(order, name) {
					order, has = append(order, name), turn
				}
			default:
			}
		}
	}
	if got := strings.Join(order, " "); got != "asking joined ahead stranger" {
		t.Error(got)
	}
	waiting := enter(newTurn(asking))
	close(stop)
	if s.wait(waiting, stop) {
		t.Error("there is a slot after the end")
	}
	if n := s.waiting(asking, ahead, stranger); s.free != 0 || n != 0 {
		t.Errorf("%d wait: %+v", n, s)
	}
}

func TestFaultOfARenderingIsItsOwn(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	c.render = func(*compile.Template, *template.Facts) compile.Rendering { panic("oops") }
	h := node(1)
	if _, err := c.Render(kickstart("#\n"), h, h.Facts(), decide.Asker{}); err == nil || !strings.Contains(err.Sentence, "oops") {
		t.Errorf("%v", err)
	}
	c.render = (*compile.Template).Render
	if _, err := c.Render(kickstart("{{/* nothing */}}"), h, h.Facts(), decide.Asker{}); err == nil || !strings.Contains(err.Sentence, "the config is empty") {
		t.Errorf("%v", err)
	}
}
