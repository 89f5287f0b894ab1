package image

import "time"

// maxFormer is how many images are kept open after others have taken their place.
const maxFormer = 2

// former are the images that others have taken the place of, the newest first. They
// have no names any more, and their room on the disk is free when they are closed.
type former []formerImage

type formerImage struct {
	Content
	until time.Time
}

// add keeps an image, which the caller held.
func (f *former) add(one formerImage) {
	*f = append(former{one}, *f...)
	f.expire(time.Time{})
}

// expire drops the images whose time is over, and those beyond maxFormer. next is when
// the time of the next one is over.
func (f *former) expire(now time.Time) (next time.Time) {
	var kept former
	for _, one := range *f {
		if len(kept) == maxFormer || !one.until.After(now) {
			_ = one.drop()
			continue
		}
		kept = append(kept, one)
		next = one.until
	}
	*f = kept
	return next
}

// clear drops all.
func (f *former) clear() {
	for _, one := range *f {
		_ = one.drop()
	}
	*f = nil
}

// find returns the content with a version; none where there is no such version.
func (f former) find(version string) Content {
	for _, one := range f {
		if one.version() == version {
			return one.Content
		}
	}
	return Content{}
}
