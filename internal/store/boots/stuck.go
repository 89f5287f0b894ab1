package boots

import (
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

// Stuck is a boot that takes no further step.
type Stuck struct {
	Host model.Ref
	UID  string
	Boot string
	// Step is the last step that the boot has reached, and Since its time.
	Step  string
	Since time.Time
	// Image is the image that the machine boots; zero: none.
	Image model.Ref
}

// Open returns the boots of hosts under way whose last step was before a time. A boot is under way from its first step
// until its machine is provisioned, has failed or boots its disk.
func (t *Tracker) Open(before time.Time) (open []Stuck) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.machines {
		isOpen := m.Progress.State == v1.StateBooting || m.Progress.State == v1.StateProvisioning
		if !isOpen || m.Failed || model.IsStranger(m.Host) || m.Progress.Seen.After(before) {
			continue
		}
		b := m.open
		if b == nil {
			b = t.opts.Stored(m.Host)
		}
		if b == nil || b.Ended != nil || len(b.Steps) == 0 {
			continue
		}
		last := b.Steps[len(b.Steps)-1]
		if last.Time.After(before) {
			continue
		}
		s := Stuck{Host: m.Host, UID: m.UID, Boot: b.Name, Step: last.Name, Since: last.Time.Time}
		if b.Image != nil {
			s.Image = refOf(b.Image.Name)
		}
		open = append(open, s)
	}
	return open
}

// refOf reads namespace/name.
func refOf(name string) model.Ref { return model.Stored{Key: name}.Ref() }
