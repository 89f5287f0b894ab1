package streams_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/coreos/streamtest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/streams"
)

// stored is a release as the bucket has it; its document was made on a day of July
// 2026, the object minutes later in order.
func stored(t *testing.T, stream, release string, day, created int, change ...func(*v1.StreamRelease)) kvstore.Item {
	t.Helper()
	at := time.Date(2026, 7, day, 0, 0, 0, 0, time.UTC)
	r := &v1.StreamRelease{Spec: v1.StreamReleaseSpec{Stream: stream, Release: release}}
	r.Name = v1.StreamReleaseName(stream, release)
	r.CreationTimestamp = metav1.NewTime(time.Date(2026, 8, 1, 0, created, 0, 0, time.UTC))
	r.Spec.Document = string(streamtest.Document(streamtest.Options{Stream: stream, Release: release,
		Modified: at.Format(time.RFC3339)}))
	for _, f := range change {
		f(r)
	}
	value, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.Item{Key: r.Name, Revision: uint64(created), Value: value}
}

func marked(r *v1.StreamRelease) { r.Status.Current = true }
func pinned(r *v1.StreamRelease) { r.Spec.Current = true }

func TestWhichReleaseIsCurrent(t *testing.T) {
	l := streams.NewLibrary(nil)
	subscription := l.Subscribe()
	o := l.Observer()
	current := func(want string, changes ...string) {
		t.Helper()
		got := "none"
		if s := l.Current("stable"); s != nil {
			got = s.Release
		}
		if told := subscription.Take(); got != want || !slices.Equal(told, changes) {
			t.Errorf("%s is current, not %s; told %v, not %v", got, want, told, changes)
		}
	}
	o.Load([]kvstore.Item{stored(t, "stable", "2", 2, 1, marked), stored(t, "next", "7", 9, 2, marked)})
	current("2", "next", "stable")
	o.Put(stored(t, "stable", "3", 3, 3))
	current("3", "stable")
	o.Put(stored(t, "stable", "2", 2, 1)) // its status is put right
	current("3", "stable")                // and that of 3 is yet to be
	o.Put(stored(t, "stable", "3", 3, 3, marked))
	current("3")
	o.Put(stored(t, "stable", "1", 1, 4)) // an old one that is imported late
	current("3")
	o.Put(stored(t, "stable", "1", 1, 4, pinned)) // a way back
	current("1", "stable")
	o.Put(stored(t, "stable", "1", 1, 4, pinned, marked))
	current("1", "stable") // 3 is still marked
	o.Put(stored(t, "stable", "3", 3, 3))
	current("1")
	o.Put(stored(t, "stable", "4", 4, 5))
	current("1")
	o.Put(stored(t, "stable", "1", 1, 4, pinned, marked, func(r *v1.StreamRelease) { r.Spec.MaxIgnition = "3.4.0" }))
	current("1", "stable")
	o.Delete("stable-1", 9)
	current("4", "stable")
	o.Put(stored(t, "stable", "4", 4, 5, marked))
	current("4")
	for _, name := range []string{"stable-4", "stable-3", "stable-2"} {
		o.Delete(name, 10)
	}
	if current := l.Current("stable"); current != nil || !slices.Equal(l.Streams(), []string{"next"}) ||
		l.First() != "next" {
		t.Error(current, l.Streams())
	}
	subscription.Take()
	o.Load(nil)
	if l.First() != "" || len(l.Streams()) != 0 || !slices.Equal(subscription.Take(), []string{"next"}) {
		t.Error(l.Streams())
	}
}

func TestWithoutATimeTheNewestImportIsCurrent(t *testing.T) {
	l := streams.NewLibrary(nil)
	for i, release := range []string{"9", "8"} {
		l.Observer().Put(stored(t, "flatcar", release, 1, i+1, func(r *v1.StreamRelease) {
			r.Spec.Document = strings.Replace(r.Spec.Document, `"last-modified": "2026-07-01T00:00:00Z",`, "", 1)
		}))
	}
	if got := l.Current("flatcar").Release; got != "8" {
		t.Error(got)
	}
}

func TestUnreadableReleasesAreLeftOut(t *testing.T) {
	l := streams.NewLibrary(nil)
	l.Observer().Load([]kvstore.Item{
		{Key: "a", Value: []byte("{")}, {Key: "b", Value: []byte(`{"spec":{"document":"{}"}}`)}, stored(t, "stable", "1", 1,
			1),
	})
	if !slices.Equal(l.Streams(), []string{"stable"}) {
		t.Error(l.Streams())
	}
	// What can no longer be read is no longer there.
	l.Observer().Put(kvstore.Item{Key: "stable-1", Value: []byte("{")})
	if l.Current("stable") != nil {
		t.Error("it is still there")
	}
}

func TestResolve(t *testing.T) {
	l := streams.NewLibrary(nil)
	if _, err := l.Resolve("stable", "", "x86_64", "metal", "iso"); err == nil ||
		err.Error() != "there is no stream stable: import it with glowplug coreos import FILE-or-URL" {
		t.Error(err)
	}
	l.Observer().Put(stored(t, "stable", "1", 1, 1))
	l.Observer().Put(stored(t, "stable", "2", 2, 2, func(r *v1.StreamRelease) {
		r.Spec.MaxIgnition = "3.4.0"
		r.Spec.Mirrors = []string{"http://mirror/fcos/", "http://other"}
	}))
	got, err := l.Resolve("stable", "", "x86_64", "metal", "pxe")
	if err != nil || got.Release != "2" || got.MaxIgnition != "3.4.0" || len(got.Files) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	const name = "fedora-coreos-2-live-kernel.x86_64"
	const origin = "https://builds.example/prod/streams/stable/builds/2/x86_64/" + name
	kernel := got.Files[0]
	want := []string{"http://mirror/fcos/stable/2/x86_64/metal/" + name, "http://other/stable/2/x86_64/metal/" + name,
		origin}
	if kernel.Role != coreos.Kernel || !slices.Equal(kernel.URLs, want) || kernel.Signature != origin+".sig" ||
		len(kernel.SHA256) != 64 {
		t.Errorf("%+v", kernel)
	}
	if got.Files[1].Role != coreos.Initramfs || got.Files[2].Role != coreos.Rootfs {
		t.Errorf("%+v", got.Files)
	}
	old, err := l.Resolve("stable", "1", "aarch64", "metal", "iso")
	if err != nil || old.Release != "1" || old.Files[0].Role != coreos.Disk || len(old.Files[0].URLs) != 1 {
		t.Errorf("%+v %v", old, err)
	}
	for _, c := range []struct{ stream, release, arch, artifact, format, want string }{
		{"next", "", "x86_64", "metal", "iso", "there is no stream next, only stable"},
		{"next", "1", "x86_64", "metal", "iso", "there is no stream next, only stable"},
		{"stable", "3", "x86_64", "metal", "iso", "stream stable has no release 3: import it with glowplug coreos import"},
		{"stable", "", "m68k", "metal", "iso",
			"release 2 of stream stable has no architecture m68k, only aarch64, ppc64le, s390x, x86_64"},
		{"stable", "", "s390x", "vmware", "ova",
			"release 2 of stream stable has no artifact vmware for s390x, only ibmcloud, kubevirt, metal, openstack, qemu, " +
				"qemu-secex"},
		{"stable", "", "x86_64", "metal", "raw.gz",
			"release 2 of stream stable has no format raw.gz of metal for x86_64, only 4k.raw.xz, iso, pxe, raw.xz"},
	} {
		_, err := l.Resolve(c.stream, c.release, c.arch, c.artifact, c.format)
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}
