package app

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/serve/console"
	"glowplug/internal/testkit"
)

const (
	goodConfig   = "variant: fcos\nversion: 1.5.0\n"
	brokenConfig = "variant: fcos\nversion: 1.5.0\nsystemd: {units: [{name: a.service, enabeld: true}]}\n"
)

// configPages are the pages of configs for one user.
type configPages struct {
	*consoleUser
	at string
}

func newConfigPages(t *testing.T) (*consoleServer, *configPages) {
	t.Helper()
	s := newConsoleServer(t)
	return s, &configPages{newConsoleUser(t), s.admin}
}

// makeConfig stores a config.
func (s *consoleServer) makeConfig(name, source string, change ...func(*v1.IgnitionConfig)) {
	s.t.Helper()
	c := &v1.IgnitionConfig{Spec: v1.IgnitionConfigSpec{Type: v1.TypeIgnition, Format: v1.FormatButane, Config: source}}
	c.Kind, c.APIVersion, c.Name, c.Namespace = "IgnitionConfig", "v1", name, v1.NamespaceDefault
	for _, f := range change {
		f(c)
	}
	s.do(client.Request{Method: http.MethodPost, Resource: kinds.IgnitionConfigs, Namespace: c.Namespace, Body: c}, nil)
}

func (s *consoleServer) configOf(name string) *v1.IgnitionConfig {
	s.t.Helper()
	c := &v1.IgnitionConfig{}
	s.do(client.Request{Resource: kinds.IgnitionConfigs, Namespace: v1.NamespaceDefault, Name: name}, c)
	return c
}

// open returns a page.
func (u *configPages) open(path string) string {
	u.t.Helper()
	_, page := u.status(http.MethodGet, u.at+console.Prefix+path, nil)
	return page
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	textField   = regexp.MustCompile(`(?s)<textarea name="([^"]+)"[^>]*>\n(.*?)</textarea>`)
)

// fieldsOf returns the fields in the forms of a page, as a browser does.
func fieldsOf(page string) map[string]string {
	fields := map[string]string{}
	for _, pattern := range []*regexp.Regexp{hiddenField, textField} {
		for _, m := range pattern.FindAllStringSubmatch(page, -1) {
			fields[m[1]] = html.UnescapeString(m[2])
		}
	}
	return fields
}

// send sends a form as a browser does, with \r\n at the ends of lines, and returns the page.
func (u *configPages) send(path string, fields map[string]string) (status int, page string) {
	u.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		_ = form.WriteField(name, strings.ReplaceAll(value, "\n", "\r\n"))
	}
	_ = form.Close()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, u.at+console.Prefix+path, &body)
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Origin", u.at)
	answer, err := u.client.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// edit changes the source of a config in its form, and returns the page that shows what that does.
func (u *configPages) edit(name, source string) string {
	u.t.Helper()
	fields := fieldsOf(u.open("configs/default/" + name))
	fields["source"] = source
	_, page := u.send("configs/default/"+name+"/save", fields)
	return page
}

// wants fails unless a page shows all of these texts.
func wants(t *testing.T, page string, texts ...string) {
	t.Helper()
	shown := html.UnescapeString(page)
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("the page has no %q:\n%.5000s", text, page)
		}
	}
}

// TestASourceThatDoesNotCompileIsSavedKnowingly: the page says so in the server's words before it is saved.
func TestASourceThatDoesNotCompileIsSavedKnowingly(t *testing.T) {
	s, u := newConfigPages(t)
	s.makeConfig("worker", goodConfig)
	page := u.edit("worker", brokenConfig)
	wants(t, page, "It does not compile: it is stored with phase Error.", "unused key enabeld",
		"machines are still served the last good source, of generation 1", "+ systemd", "kubectl patch ign worker")
	if got := s.configOf("worker").Spec.Config; got != goodConfig {
		t.Errorf("it is saved without a confirmation: %q", got)
	}
	_, page = u.send("configs/default/worker/save", fieldsOf(page))
	wants(t, page, "It is written", "machines are still served the last good source")
	if got := s.configOf("worker"); got.Spec.Config != brokenConfig || got.Status.Phase != v1.PhaseError {
		t.Errorf("%s %q", got.Status.Phase, got.Spec.Config)
	}
	wants(t, u.open("configs/default/worker"), "An older result is served, that of generation 1")
	wants(t, u.open("configs?phase=Error"), "default/worker", "(an older result is served)", "1 configs, none hidden")

	s.makeConfig("strict", goodConfig, func(c *v1.IgnitionConfig) {
		c.Annotations = map[string]string{v1.AnnotationRejectBroken: "true"}
	})
	page = u.edit("strict", brokenConfig)
	wants(t, page, "It is not saved: IgnitionConfig \"strict\" is invalid", "unused key enabeld", brokenConfig)
}

// TestAConfigThatIsChangedMeanwhile: nothing is overwritten that the user has not seen.
func TestAConfigThatIsChangedMeanwhile(t *testing.T) {
	s, u := newConfigPages(t)
	s.makeConfig("worker", goodConfig)
	fields := fieldsOf(u.open("configs/default/worker"))
	if status, page := u.send("configs/default/worker/save", fieldsOf(u.edit("worker", goodConfig+"# <b>theirs</b>\n"))); status !=
		http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	fields["source"] = goodConfig + "# yours\n"
	fields["confirmed"] = "yes"
	_, page := u.send("configs/default/worker/save", fields)
	wants(t, page, "generation 2 is stored now", "The last write was a patch by local-admin", "- # <b>theirs</b>", "+ # yours")
	over := fieldsOf(page)
	_, page = u.send("configs/default/worker/save", over)
	wants(t, page, "Change the config default/worker", "- # <b>theirs</b>", "+ # yours")
	if status, _ := u.send("configs/default/worker/save", fieldsOf(page)); status != http.StatusSeeOther {
		t.Errorf("%d", status)
	}
	if got := s.configOf("worker").Spec.Config; got != goodConfig+"# yours\n" {
		t.Errorf("%q", got)
	}

	s.do(client.Request{Method: http.MethodDelete, Resource: kinds.IgnitionConfigs, Namespace: "default", Name: "worker"}, nil)
	_, page = u.send("configs/default/worker/save", over)
	wants(t, page, "It has been deleted since you opened it", "Make it again…")
	_, page = u.send("configs/default/worker/save", fieldsOf(page))
	wants(t, page, "Make the config default/worker")
	if status, _ := u.send("configs/default/worker/save", fieldsOf(page)); status != http.StatusSeeOther {
		t.Errorf("%d", status)
	}
	if got := s.configOf("worker"); got.Generation != 1 || got.Spec.Config != goodConfig+"# yours\n" {
		t.Errorf("%+v", got)
	}
}

// TestTwoUsersSaveAtATime: one of them wins, and the other is told.
func TestTwoUsersSaveAtATime(t *testing.T) {
	s, u := newConfigPages(t)
	s.makeConfig("worker", goodConfig)
	told := regexp.MustCompile("Save it once more to see both|generation [0-9]+ is stored now")
	for round := range 10 {
		fields := fieldsOf(u.open("configs/default/worker"))
		fields["confirmed"] = "yes"
		var won atomic.Int32
		var saving sync.WaitGroup
		for user := range 2 {
			own := maps.Clone(fields)
			own["source"] = fmt.Sprintf("%s# %d of %d\n", goodConfig, user, round)
			saving.Go(func() {
				status, page := u.send("configs/default/worker/save", own)
				if status == http.StatusSeeOther {
					won.Add(1)
				} else if !told.MatchString(page) {
					t.Errorf("%d %s", status, page)
				}
			})
		}
		saving.Wait()
		if won.Load() != 1 || s.configOf("worker").Generation != int64(round+2) {
			t.Errorf("round %d: %d have won, generation %d", round, won.Load(), s.configOf("worker").Generation)
		}
	}
}

// TestADeletionOfWhatTheUserHasSeen: a config that was changed after the question is asked for again.
func TestADeletionOfWhatTheUserHasSeen(t *testing.T) {
	s, u := newConfigPages(t)
	s.makeConfig("base", goodConfig)
	s.makeConfig("worker", goodConfig, func(c *v1.IgnitionConfig) { c.Spec.Layers = []v1.LayerReference{{Name: "base"}} })
	page := u.open("configs/default/base/delete")
	wants(t, page, "Delete the config default/base", "kubectl delete ign base -n default")
	asked := fieldsOf(page)
	u.send("configs/default/base/save", fieldsOf(u.edit("base", goodConfig+"# new\n")))
	_, page = u.send("configs/default/base/delete", asked)
	wants(t, page, "It has been changed since you were asked")
	if status, page := u.send("configs/default/base/delete", fieldsOf(page)); status >= http.StatusBadRequest {
		t.Errorf("%d %s", status, page)
	}
	wants(t, u.open("configs/default/base"), "not found")
}

// TestTheLargestConfigInAForm: the source of 2 MiB is shown, changed and saved; a larger one is refused in a sentence.
func TestTheLargestConfigInAForm(t *testing.T) {
	s, u := newConfigPages(t)
	line := "# \"<b>&amp;'\n"                                    // doubles in JSON and in a form
	size := testkit.Few(v1.MaxConfigBytes/16, v1.MaxConfigBytes) // with the race detector the whole takes minutes
	source := strings.Repeat(line, (size-len(goodConfig))/len(line)) + goodConfig
	s.makeConfig("large", source)
	changed := strings.Replace(source, line, "# changed\n", 1)
	page := u.edit("large", changed)
	wants(t, page, "- "+strings.TrimSuffix(line, "\n"), "+ # changed")
	if status, page := u.send("configs/default/large/save", fieldsOf(page)); status != http.StatusSeeOther {
		t.Fatalf("%d %.2000s", status, page)
	}
	if got := s.configOf("large").Spec.Config; got != changed {
		t.Errorf("%d bytes of %d", len(got), len(changed))
	}
	tooLarge := strings.Repeat(line, v1.MaxConfigBytes/len(line)+1)
	wants(t, u.edit("large", tooLarge), "It is not saved", "spec.config: Too long")
	if status, page := u.send("configs/default/large/save", map[string]string{"source": strings.Repeat("x", 9<<20)}); status !=
		http.StatusRequestEntityTooLarge || !strings.Contains(page, "the form has more than 8.0 MiB") {
		t.Errorf("%d %.500s", status, page)
	}
}

// TestConfigsAreFilteredWithCounts: a filter says how many it hides, and nothing of an object is markup.
func TestConfigsAreFilteredWithCounts(t *testing.T) {
	s, u := newConfigPages(t)
	s.makeConfig("good", goodConfig)
	s.makeConfig("xss", goodConfig+"'<script>alert(1)</script>': {}\n")
	wants(t, u.open("configs"), "2 configs, none hidden", "<script>alert(1)")
	wants(t, u.open("configs?phase=Error"), "showing 1 of 2 configs; 1 hidden: ")
	wants(t, u.open("configs?ns=none&type=%3Cscript%3E"), "showing 0 of 2 configs; 2 hidden: ", "No config matches the filter.")
	for _, path := range []string{"configs", "configs/default/xss", "configs/new?namespace=%3Cscript%3E&name=%22%3E%3Cscript%3E"} {
		if page := u.open(path); strings.Contains(page, "<script>") {
			t.Errorf("%s has markup of an object:\n%s", path, page)
		}
	}
}
