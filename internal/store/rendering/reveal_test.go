package rendering

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// butaneTemplate is a Butane template as the inventory has it.
func butaneTemplate(source string) *model.Config {
	config := kickstart(source)
	config.Type, config.Format = compile.TypeIgnition, compile.FormatButane
	return config
}

// Values of Secrets are in what the machine itself receives, as they are now, and nowhere else.
func TestSecretsAreRevealedToTheMachineAlone(t *testing.T) {
	const value = "planted-value-3c"
	values := map[string]string{"chap/password": value}
	c := New(Options{Secret: func(namespace, name, key string) (string, error) {
		found, ok := values[name+"/"+key]
		if namespace != "a" || !ok {
			return "", errors.New("there is no Secret " + namespace + "/" + name)
		}
		return found, nil
	}})
	defer c.Close()
	config, h := kickstart(`# {{ .Name }} {{ secret "chap" "password" | b64enc }} {{ secret "chap" "password" }}`+"\n"), node(1)
	for range 2 { // the second answer may be cached
		masked, err := c.Render(config, h, nil, decide.Asker{})
		if err != nil || len(masked.Secrets) != 1 || masked.Revealed ||
			!strings.HasSuffix(string(masked.Artifact), " <secret:chap/password>\n") {
			t.Fatalf("%+v, %s, %v", masked, masked.Artifact, err)
		}
		revealed, err := c.Render(config, h, nil, decide.Asker{Reveal: true})
		if err != nil || string(revealed.Artifact) != "# node-1 cGxhbnRlZC12YWx1ZS0zYw== "+value+"\n" {
			t.Fatalf("%+v %v", revealed, err)
		}
		if !revealed.Revealed || revealed.Hash != masked.Hash || revealed.ETag == masked.ETag {
			t.Errorf("revealed %s %s, masked %s %s", revealed.Hash, revealed.ETag, masked.Hash, masked.ETag)
		}
	}
	for _, e := range c.hosts.entries.Values() {
		if strings.Contains(string(e.value.latest.Artifact), value) {
			t.Error("the value is cached")
		}
	}
	values["chap/password"] = "changed"
	if out, err := c.Render(config, h, nil, decide.Asker{Reveal: true}); err != nil ||
		!strings.HasSuffix(string(out.Artifact), " changed\n") {
		t.Errorf("a changed Secret is not served: %+v, %v", out, err)
	}
	delete(values, "chap/password")
	_, err := c.Render(config, h, nil, decide.Asker{Reveal: true})
	if err == nil || !strings.HasSuffix(err.Sentence, "cannot be rendered for host a/node-1: there is no Secret a/chap") {
		t.Errorf("%v", err)
	}
	// Others than the machine learn of it as well.
	if _, err := c.Render(config, h, nil, decide.Asker{}); err == nil || !strings.HasSuffix(err.Sentence, "no Secret a/chap") {
		t.Errorf("%v", err)
	}
	// The value is no name or key in an error either.
	values["chap/password"] = value
	for _, source := range []string{
		`# {{ secret (secret "chap" "password") "k" }}` + "\n", `# {{ secret "chap" (secret "chap" "password") }}` + "\n",
		`# {{ $v := secret "chap" "password" }}{{ if hasPrefix "planted" $v }}{{ secret $v "k" }}{{ end }}` + "\n",
		`# {{ if eq (secret "chap" "password") "` + value + `" }}{{ secret "other" "k" }}{{ end }}` + "\n",
	} {
		_, err := c.Render(kickstart(source), h, nil, decide.Asker{Reveal: true})
		if err == nil || strings.Contains(err.Sentence, "planted") {
			t.Errorf("%s: %v", source, err)
		}
	}
	// A template without Secrets is not rendered a second time.
	plain := kickstart("# {{ .Name }}\n")
	first, _ := c.Render(plain, h, nil, decide.Asker{})
	if second, _ := c.Render(plain, h, nil, decide.Asker{Reveal: true}); first != second {
		t.Error("a template without Secrets has another result for the machine")
	}
}

// A value that makes the config invalid is in no error.
func TestNoErrorQuotesTheValueOfASecret(t *testing.T) {
	const value = "planted: [value"
	c := New(Options{Secret: func(string, string, string) (string, error) { return value, nil }})
	defer c.Close()
	h := node(1)
	config := butaneTemplate("variant: fcos\nversion: 1.5.0\n" +
		"storage: {files: [{path: /a, contents: {inline: {{ secret \"s\" \"k\" }}}}]}\n")
	if masked, err := c.Render(config, h, nil, decide.Asker{}); err != nil {
		t.Fatalf("%+v %v", masked, err)
	}
	_, err := c.Render(config, h, nil, decide.Asker{Reveal: true})
	if err == nil || strings.Contains(err.Sentence, "planted") ||
		!strings.HasSuffix(err.Sentence, "with the values of its Secrets it does not compile, although it does with placeholders") {
		t.Errorf("%v", err)
	}
}

// The second rendering, with the values of Secrets, takes a place of the strangers' as the first does: the first
// is cached here, so that only the second ones count.
func TestRevealedRenderingsOfStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := atomic.Int32{}, atomic.Int32{}
		c := New(Options{
			Secret: func(string, string, string) (string, error) { return "value", nil },
			Render: func(parsed *compile.Template, facts *template.Facts) compile.Rendering {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				time.Sleep(100 * time.Millisecond)
				return parsed.Render(facts)
			},
		})
		defer c.Close()
		c.slots = newSlots(2)
		config, facts := kickstart(`# {{ secret "s" "k" }}`+"\n"), &template.Facts{IP: "127.1.0.1"}
		asker := decide.Asker{Caller: identity.Caller{Addr: addr("127.1.0.1")}}
		if _, err := c.Render(config, nil, facts, asker); err != nil {
			t.Fatal(err)
		}
		asker.Reveal = true
		const machines = 3 * maxPerSource
		answers := make(chan *fault.Error, machines)
		for range machines {
			go func() {
				_, err := c.Render(config, nil, facts, asker)
				answers <- err
			}()
		}
		served := 0
		for range machines {
			switch err := <-answers; {
			case err == nil:
				served++
			case !strings.Contains(err.Sentence, "too many machines wait"):
				t.Error(err)
			}
		}
		if served != maxPerSource || most.Load() != 1 {
			t.Errorf("%d of %d were rendered, %d at a time; want %d, 1 at a time",
				served, machines, most.Load(), maxPerSource)
		}
	})
}
