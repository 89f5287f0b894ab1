package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBrowserReachesTheServer: the browser shows what the admin listener and HTTPS answer, and reports nothing.
func TestBrowserReachesTheServer(t *testing.T) {
	s := start(t)
	t.Logf("the browser started in %s", browserStart.Round(time.Millisecond))
	for _, origin := range []string{s.admin, s.secure} {
		tab := browser(t, origin)
		tab.expect("/favicon.ico") // the browser asks for it where a page has no icon
		tab.open("/version")
		tab.waitFor("body", `"gitVersion"`)
		if secure := evaluate[bool](tab, "isSecureContext"); !secure {
			t.Errorf("%s is no secure context", origin)
		}
		tab.check()
	}
}

// TestUsersReachTheAPI: each user of the rig is who he is said to be, and objects that are applied are there.
func TestUsersReachTheAPI(t *testing.T) {
	s := start(t)
	s.apply("apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: node-1, namespace: rack-a}\nspec: {ip: 192.0.2.11}\n")
	for user, want := range map[string]int{"admin": 200, "ann": 403} {
		resp, err := s.http(user).Get(s.secure + "/api/v1/namespaces/rack-a/baremetalhosts/node-1")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s gets %d, not %d", user, resp.StatusCode, want)
		}
	}
}

// scratch serves a page with a policy like the console's, and what else a path of the map has.
func scratch(t *testing.T, page string, more map[string]string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
			"img-src *; connect-src *; worker-src 'self'; require-trusted-types-for 'script'; trusted-types scratch")
		content, ok := more[r.URL.Path]
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><html lang="en"><title>scratch</title><link rel="icon" href="/icon.svg">
				<meta name="viewport" content="width=device-width"><body><p>scratch</p>`+page)
		case ok || r.URL.Path == "/icon.svg":
			kind := "text/javascript"
			if !ok {
				kind, content = "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"/>`
			}
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, content)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestWatcher: a tab reports everything that its test has to fail for, and nothing else.
func TestWatcher(t *testing.T) {
	needs(t)
	other := scratch(t, "", nil)
	worker := `<script src="/s.js"></script>`
	const startWorker = `const p = trustedTypes.createPolicy("scratch", {createScriptURL: u => u})
		new SharedWorker(p.createScriptURL("/w.js"))`
	for name, test := range map[string]struct {
		page, script, worker string
		want                 []string // parts of entries; none: nothing is reported
	}{
		"a clean page":   {page: `<h1>hello</h1><script src="/s.js"></script>`, script: `console.log("fine")`},
		"console.error":  {worker, `console.error("broken", {a: 1})`, "", []string{`console.error: "broken" Object`}},
		"console.warn":   {worker, `console.warn("odd")`, "", []string{`console.warning: "odd"`}},
		"console.assert": {worker, `console.assert(false, "untrue")`, "", []string{`console.assert: "untrue"`}},
		"an exception":   {worker, `throw new Error("thrown")`, "", []string{"exception: Error: thrown"}},
		"an inline script": {"<script>1</script>", "", "", []string{"script-src-elem by kInlineViolation",
			"log, error of security"}},
		"an inline style": {`<p style="color: red">x`, "", "", []string{"style-src-attr by kInlineViolation"}},
		"a refused sink": {worker, `document.body.innerHTML = "<b>x</b>"`, "",
			[]string{"kTrustedTypesSinkViolation", "exception: TypeError"}},
		"a missing file": {`<img src="/none.png" alt="">`, "", "", []string{"404"}},
		"another origin": {`<img src="` + other + `/icon.svg" alt="">`, "", "", []string{"another origin: " + other}},
		"another machine": {`<img src="http://elsewhere.invalid/x" alt="">`, "", "",
			[]string{"another origin: http://elsewhere.invalid/x", "left the machine: GET elsewhere.invalid"}},
		"a rejected promise": {worker, `Promise.reject(new Error("nobody looks"))`, "", []string{"exception: Error: nobody looks"}},
		"a worker's error":   {worker, startWorker, `console.error("in the worker")`, []string{`"in the worker"`}},
		"a worker's request": {worker, startWorker, // once it is watched
			`setTimeout(() => fetch("` + other + `/icon.svg", {mode: "no-cors"}), 300)`, []string{"another origin: " + other}},
		"a worker's request to another machine": {worker, startWorker,
			`fetch("http://elsewhere.invalid/w", {mode: "no-cors"})`, []string{"left the machine: GET elsewhere.invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			origin := scratch(t, test.page, map[string]string{"/s.js": test.script, "/w.js": test.worker})
			tab := browser(t, origin)
			tab.open("/")
			if test.want == nil {
				return // the end of the test checks it
			}
			tab.reports(test.want...)
		})
	}
}

// TestHelpers: a tab clicks, fills, waits, sleeps and looks as a user does.
func TestHelpers(t *testing.T) {
	needs(t)
	origin := scratch(t, `<h1>scratch</h1><label>Name <input id="name" value="old"></label>
		<label>Rack <select id="rack"><option>a<option>b</select></label> <button id="go">Go</button><p id="said"></p>
		<a href="/">again</a><script src="/s.js"></script>`, map[string]string{"/s.js": `
		const at = id => document.getElementById(id)
		let changes = 0
		at("rack").addEventListener("change", () => changes++)
		at("go").addEventListener("click", () => setTimeout(() => {
			at("said").textContent = at("name").value + " in " + at("rack").value + " " + changes
		}, 200))`})
	tab := browser(t, origin)
	tab.open("/")
	tab.fill("#name", "node-1")
	tab.fill("#rack", "b")
	tab.click("#go")
	tab.waitFor("#said", "node-1 in b 1")
	if got := tab.text("#said"); got != "node-1 in b 1" {
		t.Errorf("the text is %q", got)
	}
	tab.fill("#name", "")
	tab.click("#go")
	tab.waitFor("#said", "in b 1")
	tab.click("a")
	tab.waitUntil("the page is new", `document.querySelector("#name").value == "old"`)
	tab.waitGone("h2")

	for range 2 {
		evaluate[bool](tab, "setInterval(() => window.ticks = (window.ticks ?? 0) + 1, 10) > 0")
		tab.freeze()
		before := evaluate[int](tab, "window.ticks ?? 0")
		time.Sleep(100 * time.Millisecond)
		if after := evaluate[int](tab, "window.ticks ?? 0"); after != before {
			t.Error("a page that is frozen goes on")
		}
		tab.thaw()
		tab.waitUntil("the page goes on", fmt.Sprintf("window.ticks > %d && document.visibilityState == 'visible'", before))
	}
	tab.phone()
	if width := evaluate[int](tab, "innerWidth"); width != phoneWidth {
		t.Errorf("a phone's page is %d wide", width)
	}
	tab.desktop()
	for _, scheme := range []string{"dark", "light"} {
		tab.scheme(scheme)
		if !evaluate[bool](tab, `matchMedia("(prefers-color-scheme: `+scheme+`)").matches`) {
			t.Errorf("the page is not %s", scheme)
		}
	}
	dir := t.TempDir()
	t.Setenv("GLOWPLUG_SCREENSHOTS", dir)
	tab.screenshot("scratch")
	if pictures, _ := filepath.Glob(filepath.Join(dir, "console-scratch*.png")); len(pictures) != 3 {
		t.Errorf("the pictures are %q", pictures)
	}
	second := tab.sibling()
	second.open("/")
	evaluate[bool](second, `localStorage.setItem("a", "b") ?? true`)
	if evaluate[string](tab, `localStorage.getItem("a")`) != "b" {
		t.Error("tabs of one user share no storage")
	}
	if evaluate[bool](browserAt(t, origin), `localStorage.getItem("a") != null`) {
		t.Error("tabs of two tests share a storage")
	}
}

func browserAt(t *testing.T, origin string) *tab {
	t.Helper()
	tab := browser(t, origin)
	tab.open("/")
	return tab
}

// TestAxe: axe finds a field without a name, and a contrast that is too low in the dark alone.
func TestAxe(t *testing.T) {
	needs(t)
	origin := scratch(t, `<link rel="stylesheet" href="/s.css"><main><h1>scratch</h1><input></main>`, nil)
	tab := browser(t, origin)
	tab.expect("/s.css")
	tab.open("/")
	began := time.Now()
	found := tab.violations()
	t.Logf("axe took %s", time.Since(began).Round(time.Millisecond))
	if len(found) != 1 || found[0].Rule != "label" || len(found[0].Nodes) != 1 {
		t.Errorf("axe finds %+v", found)
	}
}

// TestAxeIsTheRelease: a tarball with other bytes is refused.
func TestAxeIsTheRelease(t *testing.T) {
	needs(t)
	dir := t.TempDir()
	path := filepath.Join(dir, axePackage+"-"+axeVersion+".tgz")
	if err := os.WriteFile(path, []byte("another one"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := cachedAxe(dir); err == nil || !strings.Contains(err.Error(), "has the integrity sha512-") {
		t.Errorf("%v", err)
	}
}
