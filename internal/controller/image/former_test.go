package image

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/testkit"
)

// A kernel that comes back for the image that its boot loader had gets that one.
func TestReadersThatComeBack(t *testing.T) {
	old, young := isoImage("OLD", 60*sector, 5), isoImage("YOUNG", 50*sector, 6)
	a, b := newMirror(t, old, well), newMirror(t, young, well)
	var later atomic.Int64
	k, c := streamKit(t, func(_ *Controller, o *kitOptions) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	c.publish("1", disk(old, a.URL))
	ref := k.create("a", follow())
	k.phase(ref, v1.PhaseReady)
	login := func(reader string) []byte {
		t.Helper()
		d, err := k.lib.DiskAgain(ref, reader, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Release()
		return readDisk(t, d)
	}
	login("iqn.one")
	k.move(c, "2", disk(young, b.URL))
	testkit.Until(t, "it comes to pass", func() bool {
		d, err := k.lib.Disk(ref, nil)
		defer release(d)
		return err == nil && bytes.Equal(readDisk(t, d), young)
	})
	for range 2 {
		if !bytes.Equal(login("iqn.one"), old) {
			t.Error("the kernel gets another image than its boot loader")
		}
		later.Add(int64(time.Minute))
	}
	if !bytes.Equal(login("iqn.two"), young) {
		t.Error("another machine gets the old image")
	}
	later.Add(int64(2 * time.Minute))
	if !bytes.Equal(login("iqn.one"), young) {
		t.Error("a new boot gets the old image")
	}
}

// What an image is pinned to outlives the loss of all that is remembered of files.
func TestPinOutlivesDigests(t *testing.T) {
	old, young := isoImage("OLD", 400*sector, 5), isoImage("YOUNG", 300*sector, 6)
	a, b := newMirror(t, old, well), newMirror(t, young, well)
	k, c := streamKit(t)
	c.publish("1", disk(old, a.URL))
	ref := k.create("a", pin(""))
	k.phase(ref, v1.PhaseReady)
	k.stop()
	if err := os.Remove(filepath.Join(k.dir, image.DigestsFile)); err != nil {
		t.Fatal(err)
	}
	c.publish("2", disk(young, b.URL))
	k.start()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	s := k.reaches(ref, "ready", func(s v1.ISCSICdromStatus) bool { return s.Phase == v1.PhaseReady })
	if s.Release != "1" || s.ServedRelease != "1" || !bytes.Equal(k.read(ref), old) || len(b.asked()) > 0 {
		t.Errorf("%+v", s)
	}
	// A server without an ISO directory has nothing to say of it.
	k.stop()
	k.change = append(k.change, func(c *Controller, o *kitOptions) { o.Dir = "" })
	k.start()
	s = k.phase(ref, v1.PhaseError)
	if s.Release != "1" {
		t.Errorf("%+v", s)
	}
}

// Two servers with directories of their own, of which one has the image, do not
// answer each other for ever; and they agree on what it is pinned to.
func TestTwoServers(t *testing.T) {
	img := isoImage("TWO", 50*sector, 1)
	hold := make(chan struct{})
	m := newMirror(t, img, well, func(w http.ResponseWriter, r *http.Request, img []byte) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		well(w, r, img)
	})
	k, c := streamKit(t)
	c.publish("1", disk(img, m.URL))
	ref := k.create("a", pin(""))
	k.phase(ref, v1.PhaseReady)
	other := &kit{t: t, dir: t.TempDir(), store: k.store, change: k.change}
	c.publish("2", disk(isoImage("LATER", 50*sector, 2), m.URL))
	other.start()
	t.Cleanup(func() { other.stop() })
	testkit.Until(t, "it comes to pass", func() bool { return len(m.asked()) == 2 })
	// Each server writes its status in turn, and sees that of the other.
	for _, each := range []*kit{k, other} {
		if _, err := each.ctl.Reconcile(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	before := k.revision(ref)
	fence := k.create("fence", v1.ISCSICdromSpec{External: &v1.ExternalTarget{Portal: "192.0.2.9", IQN: "iqn.x"}})
	k.phase(fence, v1.PhaseReady)
	testkit.Until(t, "it comes to pass", func() bool {
		return other.lib.Cdrom(fence) != nil && k.ctl.runtime.Pending()+other.ctl.runtime.Pending() == 0
	})
	if after := k.revision(ref); after != before {
		t.Errorf("the status was written from %s to %s", before, after)
	}
	close(hold)
	testkit.Until(t, "it comes to pass", func() bool { d, err := other.lib.Disk(ref, nil); release(d); return err == nil })
	if s := k.status(ref); s.Release != "1" || !bytes.Equal(other.read(ref), img) {
		t.Errorf("%+v", s)
	}
}

// Who reads an image at one server keeps another from deleting it, and stays in the
// status while the other has nothing to tell.
func TestReadersOfAnotherServer(t *testing.T) {
	img := isoImage("TWO", 50*sector, 1)
	shared := func(_ *Controller, o *kitOptions) { o.Shared = true }
	k := newKit(t, shared)
	k.write("a.iso", img)
	ref := k.create("a", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.phase(ref, v1.PhaseReady)
	other := &kit{t: t, dir: k.dir, store: k.store, change: k.change}
	other.start()
	t.Cleanup(func() { other.stop() })
	testkit.Until(t, "it comes to pass", func() bool { d, err := other.lib.Disk(ref, nil); release(d); return err == nil })
	d, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Subscribe(v1.Subscriber{Name: "g10/node1", InitiatorIQN: "iqn.x"})
	inUse := func(k *kit, want ...string) {
		t.Helper()
		testkit.Until(t, "it comes to pass", func() bool { return slices.Equal(k.lib.InUse(ref), want) })
	}
	inUse(k, "g10/node1 (iqn.x)")
	inUse(other, "g10/node1 (iqn.x)")
	// It writes the status, and has no readers of its own.
	if _, err := other.ctl.Reconcile(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	inUse(other, "g10/node1 (iqn.x)")
	if s := k.status(ref); len(s.Subscribers) != 1 {
		t.Errorf("%+v", s.Subscribers)
	}
	d.Release()
	inUse(k)
	inUse(other)
}

func (k *kit) revision(ref Ref) string {
	k.t.Helper()
	cdrom := &v1.ISCSICdrom{}
	if err := k.store.Get(context.Background(), storeKey(ref), storage.GetOptions{}, cdrom); err != nil {
		k.t.Fatal(err)
	}
	return cdrom.ResourceVersion
}
