package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// diary is what was written of hosts; it writes their status like a journal.
type diary struct {
	mu   sync.Mutex
	said []string
	then func(host *model.Host, sentence string)
}

func (d *diary) Condition(host *model.Host, c explain.Condition) {
	if c.Kind != model.ConfigReadable {
		return
	}
	d.mu.Lock()
	word := "readable"
	if !c.Met {
		word = "unreadable"
	}
	d.said = append(d.said, host.Name+" "+word)
	d.mu.Unlock()
	if d.then != nil {
		go d.then(host, c.Message)
	}
}

func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := strings.Join(d.said, ", ")
	d.said = nil
	return said
}

const (
	configJSON = `{"metadata":{"generation":1},"spec":{"type":"ignition","selector":{"default":true}},` +
		`"status":{"servable":[{"versions":"3.4.0"}]},` +
		`"compiled":{"artifact":"e30=","hash":"sha256:a","ignitionVersion":"3.4.0","generation":1}}`
	readable = `{"metadata":{"generation":1},"spec":{"type":"ignition","selector":{"default":true}},` +
		`"status":{"servable":[{"versions":"2.4.0"},{"versions":"3.2.0-3.6.0"}]},` +
		`"compiled":{"artifact":"e30=","hash":"sha256:b","ignitionVersion":"3.4.0","generation":1}}`
	image    = `{"spec":{"stream":{"name":"stable"}},"status":{"phase":"Ready","maxIgnition":"3.2.0"}}`
	falseNow = `"status":{"conditions":[{"type":"IdentityUnique","status":"False"},` +
		`{"type":"ConfigReadable","status":"False","message":"x"}]}`
)

func TestChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := snapshot.New(snapshot.Options{})
		d, ready := &diary{}, &atomic.Bool{}
		c := NewChecker(CheckerOptions{
			Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv}), Journal: d, Ready: ready.Load,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		defer func() { cancel(); <-done }()
		to := func(o kvstore.Observer) func(key, value string) {
			return func(key, value string) {
				if value == "" {
					o.Delete(key, 2)
				} else {
					o.Put(kvstore.Item{Key: key, Revision: 2, Value: []byte(value)})
				}
			}
		}
		host, conf, img := to(inv.Hosts()), to(inv.Configs()), to(inv.Images())
		after := func(pause time.Duration) string {
			time.Sleep(pause)
			synctest.Wait()
			return d.take()
		}
		conf("g10/c", configJSON)
		img("g10/i", image)
		host("g10/a", `{"spec":{"image":"i"}}`)
		host("g10/disk", `{"spec":{}}`)
		host("g10/healed", `{"spec":{"image":"gone"},`+falseNow+`}`)
		if got := after(time.Minute); got != "" {
			t.Errorf("before the store was read: %s", got)
		}
		ready.Store(true)
		if got := after(2 * passPause); got != "a unreadable, healed readable" && got != "healed readable, a unreadable" {
			t.Errorf("at first: %s", got)
		}
		host("g10/healed", `{"spec":{"image":"gone"}}`)
		host("g10/a", `{"spec":{"image":"i"},`+falseNow+`}`)
		if got := after(2 * passPause); got != "" {
			t.Errorf("said again: %s", got)
		}
		host("g10/b", `{"spec":{"image":"i"}}`)
		if got := after(2 * coalescePause); got != "b unreadable" {
			t.Errorf("a new host: %s", got)
		}
		host("g10/b", "")
		conf("g10/c", readable)
		if got := after(2 * passPause); got != "a readable" {
			t.Errorf("once it can be read: %s", got)
		}
		host("g10/a", `{"spec":{"image":"i"}}`)
		if got := after(2 * passPause); got != "" {
			t.Errorf("said again: %s", got)
		}
		img("g10/i", strings.Replace(image, "3.2.0", "3.1.0", 1))
		if got := after(2 * passPause); got != "a unreadable" {
			t.Errorf("an older image: %s", got)
		}
		// A storm of changes is a few passes.
		for i := range 1000 {
			img(fmt.Sprintf("g10/i%d", i), image)
			time.Sleep(10 * time.Millisecond)
		}
		if got := after(2 * passPause); got != "" {
			t.Errorf("a storm: %s", got)
		}
	})
}

// renderer gives every host the same; "" cannot be rendered.
type renderer struct{ text string }

func (r *renderer) Render(config *model.Config, _ *model.Host, _ *template.Facts, _ decide.Asker) (
	*model.Config, *fault.Error) {
	if r.text == "" {
		return nil, fault.New(fault.Unavailable, "it cannot be rendered")
	}
	out := *config
	out.Template, out.Artifact, out.Hash, out.IgnitionVersion = false, []byte(r.text), r.text, "3.4.0"
	return &out, nil
}

// What is not known of a template leaves what was said of a host.
func TestCheckerOfATemplate(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	d, r := &diary{}, &renderer{}
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv, Renderer: r}), Journal: d,
		Ready: func() bool { return true },
	})
	put := func(o kvstore.Observer, key, value string) {
		o.Put(kvstore.Item{Key: key, Revision: 2, Value: []byte(value)})
	}
	put(inv.Configs(), "g10/c", `{"metadata":{"generation":1},"spec":{"type":"ignition","selector":{"default":true}},`+
		`"compiled":{"artifact":"e30=","hash":"sha256:a","generation":1,"template":true}}`)
	put(inv.Images(), "g10/i", image)
	put(inv.Hosts(), "g10/a", `{"spec":{"image":"i"}}`)
	for _, step := range []struct{ text, status, said string }{
		{"", "", ""},
		{`{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet"]}}`, "", "a unreadable"},
		{"", falseNow, ""},
		{`{"ignition":{"version":"3.4.0"}}`, falseNow, "a readable"},
	} {
		if r.text = step.text; step.status != "" {
			put(inv.Hosts(), "g10/a", `{"spec":{"image":"i"},`+step.status+`}`)
		}
		key := model.Ref{Namespace: "g10", Name: "a"}
		if _, err := c.reconcile(t.Context(), key); err != nil {
			t.Error(err)
		}
		if got := d.take(); got != step.said {
			t.Errorf("%q: said %q, want %q", step.text, got, step.said)
		}
	}
}
