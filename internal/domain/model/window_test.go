package model

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	view := Empty(IsolateTenants)
	for name, spec := range map[string]string{
		"none": `{}`, "own": `{"provisioning":{"window":"1h","maxFetches":5}}`, "window": `{"provisioning":{"window":"1h"}}`,
		"unlimited": `{"provisioning":{"window":"0s","maxFetches":0,"token":false}}`, "forever": `{"bootMode":"forever"}`,
	} {
		for _, namespace := range []string{"open", "limited"} {
			value := []byte(`{"spec":` + spec + `}`)
			view = put(t, Hosts, view, Stored{Key: namespace + "/" + name, Revision: 1, Value: value})
		}
	}
	view = put(t, Namespaces, view, Stored{Key: "open", Value: []byte(`{}`)})
	view = put(t, Namespaces, view, Stored{Key: "limited", Value: []byte(
		`{"metadata":{"annotations":{"glowplug.dev/provisioning-window":"2h","glowplug.dev/provisioning-max-fetches":"20",` +
			`"glowplug.dev/provisioning-token":"true"}}}`)})
	for key, want := range map[string]Limits{
		"open/none": {}, "open/own": {time.Hour, 5, false}, "open/window": {time.Hour, 0, false}, "open/unlimited": {},
		"open/forever": {}, "limited/none": {2 * time.Hour, 20, true}, "limited/own": {time.Hour, 5, true},
		"limited/window": {time.Hour, 20, true}, "limited/unlimited": {}, "limited/forever": {0, 0, true},
	} {
		namespace, name, _ := strings.Cut(key, "/")
		if got := view.Limits(view.Host(Ref{Namespace: namespace, Name: name})); got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
}

func TestWindowInTheStatus(t *testing.T) {
	const status = `{"armed":"2026-01-01T10:00:00Z","provisioning":{"opened":"2026-01-01T10:00:00Z",` +
		`"closed":"2026-01-01T11:00:00Z","fetches":3,"firstClient":"192.0.2.1","clients":["2001:db8::1"],"boot":7,` +
		`"tokenIssued":"2026-01-01T10:30:00Z"}}`
	h, err := decodeHost(Stored{Key: "ns/n", Value: []byte(`{"status":` + status + `}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := h.Progress.Window
	if w == nil || !w.Opened.Equal(h.ArmedAt()) || w.Closed.Sub(w.Opened) != time.Hour || w.Fetches != 3 ||
		w.Boot != 7 || w.Token.Minute() != 30 ||
		w.First.String() != "192.0.2.1" || len(w.Clients) != 1 || w.Clients[0].String() != "2001:db8::1" {
		t.Errorf("%+v", w)
	}
	if again := WindowOf(w.Status()); !reflect.DeepEqual(again, w) {
		t.Errorf("%+v, want %+v", again, w)
	}
}

// put returns a view with a stored object.
func put[T any](t *testing.T, kind *Kind[T], v View, object Stored) View {
	t.Helper()
	decoded, err := kind.Decode(object, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kind.Put(v, object.Ref(), decoded)
}
