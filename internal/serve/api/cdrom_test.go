package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

func TestCdromInUse(t *testing.T) {
	readers := map[string][]string{"g10/busy": {"a", "b", "c", "d", "e", "f"}}
	a := start(t, func(opts *Options) {
		opts.InUse = func(namespace, name string) []string { return readers[namespace+"/"+name] }
	})
	for _, name := range []string{"busy", "idle"} {
		a.must(http.StatusCreated, "POST", cdroms, &v1.ISCSICdrom{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ISCSICdrom"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		})
	}
	answer := a.must(http.StatusConflict, "DELETE", cdroms+"/busy", nil).status(t)
	if !strings.Contains(answer.Message, "a, b, c, d, e and 1 more") || !strings.Contains(answer.Message, "--force") {
		t.Errorf("%+v", answer)
	}
	a.must(http.StatusConflict, "DELETE", cdroms, nil)
	a.must(http.StatusOK, "GET", cdroms+"/busy", nil)
	a.must(http.StatusOK, "DELETE", cdroms+"/busy?gracePeriodSeconds=0", nil)
	a.must(http.StatusNotFound, "GET", cdroms+"/busy", nil)
	delete(readers, "g10/busy")
	a.do("DELETE", cdroms+"/idle", nil)
	a.must(http.StatusNotFound, "GET", cdroms+"/idle", nil)
}

// TestUpload has bodies larger than those of objects pass to the handler of
// images, behind the same authentication.
func TestUpload(t *testing.T) {
	a := startOn(t, newStores(t), Listener{NeedsLoopback: true}, func(opts *Options) {
		opts.Upload = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %d %v", r.Method, n, err)
		})
	})
	const path = "/api/v1/namespaces/g10/iscsicdroms/live/iso"
	body := strings.Repeat("x", MaxBodyBytes+1)
	a.must(http.StatusUnauthorized, "PUT", path, body)
	bearer := []string{"Authorization", "Bearer admin-token"}
	if got := string(a.must(http.StatusOK, "PUT", path, body, bearer...).body); got != fmt.Sprintf("PUT %d <nil>",
		len(body)) {
		t.Errorf("%s", got)
	}
	a.must(http.StatusForbidden, "PUT", path, "x", append(bearer, "Impersonate-User", "system:anonymous")...)
	a.must(http.StatusNotFound, "GET", "/api/v1/namespaces/g10/baremetalhosts/live/iso", nil, bearer...)
}

// What an image is pinned to holds until another release is asked for.
func TestCdromPin(t *testing.T) {
	a := start(t, func(opts *Options) {
		opts.ImageWarnings = func(_ model.View, c *v1.ISCSICdrom) []string {
			return []string{"hosts of " + c.Namespace + "/" + c.Name + " cannot read it"}
		}
	})
	cdrom := &v1.ISCSICdrom{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ISCSICdrom"},
		ObjectMeta: metav1.ObjectMeta{Name: "fcos"}}
	cdrom.Spec.Stream = &v1.StreamImage{Name: "stable"}
	cdrom.Status.Release = "from the client"
	made := a.must(http.StatusCreated, "POST", cdroms, cdrom)
	if len(made.warnings) != 1 || made.warnings[0] != "hosts of g10/fcos cannot read it" {
		t.Errorf("%q", made.warnings)
	}
	release := func(body []byte) string {
		t.Helper()
		var c v1.ISCSICdrom
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatal(err)
		}
		return c.Status.Release
	}
	if got := release(made.body); got != "" {
		t.Errorf("a client's status is taken: %q", got)
	}
	patch := func(path, body string) string {
		t.Helper()
		return release(a.must(http.StatusOK, "PATCH", cdroms+"/fcos"+path, body, "Content-Type",
			"application/merge-patch+json").body)
	}
	pinned := func() {
		t.Helper()
		if got := patch("/status", `{"status":{"release":"1"}}`); got != "1" {
			t.Fatalf("pinned to %q", got)
		}
	}
	for body, want := range map[string]string{
		`{"spec":{"description":"x"}}`:                      "1",
		`{"spec":{"stream":{"update":"follow"}}}`:           "1",
		`{"spec":{"stream":{"update":"pinned"}}}`:           "1",
		`{"spec":{"stream":{"architecture":"x86_64"}}}`:     "1", // as it is by default
		`{"spec":{"stream":{"architecture":"aarch64"}}}`:    "",
		`{"spec":{"stream":{"format":"pxe"}}}`:              "",
		`{"spec":{"stream":{"name":"next"}}}`:               "",
		`{"spec":{"stream":{"release":"41.20241215.3.0"}}}`: "",
	} {
		patch("", `{"spec":{"description":null,"stream":{"name":"stable","update":null,"architecture":null,"format":null,"release":null}}}`)
		pinned()
		if got := patch("", body); got != want {
			t.Errorf("%s: pinned to %q, want %q", body, got, want)
		}
	}
}
