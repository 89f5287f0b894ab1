package image

import "time"

const (
	// maxFormer is how many images are kept open after others have taken their
	// place.
	maxFormer = 2
	// lingering is for how long: a machine that has begun to boot one comes back
	// for its root file system, over a connection of its own.
	lingering = 30 * time.Minute
)

// former are the images that others have taken the place of, the newest first. They
// have no names any more, and their room on the disk is free when they are closed.
type former []formerImage

type formerImage struct {
	volume *volume
	files  *set
	until  time.Time
}

func (f *formerImage) drop() {
	if f.volume != nil {
		_ = f.volume.drop()
	}
	if f.files != nil {
		_ = f.files.drop()
	}
}

// add keeps an image, which the caller held.
func (f *former) add(one formerImage) {
	*f = append(former{one}, *f...)
	f.expire(time.Time{})
}

// expire lets go of those whose time has come, and of those that are too many; next
// is when the next one's has.
func (f *former) expire(now time.Time) (next time.Time) {
	kept := former{}
	for i := range *f {
		one := (*f)[i]
		if len(kept) == maxFormer || !one.until.After(now) {
			one.drop()
			continue
		}
		kept = append(kept, one)
		next = one.until
	}
	*f = kept
	return next
}

// clear lets go of all.
func (f *former) clear() {
	for i := range *f {
		(*f)[i].drop()
	}
	*f = nil
}

func (f former) volume(version string) *volume {
	for i := range f {
		if v := f[i].volume; v != nil && versionOf(v.sha256) == version {
			return v
		}
	}
	return nil
}

func (f former) set(version string) *set {
	for i := range f {
		if s := f[i].files; s != nil && versionOf(s.sum) == version {
			return s
		}
	}
	return nil
}
