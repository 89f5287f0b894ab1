package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

var cdromType = metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: "v1"}

func TestISOWait(t *testing.T) {
	image := func(change func(*v1.ISCSICdrom)) *v1.ISCSICdrom {
		c := &v1.ISCSICdrom{TypeMeta: cdromType, ObjectMeta: metav1.ObjectMeta{Name: "fcos", Generation: 2,
			ResourceVersion: "7"}}
		c.Spec.Stream = &v1.StreamImage{Name: "stable"}
		change(c)
		return c
	}
	condition := func(c *v1.ISCSICdrom, status metav1.ConditionStatus, generation int64) {
		c.Status.Conditions = []metav1.Condition{{Type: v1.ConditionUpToDate, Status: status, ObservedGeneration: generation}}
	}
	stale := image(func(c *v1.ISCSICdrom) { c.Status.Phase = v1.PhaseReady; condition(c, metav1.ConditionTrue, 1) })
	coming := image(func(c *v1.ISCSICdrom) {
		c.Status.Phase = v1.PhaseUploading
		c.Status.Download = &v1.DownloadProgress{Release: "44", File: "disk", Received: 450_000_000, Total: 1_000_000_000}
		condition(c, metav1.ConditionFalse, 2)
	})
	ready := image(func(c *v1.ISCSICdrom) {
		c.Status = v1.ISCSICdromStatus{Phase: v1.PhaseReady, ServedRelease: "44", ISOSize: 1_000_000_000}
		condition(c, metav1.ConditionTrue, 2)
	})
	failed := image(func(c *v1.ISCSICdrom) {
		c.Status = v1.ISCSICdromStatus{Phase: v1.PhaseReady, ServedRelease: "43",
			ErrorMessage: "spec.stream: the server answered 404 Not Found; release 43 is still served"}
		condition(c, metav1.ConditionFalse, 2)
	})
	failed.Namespace = "g10"
	idle := image(func(c *v1.ISCSICdrom) {
		c.Status = v1.ISCSICdromStatus{Phase: v1.PhasePending,
			ErrorMessage: "no image was uploaded yet: glowplug iso upload fcos FILE -n g10"}
	})
	unreadable := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: "fcos"}, Status: v1.ISCSICdromStatus{
		Phase: v1.PhaseError, ErrorMessage: "a.iso: no such file"}}
	plain := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: "fcos"}, Status: v1.ISCSICdromStatus{Phase: v1.PhaseReady,
		ISOSize: 5}}
	for name, c := range map[string]struct {
		answers []*v1.ISCSICdrom
		args    []string
		code    int
		want    string
	}{
		"comes": {[]*v1.ISCSICdrom{stale, coming, ready}, nil, 0, "fcos is ready, release 44, 953.7Mi\n"},
		"fails": {[]*v1.ISCSICdrom{failed}, nil, 1,
			"error: ISCSICdrom fcos: spec.stream: the server answered 404 Not Found; release 43 is still served\nhint: the " +
				"server tries again by itself; `kubectl describe cdrom fcos -n g10` has the details\n"},
		"cannot be read": {[]*v1.ISCSICdrom{unreadable}, nil, 1,
			"error: ISCSICdrom fcos: a.iso: no such file\nhint: `kubectl describe cdrom fcos` has the details\n"},
		"needs an upload": {[]*v1.ISCSICdrom{idle}, []string{"--timeout", "100ms"}, 1, "error: ISCSICdrom fcos is not ready " +
			"after 100ms: Pending: no image was uploaded yet: glowplug iso upload fcos FILE -n g10\n"},
		"no stream": {[]*v1.ISCSICdrom{plain}, nil, 0, "fcos is ready, 5B\n"},
		"takes long": {[]*v1.ISCSICdrom{coming}, []string{"--timeout", "100ms"}, 1,
			"error: ISCSICdrom fcos is not ready after 100ms: Uploading downloading 44 disk: 45% of 953.7Mi\nhint:"},
		"is none":   {nil, nil, 1, "\nhint: it was looked for in the namespace g10: -n names another one\n"},
		"backwards": {nil, []string{"--timeout", "-1s"}, 2, "--timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(asGlowplug(imageStates(c.answers)))
			defer server.Close()
			var out, errs strings.Builder
			code := Main(append([]string{"iso", "wait", "fcos", "-n", "g10", "--server", server.URL}, c.args...),
				strings.NewReader(""), &out, &errs)
			if text := out.String() + errs.String(); code != c.code || !strings.Contains(text, c.want) {
				t.Errorf("%d, want %d\n%s", code, c.code, text)
			}
		})
	}
}

// imageStates is a server whose image has these states one after the other. It ends each
// watch after one change, as a server may.
func imageStates(states []*v1.ISCSICdrom) http.HandlerFunc {
	var mu sync.Mutex
	now := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case states == nil:
			http.NotFound(w, r)
		case r.URL.Path == "/api/v1/namespaces/g10/iscsicdroms/fcos":
			_ = json.NewEncoder(w).Encode(states[now])
		case r.URL.Path == "/api/v1/namespaces/g10/iscsicdroms" && r.FormValue("watch") == "true" &&
			r.FormValue("fieldSelector") == "metadata.name=fcos":
			if now < len(states)-1 {
				now++
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": states[now]})
			}
		default:
			http.NotFound(w, r)
		}
	}
}
