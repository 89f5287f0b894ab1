package image

import (
	"io/fs"
	"os"
)

// identity tells one state of a file from another: a file with the same one has
// the same content.
type identity struct {
	Inode    uint64 `json:"inode"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	// Changed is when anything of the file was changed last, its time of modification
	// among it: that can be set back, this cannot.
	Changed int64 `json:"changed"`
}

func identityOf(info fs.FileInfo) identity {
	inode, changed := details(info)
	return identity{inode, info.Size(), info.ModTime().UnixNano(), changed}
}

// unchanged reports whether an open file is in the state that it was in. That its last
// name has gone, because another file was given it, changes no byte.
func unchanged(f *os.File, was identity) (bool, error) {
	now, links, err := stateOf(f)
	if err == nil && links == 0 {
		now.Changed = was.Changed
	}
	return err == nil && now == was, err
}
