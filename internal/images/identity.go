package images

import "io/fs"

// identity tells one state of a file from another: a file with the same one has
// the same content.
type identity struct {
	Inode    uint64 `json:"inode"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
}

func identityOf(info fs.FileInfo) identity {
	return identity{inode(info), info.Size(), info.ModTime().UnixNano()}
}
