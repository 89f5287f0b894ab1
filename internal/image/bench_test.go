package image

import (
	"os"
	"path/filepath"
	"testing"

	"glowplug/internal/domain/iso"
	"glowplug/internal/image/imagetest"
)

// BenchmarkCheck is what every read pays.
func BenchmarkCheck(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "a.iso"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	v := &Volume{file: f}
	id := identityOf(info)
	v.id.Store(&id)
	l, im := &Library{}, &served{}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.check(im, v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendSegments is what a READ over iSCSI asks of an image.
func BenchmarkAppendSegments(b *testing.B) {
	file := filepath.Join(b.TempDir(), "a.iso")
	if err := os.WriteFile(file, imagetest.ISO("A", 600*imagetest.Sector, 1), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	img, err := iso.Open(f, 600*imagetest.Sector)
	if err != nil {
		b.Fatal(err)
	}
	overlay, err := img.Customize(iso.Options{Args: []string{"a=b"}})
	if err != nil {
		b.Fatal(err)
	}
	d := &Disk{volume: &Volume{file: f, Image: img}, overlay: overlay}
	var room [8]iso.Segment
	b.ReportAllocs()
	for b.Loop() {
		d.AppendSegments(room[:0], 18*imagetest.Sector, 32*imagetest.Sector)
	}
}
