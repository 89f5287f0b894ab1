package app

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
)

// appOf returns a server with these flags that nobody has started.
func appOf(t *testing.T, flags ...string) *App {
	t.Helper()
	var o Options
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(append(flags, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--listen-tls", "")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a, err := New(ctx, o, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestWhoMaySeeTheNumbers: everybody where /metrics is open at every listener, else who has the right.
func TestWhoMaySeeTheNumbers(t *testing.T) {
	stranger := &user.DefaultInfo{Name: "stranger"}
	for flag, want := range map[string]bool{
		"--metrics=open": true, "--metrics=credential": false, "--metrics-listen=127.0.0.1:0": false,
	} {
		if got := mayGet(appOf(t, flag))(t.Context(), stranger, "/metrics"); got != want {
			t.Errorf("%s: %v", flag, got)
		}
	}
	if mayGet(appOf(t))(t.Context(), stranger, "/other") {
		t.Error("a stranger may get any path")
	}
}

// TestFacts: the console says where the server listens and has its data, how much room there is, and until when its
// certificates are valid.
func TestFacts(t *testing.T) {
	a := appOf(t)
	var text strings.Builder
	for _, f := range facts(a) {
		if f.IsBad && f.Name != "room" {
			t.Errorf("%+v", f)
		}
		text.WriteString(f.Name + ": " + f.Text + "\n")
	}
	for _, part := range []string{
		"http: http://127.0.0.1:", "store: " + a.settings.Store.DataDir, "MiB are free on the disk of",
		"own certificate: valid for 39", "certificate of the CA: valid for 36", "this server renews it",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in:\n%s", part, text.String())
		}
	}
}
