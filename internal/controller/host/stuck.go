package host

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/snapshot"
)

// stuckInterval is how often the boots under way are looked at.
const stuckInterval = 10 * time.Second

// removeInterval is how often the boots of hosts and of unknown machines that are gone are looked for. An unknown
// machine may be listed strangerGrace after its boot.
const (
	removeInterval = 10 * time.Minute
	strangerGrace  = 5 * time.Minute
)

// AlarmOptions are the parts of an Alarm.
type AlarmOptions struct {
	Boots     *boots.Tracker
	Inventory *snapshot.Inventory
	Statuses  *StatusWriter
	// Timeout is the time that a step takes at most, where the image of the boot names no other.
	Timeout time.Duration
	// Keep is how long the newest boot of a host that is gone is kept.
	Keep time.Duration
	// IsListed reports whether an unknown machine is listed.
	IsListed func(machine string) bool
	// Ready reports whether hosts and boots were read.
	Ready      func() bool
	Registerer prometheus.Registerer
}

// Alarm raises the condition BootProgressing of hosts whose boot takes no further step, and removes the boots of hosts
// that are gone.
type Alarm struct {
	opts  AlarmOptions
	stuck atomic.Int64
}

// NewAlarm returns an Alarm.
func NewAlarm(opts AlarmOptions) *Alarm {
	a := &Alarm{opts: opts}
	promauto.With(opts.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_boots_stuck", Help: "Hosts whose boot has taken no step for longer than --boot-step-timeout.",
	}, func() float64 { return float64(a.stuck.Load()) })
	return a
}

// Run looks at the boots until ctx ends.
func (a *Alarm) Run(ctx context.Context) {
	var removed time.Time
	wait.UntilWithContext(ctx, func(context.Context) {
		if !a.opts.Ready() {
			return
		}
		now := time.Now()
		a.look(now)
		if now.Sub(removed) > removeInterval {
			removed = now
			a.remove(now)
		}
	}, stuckInterval)
}

// remove removes the boots of hosts and of unknown machines that are gone.
func (a *Alarm) remove(now time.Time) {
	view := a.opts.Inventory.View()
	a.opts.Boots.Remove(func(ref model.Ref, uid string) bool {
		host := view.Host(ref)
		return !model.IsStranger(ref) && (host == nil || host.UID != uid)
	}, now.Add(-a.opts.Keep))
	a.opts.Boots.Remove(func(ref model.Ref, _ string) bool {
		return model.IsStranger(ref) && !a.opts.IsListed(model.MachineOf(ref))
	}, now.Add(-strangerGrace))
}

// look raises what is new and ends what has gone on. Other servers do the same: a condition that is so already is not
// written.
func (a *Alarm) look(now time.Time) {
	view, stuck := a.opts.Inventory.View(), map[model.Ref]boots.Stuck{}
	for _, s := range a.opts.Boots.Open(now.Add(-v1.MinStepTimeout)) {
		if now.Sub(s.Since) > a.timeout(view, s.Image) {
			stuck[s.Host] = s
		}
	}
	a.stuck.Store(int64(len(stuck)))
	for h := range view.AllHosts() {
		s, isStuck := stuck[h.Ref]
		isStuck = isStuck && s.UID == h.UID
		if isUnmet := h.Unmet&model.BootProgressing != 0; isStuck != isUnmet {
			a.opts.Statuses.Condition(h, progressing(isStuck, &s))
		}
	}
}

// timeout returns the time that a step of the boot of an image takes at most.
func (a *Alarm) timeout(view model.View, image model.Ref) time.Duration {
	if i := view.Image(image); i != nil && i.StepTimeout > 0 {
		return i.StepTimeout
	}
	return a.opts.Timeout
}

// progressing returns the condition BootProgressing.
func progressing(isStuck bool, s *boots.Stuck) explain.Condition {
	c := explain.Condition{
		Type: v1.ConditionBootProgressing, Kind: model.BootProgressing, Met: true, Reason: "Progressing",
		Message: "the boot goes on, or has ended",
	}
	if isStuck {
		c.Met, c.Reason = false, "BootStuck"
		c.Message = fmt.Sprintf("boot %s has reached the step %s at %s, and no other one since: look at the console of the "+
			"machine, and compare with its peers (glowplug boots %s -n %s)", s.Boot, s.Step, s.Since.UTC().Format(time.RFC3339),
			s.Host.Name, s.Host.Namespace)
	}
	return c
}
