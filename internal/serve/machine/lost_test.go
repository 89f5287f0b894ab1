package machine

import (
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/store/snapshot"
)

// TestLostKindsHoldUpWhatNeedsThem: what is missing as a whole holds up the
// machines whose boot it could change, and no others.
func TestLostKindsHoldUpWhatNeedsThem(t *testing.T) {
	imaged := decide.Identity{Host: &snapshot.Host{Image: snapshot.Ref{Namespace: "n", Name: "i"}}}
	plain := decide.Identity{Host: &snapshot.Host{}}
	for name, c := range map[string]struct {
		lost   Lost
		b      decide.BootDecision
		menu   bool
		config bool
		boot   bool
	}{
		"nothing is lost":          {Lost{}, decide.BootDecision{Identity: imaged}, true, false, false},
		"images, and it boots one": {Lost{Images: true}, decide.BootDecision{Identity: imaged}, false, true, true},
		"images, and it cannot have one": {Lost{Images: true}, decide.BootDecision{Identity: imaged,
			Err: fault.New(fault.Unavailable, "")}, false, true, true},
		"images, and it boots its disk": {Lost{Images: true}, decide.BootDecision{Identity: imaged, Local: true}, false,
			true, false},
		"images, and it is refused": {Lost{Images: true}, decide.BootDecision{Identity: imaged,
			Err: fault.New(fault.Refused, "")}, false, true, false},
		"images, and it has none":          {Lost{Images: true}, decide.BootDecision{Identity: plain}, false, false, false},
		"images, and it is unknown":        {Lost{Images: true}, decide.BootDecision{}, false, false, false},
		"images, and it would have a menu": {Lost{Images: true}, decide.BootDecision{}, true, false, true},
		"namespaces, and it boots": {Lost{Namespaces: true}, decide.BootDecision{Identity: imaged}, true, false,
			true},
		"namespaces, and it boots its disk": {Lost{Namespaces: true}, decide.BootDecision{Identity: imaged, Local: true},
			true, false, false},
		"namespaces, and it is unknown": {Lost{Namespaces: true}, decide.BootDecision{}, true, false, false},
		"stream releases, which change none": {Lost{Streams: true}, decide.BootDecision{Identity: imaged}, true, false,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.lost.hasImage(c.b.Host); got != c.config {
				t.Errorf("its image: %v", got)
			}
			if got := c.lost.fromBoot(&c.b, c.menu); got != c.boot {
				t.Errorf("its boot: %v", got)
			}
		})
	}
}
