package iso

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestReplace: an image with another text of the same length in its arguments is that which is customized
// with this text, byte for byte. A text that lies in two patches is found out.
func TestReplace(t *testing.T) {
	old, text := "placeholderofthetokenofonebootxy", "abcdefghijklmnopqrstuvwxyz234567"
	images := map[string][]byte{"CoreOS": coreOS(t, 1024, false), "CoreOS, legacy": coreOS(t, 1024, true)}
	for _, bits := range []int{12, 16} {
		esp := fatLayout{bits: bits, clusters: map[int]int{12: 200, 16: 4200}[bits], files: map[string]string{
			"/EFI/BOOT/grub.cfg": grubConfig, "/loader/entries/01-arch.conf": entryConfig, "/arch/vmlinuz": "kernel",
			"/arch/initramfs.img": "initrd",
		}}
		images[fmt.Sprintf("FAT%d", bits)] = layout{volume: "ARCH", rockRidge: true,
			files: map[string]string{"/readme": "x"}, appended: esp.build(t)}.build(t)
	}
	apart := map[string]int{}
	for name, image := range images {
		for room := range 64 { // the text lies at every place of a block
			with := func(token string) *Overlay {
				t.Helper()
				o, err := open(t, image).Customize(Options{Args: []string{"a=" + strings.Repeat("z", 400+8*room), "t=" + token}})
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
	t.Logf("of 64 places, the text was in two patches in %v", apart)
	if apart["CoreOS"]+apart["CoreOS, legacy"] > 0 || apart["FAT12"] == 64 || apart["FAT16"] == 64 {
		t.Error("the text cannot be replaced")
	}
}
