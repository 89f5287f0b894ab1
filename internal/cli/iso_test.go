package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/domain/iso"
)

func TestProgressLine(t *testing.T) {
	p := newProgress(io.Discard, "node.iso", 2_000_000_000)
	for _, c := range []struct {
		now  int64
		want string
	}{
		{0, "node.iso [..............................]   0% of 1.9Gi"},
		{1_000_000_000, "node.iso [###############...............]  50% of 1.9Gi"},
		{2_000_000_000, "node.iso [##############################] 100% of 1.9Gi"},
	} {
		if p.now = c.now; p.line() != c.want {
			t.Errorf("got  %s\nwant %s", p.line(), c.want)
		}
	}
	p.color = true
	if !strings.Contains(p.line(), "[\x1b[32m####") {
		t.Errorf("no color: %q", p.line())
	}
}

// A bar is for terminals: a pipe and a file see nothing of it.
func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, "x", 10)
	p.add(10)
	p.done()
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
}

// Interrupted in the middle: nothing remains.
func TestWriteISOInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "files/boot/grub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "files/boot/grub/grub.cfg"), []byte("linux /vmlinuz\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "a.iso")
	if err := buildISO(filepath.Join(dir, "files"), name, "A"); err != nil {
		t.Fatal(err)
	}
	file, img, err := openISO(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	overlay, err := img.Customize(iso.Options{Args: []string{"a=b"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := filepath.Join(dir, "out.iso")
	err = writeISO(ctx, overlay, out, func(float64) { cancel() })
	if err == nil || err.Error() != "interrupted" {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "out.iso*"))
	if len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}
