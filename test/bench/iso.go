package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"glowplug/internal/domain/iso"
)

// kernelArguments compares setting kernel arguments on an ISO of 1 GB by an
// overlay with xorriso's rewrite of the image.
func (b *bench) kernelArguments(ctx context.Context) error {
	source := filepath.Join(b.dir, "kargs.iso")
	config := "menuentry 'Linux' {\n  linux /vmlinuz quiet\n  initrd /initrd\n}\n"
	tree := filepath.Join(b.dir, "tree")
	for name, text := range map[string]string{"boot/grub/grub.cfg": config, "vmlinuz": "kernel", "initrd": "initrd"} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Truncate(filepath.Join(tree, "vmlinuz"), 1<<30); err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if out, err := exec.CommandContext(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-V", "KARGS", "-o", source,
		tree).CombinedOutput(); err != nil {
		return fmt.Errorf("xorriso: %w\n%s", err, out)
	}
	defer os.Remove(source)

	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	start := time.Now()
	image, err := iso.Open(f, info.Size())
	if err != nil {
		return err
	}
	overlay, err := image.Customize(iso.Options{Args: []string{"console=ttyS0", "inst.ks=http://192.0.2.1/ks"}})
	if err != nil {
		return err
	}
	took := time.Since(start)

	patched := filepath.Join(b.dir, "grub.cfg")
	if err := os.WriteFile(patched, []byte(config), 0o644); err != nil {
		return err
	}
	target := filepath.Join(b.dir, "rewritten.iso")
	defer os.Remove(target)
	start = time.Now()
	if out, err := exec.CommandContext(ctx, "xorriso", "-indev", source, "-outdev", target, "-update", patched,
		"/boot/grub/grub.cfg").CombinedOutput(); err != nil {
		return fmt.Errorf("xorriso: %w\n%s", err, out)
	}
	rewrite := time.Since(start)
	b.add("kernel arguments on an ISO of 1 GB", fmt.Sprintf("%.1f ms, %d KB kept", float64(took.Microseconds())/1000,
		overlay.Kept()/1000),
		fmt.Sprintf("xorriso's rewrite %.0f ms, 1 GB", float64(rewrite.Microseconds())/1000), fmt.Sprintf("%.4f",
			took.Seconds()/rewrite.Seconds()), "< 50 ms, < 1 MB")
	return nil
}
