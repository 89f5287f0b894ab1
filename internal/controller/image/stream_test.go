package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/feed"
	"glowplug/internal/image"
	"glowplug/internal/testkit"
)

// catalogue is the releases of one stream, "stable".
type catalogue struct {
	*feed.Feed[string]
	mu      sync.Mutex
	current string
	all     map[string]coreos.Release
}

func newCatalogue() *catalogue {
	return &catalogue{Feed: feed.New(""), all: map[string]coreos.Release{}}
}

// publish makes a release of these files the current one.
func (c *catalogue) publish(release string, files ...coreos.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = release
	c.all[release] = coreos.Release{Stream: "stable", Release: release, Files: files}
}

func (c *catalogue) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.all = "", map[string]coreos.Release{}
}

func (c *catalogue) Resolve(stream, release, architecture, artifact, format string) (coreos.Release, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	release = cmp.Or(release, c.current)
	r, ok := c.all[release]
	if !ok || stream != "stable" || architecture != "x86_64" || artifact != "metal" {
		return r, fmt.Errorf("there is no release %s of %s for %s", release, stream, architecture)
	}
	r.Architecture, r.Artifact, r.Format = architecture, artifact, format
	return r, nil
}

func disk(img []byte, urls ...string) coreos.File {
	return coreos.File{Role: coreos.Disk, URLs: urls, SHA256: digestOf(img)}
}

// streamKit is a kit with a catalogue.
func streamKit(t *testing.T, change ...func(*Controller, *kitOptions)) (*kit, *catalogue) {
	all := newCatalogue()
	k := newKit(t, append([]func(*Controller, *kitOptions){func(c *Controller, o *kitOptions) {
		o.Streams = all
		if c != nil {
			c.pace.progress = time.Millisecond
		}
	}}, change...)...)
	return k, all
}

func (k *kit) move(c *catalogue, release string, files ...coreos.File) {
	c.publish(release, files...)
	c.Publish("stable")
}

func follow() v1.ISCSICdromSpec {
	return v1.ISCSICdromSpec{Stream: &v1.StreamImage{Name: "stable", Update: v1.UpdateFollow}}
}

func pin(release string) v1.ISCSICdromSpec {
	return v1.ISCSICdromSpec{Stream: &v1.StreamImage{Name: "stable", Release: release}}
}

// upToDate is the condition in a word: True, or why not.
func upToDate(s v1.ISCSICdromStatus) string {
	c := meta.FindStatusCondition(s.Conditions, v1.ConditionUpToDate)
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return "True"
	}
	return c.Reason
}

func TestStream(t *testing.T) {
	img := isoImage("STREAM", 400*sector, 5)
	good := newMirror(t, img, well)
	k, c := streamKit(t)
	c.publish("38.20230430.3.1", disk(img, good.URL+"/a.iso"))
	ref := k.create("a", pin(""))
	s := k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "True" })
	if s.Phase != v1.PhaseReady || s.Release != "38.20230430.3.1" || s.ServedRelease != s.Release ||
		s.MaxIgnition != "3.4.0" ||
		s.SHA256 != digestOf(img) || s.Download != nil || s.ErrorMessage != "" {
		t.Errorf("%+v", s)
	}
	if !bytes.Equal(k.read(ref), img) {
		t.Error("not the image")
	}
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != 0 {
		t.Errorf("it was read again: %v bytes", n)
	}
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	if got := good.asked(); len(got) != 1 {
		t.Errorf("downloaded again: %q", got)
	}
}

func TestPinnedStaysAndFollowTakes(t *testing.T) {
	old, young := isoImage("OLD", 400*sector, 5), isoImage("YOUNG", 300*sector, 6)
	a, b := newMirror(t, old, well), newMirror(t, young, well)
	k, c := streamKit(t)
	c.publish("1", disk(old, a.URL))
	pinned, following := k.create("pinned", pin("")), k.create("following", follow())
	served := func(release string) func(v1.ISCSICdromStatus) bool {
		return func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "True" && s.ServedRelease == release }
	}
	k.reaches(pinned, "1", served("1"))
	k.reaches(following, "1", served("1"))
	open, err := k.lib.Disk(following, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.move(c, "2", disk(young, b.URL))
	k.reaches(following, "2", served("2"))
	if !bytes.Equal(readDisk(t, open), old) {
		t.Error("an open session does not keep the old image")
	}
	open.Release()
	if !bytes.Equal(k.read(following), young) {
		t.Error("a new session does not get the new image")
	}
	if reasons := k.events.reasons(); !slices.Contains(reasons, "ReleaseReady") {
		t.Errorf("events: %v", reasons)
	}
	if s := k.status(pinned); !served("1")(s) || !bytes.Equal(k.read(pinned), old) {
		t.Errorf("pinned has moved: %+v", s)
	}
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(pinned, nil); release(d); return err == nil })
	if s := k.status(pinned); !served("1")(s) {
		t.Errorf("pinned has moved: %+v", s)
	}
	// What is open of the older one goes.
	testkit.Until(t, "it comes to pass", func() bool {
		files, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", "*.iso"))
		return len(files) == 2
	})
	// Another release by name, and back to the current one.
	k.update(pinned, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.Stream.Release, cdrom.Status.Release = "2", "" })
	k.reaches(pinned, "2", served("2"))
	k.update(pinned, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.Stream.Release, cdrom.Status.Release = "1", "" })
	k.reaches(pinned, "1", served("1"))
	k.update(pinned, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.Stream.Release, cdrom.Status.Release = "", "" })
	k.reaches(pinned, "2", served("2"))
}

// A machine that was told of a version comes back for it.
func TestFormerVersions(t *testing.T) {
	old, young := isoImage("OLD", 400*sector, 5), isoImage("YOUNG", 300*sector, 6)
	a, b := newMirror(t, old, well), newMirror(t, young, well)
	k, c := streamKit(t, func(_ *Controller, o *kitOptions) { o.linger = 300 * time.Millisecond })
	c.publish("1", disk(old, a.URL))
	ref := k.create("a", follow())
	k.phase(ref, v1.PhaseReady)
	k.move(c, "2", disk(young, b.URL))
	version := digestOf(old)[:12]
	for seen := false; ; time.Sleep(time.Millisecond) {
		if d, err := k.lib.DiskOf(ref, version, nil, ""); err == nil {
			if !bytes.Equal(readDisk(t, d), old) {
				t.Fatal("a version is another's bytes")
			}
			d.Release()
			seen = seen || k.lib.Current(ref).Volume.SHA256 == digestOf(young)
		} else if seen {
			break
		}
	}
	if !bytes.Equal(k.read(ref), young) {
		t.Error("not the new one")
	}
	if _, err := k.lib.DiskOf(ref, "nowhere", nil, ""); err == nil {
		t.Error("a version that never was")
	}
}

// What can go wrong with a new release leaves the one that is served alone.
func TestReleasesThatFail(t *testing.T) {
	good, img := isoImage("GOOD", 50*sector, 1), isoImage("NEW", 400*sector, 5)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, []byte)
		want   string
	}{
		"gone":       {status(404), "404 Not Found"},
		"away":       {status(503), "503 Service Unavailable"},
		"always cut": {cutAt(0), "cut off after 0 bytes"},
		"corrupt": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			well(w, r, append(slices.Clone(img[:len(img)-1]), 'x'))
		}, "its SHA-256 is not "},
		"shorter than told": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(img)+10))
			w.Write(img)
		}, "cut off after"},
		"another length": {func(w http.ResponseWriter, r *http.Request, img []byte) { well(w, r, img[:200*sector]) },
			"its SHA-256 is not "},
		"stands still": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			w.Write(img[:4096])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "nothing came for"},
	} {
		t.Run(name, func(t *testing.T) {
			k, cat := streamKit(t, func(c *Controller, _ *kitOptions) {
				if c != nil {
					c.pace.idle = 100 * time.Millisecond
				}
			})
			first, m := newMirror(t, good, well), newMirror(t, img, c.answer)
			cat.publish("1", disk(good, first.URL))
			ref := k.create("a", follow())
			k.phase(ref, v1.PhaseReady)
			k.move(cat, "2", disk(img, m.URL+"/a.iso?token=secret"))
			fresh := k.create("fresh", follow())
			s := k.reaches(ref, "failed", func(s v1.ISCSICdromStatus) bool {
				return upToDate(s) == "DownloadFailed" && strings.Contains(s.ErrorMessage, c.want)
			})
			if s.Phase != v1.PhaseReady || s.ServedRelease != "1" || s.Release != "2" || s.SHA256 != digestOf(good) ||
				!strings.Contains(s.ErrorMessage, "release 1 is still served") || strings.Contains(s.ErrorMessage, "secret") {
				t.Errorf("%+v", s)
			}
			if !bytes.Equal(k.read(ref), good) {
				t.Error("the good image was harmed")
			}
			testkit.Until(t, "it comes to pass", func() bool { return slices.Contains(k.events.reasons(), "ReleaseFailed") })
			s = k.reaches(fresh, "failed", func(s v1.ISCSICdromStatus) bool {
				return s.Phase == v1.PhaseError && strings.Contains(s.ErrorMessage, c.want)
			})
			if d, err := k.lib.Disk(fresh, nil); err == nil {
				d.Release()
				t.Error("something half-downloaded is served")
			}
			// It recovers.
			m.mu.Lock()
			m.answer = []func(http.ResponseWriter, *http.Request, []byte){well}
			m.mu.Unlock()
			for _, ref := range []Ref{ref, fresh} {
				k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool {
					return upToDate(s) == "True" &&
						s.ServedRelease == "2"
				})
				if !bytes.Equal(k.read(ref), img) {
					t.Error("not the new image")
				}
			}
		})
	}
}

func TestMirrors(t *testing.T) {
	img := isoImage("MIRROR", 400*sector, 5)
	type answers = []func(http.ResponseWriter, *http.Request, []byte)
	corrupt := func(w http.ResponseWriter, r *http.Request, img []byte) {
		well(w, r, append(slices.Clone(img[:len(img)-1]), 'x'))
	}
	for name, c := range map[string]struct {
		first, second           answers
		askedFirst, askedSecond []string
	}{
		"the first is well":  {answers{well}, answers{well}, []string{""}, nil},
		"the first is gone":  {answers{status(404)}, answers{well}, []string{""}, []string{""}},
		"the first is away":  {answers{status(503)}, answers{well}, []string{""}, []string{""}},
		"the first is false": {answers{corrupt}, answers{well}, []string{""}, []string{""}},
		// It has brought something, and is gone on with, and then the other one.
		"cut, then gone": {answers{cutAt(5000), status(404)}, answers{well}, []string{"", "bytes=5000-"},
			[]string{"bytes=5000-"}},
		"cut, gone on": {answers{cutAt(5000), well}, answers{well}, []string{"", "bytes=5000-"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMirror(t, img, c.first...), newMirror(t, img, c.second...)
			k, cat := streamKit(t)
			cat.publish("1", disk(img, a.URL, b.URL))
			ref := k.create("a", follow())
			k.phase(ref, v1.PhaseReady)
			if got := a.asked(); !slices.Equal(got, c.askedFirst) {
				t.Errorf("asked the first %q, want %q", got, c.askedFirst)
			}
			if got := b.asked(); !slices.Equal(got, c.askedSecond) {
				t.Errorf("asked the second %q, want %q", got, c.askedSecond)
			}
			if !bytes.Equal(k.read(ref), img) {
				t.Error("not the image")
			}
		})
	}
}

// A restart goes on where it was, and says so in the status meanwhile.
func TestStreamGoesOnAfterARestart(t *testing.T) {
	img := isoImage("GO ON", 400*sector, 5)
	hold := make(chan struct{})
	defer close(hold)
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(img)))
		for i := range 2 {
			w.Write(img[i*50*sector : (i+1)*50*sector])
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}, well)
	k, c := streamKit(t)
	c.publish("1", disk(img, m.URL))
	ref := k.create("a", follow())
	k.reaches(ref, "half there", func(s v1.ISCSICdromStatus) bool {
		return s.Phase == v1.PhaseUploading && s.Download != nil && s.Download.Received > 0 &&
			s.Download.Total == int64(len(img)) &&
			s.Download.File == coreos.Disk && s.Download.Release == "1"
	})
	testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_received_bytes_total") == 100*sector })
	k.restart()
	k.phase(ref, v1.PhaseReady)
	if got := m.asked(); !slices.Equal(got, []string{"", "bytes=204800-"}) {
		t.Errorf("asked %q", got)
	}
}

// Metadata that goes away, or cannot be read yet, takes nothing away.
func TestStreamsThatAreAway(t *testing.T) {
	img := isoImage("AWAY", 50*sector, 1)
	m := newMirror(t, img, well)
	read := true
	var mu sync.Mutex
	k, c := streamKit(t, func(_ *Controller, o *kitOptions) {
		o.StreamsRead = func() bool { mu.Lock(); defer mu.Unlock(); return read }
	})
	c.publish("1", disk(img, m.URL))
	ref := k.create("a", pin(""))
	k.phase(ref, v1.PhaseReady)
	c.withdraw()
	c.Publish("stable")
	s := k.reaches(ref, "unresolved", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "NotResolved" })
	if s.Phase != v1.PhaseReady || s.Release != "1" || s.ServedRelease != "1" || !strings.Contains(s.ErrorMessage,
		"there is no release 1") {
		t.Errorf("%+v", s)
	}
	if other := k.phase(k.create("b", follow()), v1.PhaseError); !strings.Contains(other.ErrorMessage,
		"spec.stream: there is no release") {
		t.Errorf("%+v", other)
	}
	mu.Lock()
	read = false
	mu.Unlock()
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	if s := k.status(ref); s.Release != "1" || s.Phase != v1.PhaseReady {
		t.Errorf("%+v", s)
	}
	k.phase(k.create("c", follow()), v1.PhasePending)
}

// Without the bucket of the streams an image that is there is served, another one fails, both say
// what is missing and the remedy, and both go on once the bucket is back.
func TestStreamsThatAreLost(t *testing.T) {
	img := isoImage("LOST", 50*sector, 1)
	m := newMirror(t, img, well)
	var lost atomic.Bool
	k, c := streamKit(t, func(_ *Controller, o *kitOptions) {
		o.StreamsLost = lost.Load()
		o.StreamsRead = func() bool { return !lost.Load() }
	})
	c.publish("1", disk(img, m.URL))
	old := k.create("a", pin(""))
	k.phase(old, v1.PhaseReady)
	lost.Store(true)
	k.restart()
	const want = "spec.stream: the server's store is damaged, and lacks the stream releases; " +
		"restore the bucket that the log names"
	added := k.create("b", follow())
	if s := k.phase(added, v1.PhaseError); s.ErrorMessage != want || upToDate(s) != "NotResolved" {
		t.Errorf("a new image: %+v", s)
	}
	s := k.reaches(old, "unresolved", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "NotResolved" })
	if s.Phase != v1.PhaseReady || s.Release != "1" || s.ServedRelease != "1" ||
		s.ErrorMessage != want+"; release 1 is still served" {
		t.Errorf("an image that is there: %+v", s)
	}
	lost.Store(false)
	k.restart()
	for _, ref := range []Ref{old, added} {
		k.reaches(ref, "Ready again", func(s v1.ISCSICdromStatus) bool {
			return s.Phase == v1.PhaseReady && s.ErrorMessage == "" && upToDate(s) == "True"
		})
	}
}

func TestFullDiskOfAStream(t *testing.T) {
	img, good := isoImage("FULL", 400*sector, 5), isoImage("GOOD", 50*sector, 1)
	m, first := newMirror(t, img, well), newMirror(t, good, well)
	var mu sync.Mutex
	free := uint64(1 << 40)
	k, c := streamKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.free = func(string) (uint64, error) { mu.Lock(); defer mu.Unlock(); return free, nil }
		}
	})
	c.publish("1", disk(good, first.URL))
	ref := k.create("a", follow())
	k.phase(ref, v1.PhaseReady)
	mu.Lock()
	free = 1 << 20
	mu.Unlock()
	k.move(c, "2", disk(img, m.URL))
	s := k.reaches(ref, "failed", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "DownloadFailed" })
	if s.Phase != v1.PhaseReady || !strings.Contains(s.ErrorMessage, "the disk of the ISO directory is full") {
		t.Errorf("%+v", s)
	}
	mu.Lock()
	free = 1 << 40
	mu.Unlock()
	k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool { return s.ServedRelease == "2" })
}

// The digest of metadata is of any case.
func TestDigestCase(t *testing.T) {
	img := isoImage("CASE", 50*sector, 1)
	m := newMirror(t, img, well)
	k, c := streamKit(t)
	f := disk(img, m.URL)
	f.SHA256 = strings.ToUpper(fmt.Sprintf("%x", sha256.Sum256(img)))
	c.publish("1", f)
	k.phase(k.create("a", follow()), v1.PhaseReady)
}

// A release that machines could not be given does not take the place of one that they
// can be; other arguments are the remedy, and nothing is downloaded again.
func TestReleaseWithoutRoomForItsArguments(t *testing.T) {
	good, bad, better := isoImage("GOOD", 50*sector, 1), isoImage("NEW", 60*sector, 5), isoImage("BETTER", 70*sector, 7)
	bad = bytes.Replace(bad, []byte("GRUB.CFG"), []byte("GRUB.CFX"), 1)
	k, cat := streamKit(t)
	first, second, third := newMirror(t, good, well), newMirror(t, bad, well), newMirror(t, better, well)
	cat.publish("1", disk(good, first.URL))
	spec := follow()
	spec.KernelArgs = []string{"a=b"}
	ref := k.create("a", spec)
	k.phase(ref, v1.PhaseReady)
	k.move(cat, "2", disk(bad, second.URL))
	s := k.reaches(ref, "failed", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "DownloadFailed" })
	if s.Phase != v1.PhaseReady || s.ServedRelease != "1" || s.SHA256 != digestOf(good) ||
		!strings.Contains(s.ErrorMessage, "kernel arguments cannot be set") {
		t.Errorf("%+v", s)
	}
	tries := k.counter("glowplug_images_transfers_total")
	testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_transfers_total") >= tries+3 })
	if asked := second.asked(); len(asked) != 1 {
		t.Errorf("it was downloaded %d times", len(asked))
	}
	k.move(cat, "3", disk(better, third.URL))
	k.reaches(ref, "up to date", func(s v1.ISCSICdromStatus) bool {
		return upToDate(s) == "True" &&
			s.ServedRelease == "3"
	})

	// Where nothing good is there it shows what is wrong with the one that came.
	k.move(cat, "4", disk(bad, second.URL))
	fresh := k.create("fresh", spec)
	if s := k.phase(fresh, v1.PhaseError); !strings.Contains(s.ErrorMessage, "kernel arguments cannot be set") ||
		s.SHA256 != digestOf(bad) {
		t.Errorf("%+v", s)
	}
}

// The same holds for default arguments: an image without any does not replace one that
// machines find their config with.
func TestReleaseWithoutDefaultArguments(t *testing.T) {
	good, bad := isoImage("Fedora-1", 50*sector, 1), isoImage("NEW", 60*sector, 5)
	k, cat := streamKit(t)
	cat.publish("1", disk(good, newMirror(t, good, well).URL))
	ref := k.create("a", follow())
	if s := k.phase(ref, v1.PhaseReady); len(s.KernelArgsApplied) == 0 {
		t.Fatalf("the first image has no arguments: %+v", s)
	}
	k.move(cat, "2", disk(bad, newMirror(t, bad, well).URL))
	s := k.reaches(ref, "failed", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "DownloadFailed" })
	if s.Phase != v1.PhaseReady || s.ServedRelease != "1" || !strings.Contains(s.ErrorMessage, "set spec.kernelArgs") {
		t.Errorf("%+v", s)
	}
}
