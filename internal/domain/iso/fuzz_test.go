package iso

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Whatever the bytes are: no panic, no endless loop, and a patched image that
// reads as what its segments say, with the arguments in each patched file.
func FuzzCustomize(f *testing.F) {
	for _, image := range seeds(f) {
		f.Add(image, "console=ttyS0 "+strings.Repeat("x", 100))
	}
	f.Add([]byte("no image"), "a=b")
	f.Fuzz(func(t *testing.T, image []byte, args string) {
		if len(image) > 1<<20 {
			return
		}
		before := bytes.Clone(image)
		img, err := Open(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			return
		}
		_, _, _ = img.BootFiles()
		o, err := img.Customize(Options{Args: []string{args}, BaseURL: "http://s"})
		if err != nil {
			return
		}
		if !bytes.Equal(before, image) {
			t.Fatal("the image was written to")
		}
		whole := make([]byte, o.Size())
		if n, err := o.ReadAt(whole, 0); int64(n) != o.Size() || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, o.Size(), err)
		}
		var joined []byte
		for _, s := range o.AppendSegments(nil, 0, o.Size()) {
			switch {
			case s.Off != int64(len(joined)):
				t.Fatal("the segments have a gap")
			case s.Data != nil:
				joined = append(joined, s.Data...)
			default:
				joined = append(joined, image[s.Off:s.Off+s.Len]...)
			}
		}
		if !bytes.Equal(whole, joined) {
			t.Fatal("the segments are not what is read")
		}
		if n, err := o.ReadAt(make([]byte, 1), o.Size()); n != 0 || err != io.EOF {
			t.Fatal("something beyond the end")
		}
		again, err := Open(o, o.Size())
		if err != nil {
			t.Fatal(err)
		}
		twice, err := again.Customize(Options{Args: []string{args}, BaseURL: "http://s"})
		if err != nil {
			t.Fatalf("a second time: %v", err)
		}
		if len(twice.Patched()) != 0 {
			t.Fatalf("a second time patches %v", twice.Patched())
		}
	})
}

// seeds are small images of every shape.
func seeds(t testing.TB) [][]byte {
	esp := fatLayout{bits: 12, clusters: 40, files: map[string]string{"/EFI/BOOT/grub.cfg": grubConfig,
		"/loader/entries/a.conf": entryConfig}}.build(t)
	files := map[string]string{"/boot/grub/grub.cfg": grubConfig, "/isolinux/isolinux.cfg": isolinuxConfig,
		"/images/efiboot.img": string(esp), "/vmlinuz": "k"}
	return [][]byte{
		coreOS(t, 300, false),
		coreOS(t, 300, true),
		layout{volume: "A", rockRidge: true, joliet: true, files: files, efi: "/images/efiboot.img", md5: true}.build(t),
		layout{volume: "A", files: files, appended: esp}.build(t),
	}
}

// FuzzConfig edits texts in each language: a second time changes nothing, and
// the arguments are there once.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{grubConfig, isolinuxConfig, entryConfig, xenGRUB, xenIsolinux,
		"set a=linux\n$a /b c", "append x\ndefault /vmlinuz y", "linux /a 'b c' \\\n d # e",
		"label a\nlinux b\nappend - --- c",
		"linux 0 quiet&linux 0 rd.live.check quie${0000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, lang := range map[string]language{"/grub.cfg": grub, "/isolinux.cfg": isolinux, "/a.conf": systemdBoot} {
			e := &edit{set: []argument{"console=ttyS0", "quiet", "u=http://s/?a&b", `v="a b"`}, drop: []string{mediaCheck}}
			once, err := lang.change(name, text, e)
			if err != nil {
				continue
			}
			twice, err := lang.change(name, once.text, e)
			if err != nil {
				t.Fatalf("%s: a second time: %v\n%q\n%q", name, err, text, once.text)
			}
			if twice.text != once.text || twice.kernels != once.kernels {
				t.Fatalf("%s: a second time:\n%q\n%q\n%q", name, text, once.text, twice.text)
			}
		}
	})
}
