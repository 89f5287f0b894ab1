package snapshot

import (
	"slices"
	"strings"

	"glowplug/internal/domain/shardmap"
)

// imageIndex finds images by name and by what this server offers them under.
type imageIndex struct {
	byRef shardmap.Map[Ref, *Image]
	// byIQN is by IQNs in lower case.
	byIQN table[string, *Image]
}

// indexImages makes an index of images, which it sorts.
func indexImages(images []*Image) imageIndex {
	slices.SortFunc(images, (*Image).compare)
	var x imageIndex
	for _, i := range images {
		x.byRef.Add(i.Ref, i)
		x.edit(adding, i)
	}
	return x
}

// put puts an image in the place of old; either may be nil.
func (x *imageIndex) put(old, i *Image) {
	if old != nil {
		x.edit(removing, old)
	}
	if i != nil {
		x.byRef = x.byRef.With(i.Ref, i)
		x.edit(inserting, i)
	} else if old != nil {
		x.byRef = x.byRef.Without(old.Ref)
	}
}

func (x *imageIndex) edit(e edit, i *Image) {
	if i.IQN != "" && i.External == nil {
		x.byIQN.edit(e, strings.ToLower(i.IQN), i)
	}
}
