package machine

import (
	"testing"

	"glowplug/internal/boot"
	"glowplug/internal/fault"
	"glowplug/internal/store/snapshot"
)

// TestLostKindsHoldUpWhatNeedsThem: what is missing as a whole holds up the
// machines whose boot it could change, and no others.
func TestLostKindsHoldUpWhatNeedsThem(t *testing.T) {
	imaged := &snapshot.Host{Image: snapshot.Ref{Namespace: "n", Name: "i"}}
	plain := &snapshot.Host{}
	for name, c := range map[string]struct {
		lost   Lost
		b      boot.BootDecision
		menu   bool
		config bool
		boot   bool
	}{
		"nothing is lost":                    {Lost{}, boot.BootDecision{Host: imaged}, true, false, false},
		"images, and it boots one":           {Lost{Images: true}, boot.BootDecision{Host: imaged}, false, true, true},
		"images, and it cannot have one":     {Lost{Images: true}, boot.BootDecision{Host: imaged, Err: fault.New(fault.Unavailable, "")}, false, true, true},
		"images, and it boots its disk":      {Lost{Images: true}, boot.BootDecision{Host: imaged, Local: true}, false, true, false},
		"images, and it is refused":          {Lost{Images: true}, boot.BootDecision{Host: imaged, Err: fault.New(fault.Refused, "")}, false, true, false},
		"images, and it has none":            {Lost{Images: true}, boot.BootDecision{Host: plain}, false, false, false},
		"images, and it is unknown":          {Lost{Images: true}, boot.BootDecision{}, false, false, false},
		"images, and it would have a menu":   {Lost{Images: true}, boot.BootDecision{}, true, false, true},
		"namespaces, and it boots":           {Lost{Namespaces: true}, boot.BootDecision{Host: imaged}, true, false, true},
		"namespaces, and it boots its disk":  {Lost{Namespaces: true}, boot.BootDecision{Host: imaged, Local: true}, true, false, false},
		"namespaces, and it is unknown":      {Lost{Namespaces: true}, boot.BootDecision{}, true, false, false},
		"stream releases, which change none": {Lost{Streams: true}, boot.BootDecision{Host: imaged}, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.lost.fromConfig(c.b.Host); got != c.config {
				t.Errorf("its config: %v", got)
			}
			if got := c.lost.fromBoot(&c.b, c.menu); got != c.boot {
				t.Errorf("its boot: %v", got)
			}
		})
	}
}
