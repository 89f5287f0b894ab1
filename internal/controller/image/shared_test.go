package image

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/testkit"
)

// TestAnotherServerGoesOnWithADownload: of two servers that share a folder one downloads an image. If it dies, the
// other one goes on where it was, and has not backed off from the other meanwhile.
func TestAnotherServerGoesOnWithADownload(t *testing.T) {
	img := isoImage("DOWN", 4000*sector, 5)
	var asked atomic.Int32
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		if asked.Add(1) == 1 {
			w.Header().Set("Content-Length", "8192000")
			_, _ = w.Write(img[:2000*sector])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		well(w, r, img)
	})
	shared := func(c *Controller, o *kitOptions) {
		o.Shared = true
		if c != nil {
			c.pace.soon, c.pace.idle, c.pace.turn = doubling(time.Hour, time.Hour), time.Hour, 20*time.Millisecond
		}
	}
	one := newKit(t, shared)
	ref := one.create("a", m.spec())
	testkit.Until(t, "the first one has half of it", func() bool {
		return one.counter("glowplug_images_received_bytes_total") >= 2000*sector
	})
	two := &kit{t: t, dir: one.dir, store: one.store, change: one.change}
	two.start()
	t.Cleanup(func() { two.stop() })
	testkit.Until(t, "the second one looks after it", func() bool {
		two.ctl.downloads.mu.Lock()
		defer two.ctl.downloads.mu.Unlock()
		return two.ctl.downloads.all[ref] != nil
	})
	time.Sleep(10 * two.ctl.pace.turn) // it looks whether it is its turn
	if n := asked.Load(); n != 1 {
		t.Errorf("%d servers download it", n)
	}
	one.stop()
	two.phase(ref, v1.PhaseReady)
	if two.counter("glowplug_images_received_bytes_total") > 2100*sector {
		t.Error("the second one begins anew")
	}
}
