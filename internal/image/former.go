package image

import "time"

// maxFormer is how many images are kept open after others have taken their place.
const maxFormer = 2

// former are the images that others have taken the place of, the newest first. They
// have no names any more, and their room on the disk is free when they are closed.
type former []formerImage

type formerImage struct {
	volume *Volume
	files  *Set
	until  time.Time
}

func (f *formerImage) drop() {
	_ = f.volume.Drop()
	_ = f.files.Drop()
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

func (f former) volume(version string) *Volume {
	for i := range f {
		if v := f[i].volume; v != nil && versionOf(v.SHA256) == version {
			return v
		}
	}
	return nil
}

func (f former) set(version string) *Set {
	for i := range f {
		if s := f[i].files; s != nil && versionOf(s.Sum) == version {
			return s
		}
	}
	return nil
}
