package snapshot

import (
	"strings"

	"glowplug/internal/domain/shardmap"
)

// imageIndex finds images by name and by IQN.
type imageIndex struct {
	bucket
	byRef shardmap.Map[Ref, *Image]
	// byIQN has, by IQNs in lower case, the images that this server offers.
	byIQN shardmap.Map[string, []*Image]
}

// put puts an image, which may be nil, in place of the one with that name.
func (x *imageIndex) put(edit *shardmap.Edit, ref Ref, i *Image) {
	x.setIQN(edit, x.byRef.Get(ref), false)
	setOrDelete(edit, &x.byRef, ref, i)
	x.setIQN(edit, i, true)
}

func (x *imageIndex) setIQN(edit *shardmap.Edit, i *Image, isListed bool) {
	if i != nil && i.IQN != "" && i.External == nil {
		shardmap.SetListed(edit, &x.byIQN, strings.ToLower(i.IQN), i, isListed, (*Image).compare)
	}
}
