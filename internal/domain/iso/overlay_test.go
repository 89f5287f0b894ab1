package iso

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestReplace: an image with another text of the same length in its arguments is that which is customized
// with this text, byte for byte. A text that lies in two patches is found out.
func TestReplace(t *testing.T) {
	old, text := "placeholderofthetokenofonebootxy", "abcdefghijklmnopqrstuvwxyz234567"
	images := map[string][]byte{"CoreOS": coreOS(t, 1024, false), "CoreOS, legacy": coreOS(t, 1024, true)}
	esp := fatLayout{bits: 12, clusters: 200, files: map[string]string{
		"/EFI/BOOT/grub.cfg": grubConfig, "/loader/entries/01-arch.conf": entryConfig, "/arch/vmlinuz": "kernel",
		"/arch/initramfs.img": "initrd",
	}}
	images["FAT"] = layout{volume: "ARCH", rockRidge: true, files: map[string]string{"/readme": "x"},
		appended: esp.build(t)}.build(t)
	const places = 32 // of a block
	apart := map[string]int{}
	for name, image := range images {
		for room := range places {
			with := func(token string) *Overlay {
				t.Helper()
				args := []string{"a=" + strings.Repeat("z", 400+16*room), "t=" + token}
				o, err := open(t, image).Customize(Options{Args: args})
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			o := with(old)
			if !o.CanReplace(old) {
				apart[name]++
				continue
			}
			got, err := io.ReadAll(io.NewSectionReader(o.Replace(old, text), 0, o.Size()))
			want, failure := io.ReadAll(io.NewSectionReader(with(text), 0, o.Size()))
			if err != nil || failure != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, %d: another image: %v %v", name, room, err, failure)
			}
			if args := o.Replace(old, text).Args(); args[len(args)-1] != "t="+text || o.Args()[len(args)-1] != "t="+old {
				t.Errorf("%s: the arguments are %q", name, args)
			}
		}
	}
	t.Logf("of %d places, the text was in two patches in %v", places, apart)
	if apart["CoreOS"]+apart["CoreOS, legacy"] > 0 || apart["FAT"] > places/2 {
		t.Error("the text cannot be replaced")
	}
}
