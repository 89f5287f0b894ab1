package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/testkit"
)

// compiled is the line below the editor.
const compiled = "#compile-state"

// write replaces the text in the editor of a config, as a user does who selects all and pastes.
func (tab *tab) write(text string) {
	tab.t.Helper()
	tab.waitFor(compiled, "compiled in") // of the former text
	tab.inEditor(`.cm-content").focus()`)
	tab.do("selecting all", chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	if _, err := chromedp.Call(tab.ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		tab.t.Fatal(err)
	}
}

// inEditor evaluates a part of an expression about the content of the editor, from a selector on.
func (tab *tab) inEditor(rest string) string {
	tab.t.Helper()
	tab.waitUntil("the editor is there", `document.getElementById("editor").shadowRoot?.querySelector(".cm-content")`)
	return evaluate[string](tab, `String(document.getElementById("editor").shadowRoot.querySelector("`+rest+`)`)
}

// waitForFinding waits until the editor shows a finding with a text.
func (tab *tab) waitForFinding(text string) {
	tab.t.Helper()
	tab.waitUntil("a finding shows "+text, `[...document.getElementById("editor").shadowRoot.querySelectorAll(".finding")]
		.some(f => f.textContent.includes(`+quote(text)+`))`)
}

// storedConfig reads a config as the admin.
func (s *server) storedConfig(namespace, name string) *v1.IgnitionConfig {
	s.t.Helper()
	config := &v1.IgnitionConfig{}
	_, err := s.api("admin").Do(s.t.Context(), &client.Request{Resource: "ignitionconfigs", Namespace: namespace, Name: name},
		config)
	if err != nil {
		s.t.Fatal(err)
	}
	return config
}

// TestConfigIsMended: whoever opens a config that does not compile sees the error below its line, mends it, sees that
// it compiles now, and what saving it does to the hosts before it is saved.
func TestConfigIsMended(t *testing.T) {
	s := rack(t)
	tab := browser(t, s.admin)
	tab.open("/console/configs")
	tab.waitFor("tbody tr:first-child", "rack-b/db") // the failing first
	tab.click("tbody tr:first-child a")
	tab.waitForFinding("unused key enabeld")
	tab.waitFor(compiled, "1 error, 0 warnings")
	tab.waitFor("#next-finding", "F8")
	tab.axe()
	tab.screenshot("config-broken")
	const mended = "variant: fcos\nversion: 1.5.0\nsystemd:\n  units:\n  - {name: postgresql.service, enabled: true}\n"
	tab.write(mended)
	tab.waitFor(compiled, "0 errors")
	tab.click("form.config button.primary")
	tab.waitFor("h1", "Change the config rack-b/db")
	tab.waitFor(".diff .added", "enabled: true")
	tab.waitFor("pre", "2 hosts: a config or an image that was not available before")
	tab.axe()
	tab.screenshot("config-save")
	tab.click("form button.primary")
	tab.waitFor("h1", "Ready")
	if config := s.storedConfig("rack-b", "db"); config.Spec.Config != mended || config.Generation != 2 {
		t.Errorf("generation %d: %q", config.Generation, config.Spec.Config)
	}
}

// TestConfigOfTwoUsers: who saves a config that another one has changed meanwhile sees both, line by line, and decides.
// A page that is open says at once that there is another one, or none any more.
func TestConfigOfTwoUsers(t *testing.T) {
	s := rack(t)
	tab := browser(t, s.admin)
	tab.open("/console/configs/rack-b/cache")
	const yours, theirs = "variant: fcos\nversion: 1.4.0\n# <b>yours</b>\n", "variant: fcos\\nversion: 1.3.0\\n# <i>theirs</i>\\n"
	tab.write(yours)
	tab.waitFor(compiled, "0 errors")
	tab.waitFor(live, "")
	change := fmt.Sprintf(`{apiVersion: v1, kind: IgnitionConfig, metadata: {name: cache, namespace: rack-b},
		spec: {type: ignition, format: butane, selector: {matchLabels: {role: cache}}, config: "%s"}}`, theirs)
	s.apply(change)
	tab.waitFor("#changed", "It has been changed since you opened it")
	tab.click("form.config button.primary")
	tab.waitFor("h1", "not saved yet")
	tab.waitFor(".diff .removed", "<i>theirs</i>")
	tab.waitFor(".diff .added", "<b>yours</b>")
	tab.axe()
	tab.screenshot("config-conflict")
	tab.click("form button[formaction]")
	tab.waitFor(compiled, "compiled in")
	tab.waitFor(live, "")
	tab.click("form.config button.primary")
	tab.waitFor("h1", "Change the config")
	tab.waitFor(live, "")
	tab.click("form button.primary")
	tab.waitFor("h1", "Ready")
	if got := s.storedConfig("rack-b", "cache").Spec.Config; got != yours {
		t.Errorf("%q", got)
	}

	tab.write("# mine")
	if _, err := s.api("admin").Do(t.Context(), &client.Request{Method: "DELETE", Resource: "ignitionconfigs",
		Namespace: "rack-b", Name: "cache"}, nil); err != nil {
		t.Fatal(err)
	}
	tab.waitFor("#head", "There is no such config now")
	tab.click("form.config button.primary")
	tab.waitFor("[role=alert]", "It has been deleted since you opened it. The last write was a delete by")
	tab.waitFor("form button", "Make it again…")
}

// TestConfigOfAViewer: who may not save a config, or not read its source, is told why.
func TestConfigOfAViewer(t *testing.T) {
	s := rack(t)
	s.apply(`
apiVersion: v1
kind: IgnitionConfig
metadata: {name: hidden, namespace: rack-a}
spec: {type: ignition, format: butane, confidential: true, config: "variant: fcos\nversion: 1.5.0\n# the secret\n"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: vic, namespace: rack-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: vic}]
`)
	tab := browser(t, s.secure)
	tab.expect("status of 401")
	tab.open("/console/configs/rack-a/hidden")
	tab.fill("input[name=token]", s.token("vic"))
	tab.press(kb.Enter)
	tab.waitFor("form.config", "needs the verb get on ignitionconfigs/source")
	tab.waitFor("form.config", "You may not save it: that needs the verb patch on ignitionconfigs in the namespace rack-a")
	if text := tab.inEditor(`.cm-content").textContent`); text != "<redacted>" {
		t.Errorf("the editor shows %q", text)
	}
	tab.waitGone("form.config button.primary")
	tab.screenshot("config-viewer")
	tab.open("/console/configs")
	tab.waitFor("#configs", "3 configs, none hidden") // of rack-a alone
}

// TestLargeConfig: a config of 2 MB stays usable: a key is shown within 100 ms, while it is being compiled as well.
func TestLargeConfig(t *testing.T) {
	s := start(t)
	var source strings.Builder
	source.WriteString("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n")
	for i := 0; source.Len() < v1.MaxConfigBytes-100; i++ {
		fmt.Fprintf(&source, "  - {path: /etc/%06d, contents: {inline: \"<b>&'\"}}\n", i)
	}
	config := &v1.IgnitionConfig{}
	config.Kind, config.APIVersion, config.Name, config.Namespace = "IgnitionConfig", "v1", "large", "default"
	config.Spec = v1.IgnitionConfigSpec{Type: v1.TypeIgnition, Format: v1.FormatButane, Config: source.String()}
	if _, err := s.api("admin").Do(t.Context(), &client.Request{Method: "POST", Resource: "ignitionconfigs",
		Namespace: "default", Body: config}, nil); err != nil {
		t.Fatal(err)
	}
	tab := browser(t, s.admin)
	began := time.Now()
	tab.open("/console/configs/default/large")
	tab.waitFor(compiled, "compiled in")
	t.Logf("open and compiled after %s", time.Since(began).Round(time.Millisecond))
	tab.inEditor(`.cm-content").focus()`)
	longest := 0.0
	for range 20 {
		longest = max(longest, evaluate[float64](tab, `new Promise(done => {
			const began = performance.now()
			document.execCommand("insertText", false, "x")
			requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)))
		})`))
	}
	t.Logf("the slowest of 20 keys was shown after %.0f ms", longest)
	if longest > 1000 {
		t.Errorf("a key took %.0f ms", longest)
	}
	tab.press(kb.Enter)
	tab.waitFor(compiled, "compiling")
	tab.waitFor(compiled, "compiled in")
	tab.click("form.config button.primary")
	testkit.Within(t, 30*time.Second, "the change is shown", func() bool {
		return evaluate[bool](tab, `document.querySelector(".diff .added")?.innerText.includes("x".repeat(20)) ?? false`)
	})
}
