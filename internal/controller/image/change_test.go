package image

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/testkit"
)

// overwrite writes over a file in pieces, from its end to its beginning, without a
// change of its size.
func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const piece = 64 * sector
	for end := len(content); end > 0; end -= piece {
		start := max(0, end-piece)
		if _, err := f.WriteAt(content[start:end], int64(start)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageOverwrittenInPlaceIsNotMixed: whoever reads an image while its file is
// written over gets the old bytes or an error, in whatever way he reads; a new
// reader gets the new image.
func TestImageOverwrittenInPlaceIsNotMixed(t *testing.T) {
	k := newKit(t)
	first, second := isoImage("FIRST", 4096*sector, 1), isoImage("SECOND", 4096*sector, 2)
	k.write("a.iso", first)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)

	var readers sync.WaitGroup
	reading := make(chan struct{}, 8)
	for i := range 4 {
		d, err := k.lib.Disk(ref, nil)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			defer d.Release()
			b := make([]byte, 32*sector)
			for at := int64(i * 100 * sector); ; at = (at + int64(len(b))) % (d.Size() - int64(len(b))) {
				var err error
				if i%2 == 0 {
					_, err = d.ReadAt(b, at)
				} else { // as over iSCSI
					for _, s := range d.AppendSegments(nil, at, int64(len(b))) {
						_, _ = s.Source.ReadAt(b[:s.Len], s.Off)
					}
					err = d.Check()
				}
				select {
				case reading <- struct{}{}:
				default:
				}
				switch {
				case errors.Is(err, image.ErrOverwritten):
					return
				case errors.Is(err, image.ErrChanging):
				case err != nil:
					t.Error(err)
					return
				case !bytes.Equal(b, first[at:at+int64(len(b))]):
					t.Error("bytes of the new image are given as if they were of the old one")
					return
				}
			}
		})
	}
	<-reading
	overwrite(t, filepath.Join(k.dir, "a.iso"), second)
	readers.Wait()
	k.reaches(ref, "SECOND", func(s v1.ISCSICdromStatus) bool { return s.VolumeID == "SECOND" })
	if !bytes.Equal(k.read(ref), second) {
		t.Error("a new disk is not of the new file")
	}
	testkit.Until(t, "it comes to pass", func() bool { return slices.Contains(k.events.reasons(), "ImageOverwritten") })
}

// TestNoEventWithoutReaders: a file that was overwritten while nobody read it is a new image,
// also where a machine that comes is the first to notice it. It needs no boot again.
func TestNoEventWithoutReaders(t *testing.T) {
	k := newKit(t)
	second := isoImage("SECOND", 64*sector, 2)
	k.write("a.iso", isoImage("FIRST", 64*sector, 1))
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	former, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	former.Release() // it has finished before
	overwrite(t, filepath.Join(k.dir, "a.iso"), second)
	if d, err := k.lib.Disk(ref, nil); err == nil {
		d.Release()
		t.Error("the file has changed, and a disk of the former content is given")
	}
	k.reaches(ref, "SECOND", func(s v1.ISCSICdromStatus) bool { return s.VolumeID == "SECOND" })
	testkit.Until(t, "it comes to pass", func() bool {
		d, err := k.lib.Disk(ref, nil)
		if err == nil {
			d.Release()
		}
		return err == nil
	})
	if got := k.events.reasons(); slices.Contains(got, "ImageOverwritten") {
		t.Errorf("the events are %v", got)
	}
}

// TestTouchedImage: what leaves the content alone ends no reading, and what hides a
// change of it does.
func TestTouchedImage(t *testing.T) {
	content, other := isoImage("FIRST", 64*sector, 1), isoImage("SECOND", 64*sector, 2)
	for name, c := range map[string]struct {
		touch func(path string) error
		lost  bool
	}{
		"another time":       {touch: func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)) }},
		"another mode":       {touch: func(path string) error { return os.Chmod(path, 0o600) }},
		"another name":       {touch: func(path string) error { return os.Rename(path, path+".old") }},
		"removed":            {touch: os.Remove},
		"replaced":           {touch: func(path string) error { return replace(path, other) }},
		"the same once more": {touch: func(path string) error { return writeOver(path, content) }},
		"overwritten, with the old time": {lost: true, touch: func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, writeOver(path, other), os.Chtimes(path, time.Time{}, info.ModTime()))
		}},
		"truncated": {lost: true, touch: func(path string) error { return os.Truncate(path, 60*sector) }},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.write("a.iso", content)
			ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
			k.phase(ref, v1.PhaseReady)
			d, err := k.lib.Disk(ref, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Release()
			if err := c.touch(filepath.Join(k.dir, "a.iso")); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "it comes to pass", func() bool { err = d.Check(); return !errors.Is(err, image.ErrChanging) })
			b := make([]byte, len(content))
			_, readErr := d.ReadAt(b, 0)
			switch {
			case c.lost && (!errors.Is(err, image.ErrOverwritten) || !errors.Is(readErr, image.ErrOverwritten)):
				t.Errorf("it is still read: %v, %v", err, readErr)
			case !c.lost && (err != nil || readErr != nil || !bytes.Equal(b, content)):
				t.Errorf("it is no longer read: %v, %v", err, readErr)
			}
		})
	}
}

func writeOver(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func replace(path string, content []byte) error {
	return errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path))
}

// TestDownloadOfAnOverwrittenImageBreaksOff: an answer over HTTP that has begun ends
// early, which its Content-Length tells the client.
func TestDownloadOfAnOverwrittenImageBreaksOff(t *testing.T) {
	k := newKit(t)
	first, second := isoImage("FIRST", 8192*sector, 1), isoImage("SECOND", 8192*sector, 2)
	k.write("a.iso", first)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := k.lib.Disk(ref, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer d.Release()
		http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(d, 0, d.Size()))
	}))
	defer server.Close()
	resp, err := testClient.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	head := make([]byte, sector)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(k.dir, "a.iso"), second)
	rest, err := io.ReadAll(resp.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the answer ends with %v after %d bytes", err, len(rest))
	}
	if got := append(head, rest...); !bytes.Equal(got, first[:len(got)]) {
		t.Error("bytes of the new image are given as if they were of the old one")
	}
}
