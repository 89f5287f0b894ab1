package app

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"glowplug/internal/serve/api"
	"glowplug/internal/testkit"
)

// TestKernelSendsAssets: nothing between a file and its connection hides one from the other.
func TestKernelSendsAssets(t *testing.T) {
	assets, content := t.TempDir(), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(filepath.Join(assets, "file"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	var o Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--listen-tls", "", "--admin-listen", "",
		"--assets-dir", assets,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a, err := New(ctx, o, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kernel := &testkit.KernelListener{Listener: l}
	builder{a}.addListener("http", kernel, api.Listener{})
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/assets/file")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, content) {
		t.Errorf("%s, %v, %d bytes", resp.Status, err, len(got))
	}
	if sent := int(kernel.Sent.Load()); sent < len(content)-1024 { // net/http copies the first 512
		t.Errorf("the kernel has sent %d bytes of %d", sent, len(content))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
