package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// isolinuxFiles are the boot loader of Debian's package isolinux and its library.
var isolinuxFiles = []string{"/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"}

// TestMovedConfigBoots: an image boots with its arguments set where its boot configuration had to move
// behind the image. GRUB on BIOS reads whole blocks of 32 KiB, of a CD that it does not know the size
// of, so that the sizes put the configuration at different places of such a block. isolinux and GRUB on
// UEFI read what they need.
func TestMovedConfigBoots(t *testing.T) {
	testkit.NeedsThorough(t)
	needs(t, "qemu-system-x86_64", "grub-mkrescue", "xorriso", "mformat")
	kernels, _ := filepath.Glob("/boot/vmlinuz-*-amd64")
	if len(kernels) == 0 {
		t.Skip("needs a Debian kernel in /boot (linux-image-cloud-amd64)")
	}
	wanted := append([]string{"/usr/lib/grub/i386-pc", "/usr/lib/grub/x86_64-efi", ovmfCode}, isolinuxFiles...)
	for _, name := range wanted {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("needs Debian's packages grub-pc-bin, grub-efi-amd64-bin, ovmf and isolinux: %v", err)
		}
	}
	kernel := kernels[len(kernels)-1]
	const room = 60 // free bytes in the last block of the configuration: fewer than the argument takes
	for _, c := range []struct {
		boot   string
		blocks int // of 2 KiB that the configuration takes in the image
	}{
		{"grub", 1}, {"grub", 2}, {"grub", 8}, {"grub", 16}, {"grub", 33},
		{"isolinux", 1}, {"isolinux", 16}, {"uefi", 1}, {"uefi", 16},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.boot, c.blocks), func(t *testing.T) {
			image := movableISO(t, c.boot, kernel, c.blocks*2048-room)
			copied := filepath.Join(t.TempDir(), "copy.iso")
			argument := "moved=" + strings.Repeat("y", 2*room)
			output(t, program, "iso", "customize", image, "-o", copied, "--karg", argument)
			before, after := fileSize(t, image), fileSize(t, copied)
			if after <= before {
				t.Fatalf("the configuration did not move: %d bytes, before %d", after, before)
			}
			console := bootCD(t, copied, c.boot == "uefi")
			if !strings.Contains(console, "Command line: ") || !strings.Contains(console, argument) {
				t.Errorf("no kernel with the argument:\n%s", launch.Tail(console, 2000))
			}
		})
	}
}

// movableISO makes an image whose boot configuration has a size in bytes.
func movableISO(t *testing.T, boot, kernel string, size int) string {
	t.Helper()
	tree, image := t.TempDir(), filepath.Join(t.TempDir(), "image.iso")
	vmlinuz, err := os.ReadFile(kernel)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"vmlinuz": string(vmlinuz)}
	padded := func(text string) string { return strings.Repeat("#\n", (size-len(text))/2) + text }
	if boot == "isolinux" {
		for _, name := range isolinuxFiles {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files["isolinux/"+filepath.Base(name)] = string(content)
		}
		files["isolinux/isolinux.cfg"] = padded("default a\nlabel a\n kernel /vmlinuz\n append console=ttyS0 panic=-1\n")
	} else {
		files["boot/grub/grub.cfg"] = padded("set timeout=0\nmenuentry a {\n linux /vmlinuz console=ttyS0 panic=-1\n}\n")
	}
	if err := writeTree(tree, files); err != nil {
		t.Fatal(err)
	}
	if boot == "isolinux" {
		output(t, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-no-pad", "-o", image, "-b", "isolinux/isolinux.bin",
			"-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", tree)
		return image
	}
	// For one firmware alone: an image for both has a partition table of the kind whose copy lies at the end.
	platform := map[string]string{"grub": "i386-pc", "uefi": "x86_64-efi"}[boot]
	output(t, "grub-mkrescue", "--directory=/usr/lib/grub/"+platform, "-o", image, tree)
	return image
}

// bootCD boots a machine with an image as its CD, and returns what it writes to its serial port until it
// resets, which a kernel without a root file system does.
func bootCD(t *testing.T, image string, uefi bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	args := []string{"-machine", "q35,graphics=off", "-accel", "tcg", "-m", "512", "-display", "none", "-serial", "stdio",
		"-monitor", "none", "-no-reboot", "-net", "none", "-cdrom", image}
	if uefi {
		args = append(args, "-drive", "if=pflash,format=raw,readonly=on,file="+ovmfCode, "-snapshot",
			"-drive", "if=pflash,format=raw,file="+ovmfVars)
	}
	console := &launch.Output{}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	defer func() { cancel(); <-done }()
	shown := func() string { return escapes.ReplaceAllString(console.String(), "") }
	for {
		select {
		case <-done:
			return shown()
		case <-time.After(200 * time.Millisecond):
		}
		// The prompt of GRUB is where it ends without a configuration, and waits for ever.
		if text := shown(); strings.Contains(text, "grub>") || strings.Contains(text, "Kernel panic") {
			return text
		}
	}
}

func fileSize(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
