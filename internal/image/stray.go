package image

import (
	"io/fs"
	"path"
	"path/filepath"

	v1 "glowplug/api/v1"
)

// strays tells of the folders of CD-ROMs that the store does not have: they were
// deleted while this server was away. What they hold stays, since the store may be
// another one by mistake; somebody has to know of it.
func (l *Library) strays(list []v1.ISCSICdrom) {
	if l.root == nil {
		return
	}
	entries, err := fs.ReadDir(l.root.FS(), ownDir)
	if err != nil {
		return // nothing was received yet
	}
	known := map[string]bool{}
	for i := range list {
		known[plainUID(string(list[i].UID))] = true
	}
	var folders []string
	size := int64(0)
	for _, entry := range entries {
		if !entry.IsDir() || known[entry.Name()] {
			continue
		}
		folders = append(folders, entry.Name())
		files, _ := fs.ReadDir(l.root.FS(), path.Join(ownDir, entry.Name()))
		for _, file := range files {
			if info, err := file.Info(); err == nil {
				size += info.Size()
			}
		}
	}
	if len(folders) == 0 {
		return
	}
	l.opts.Logger.Warn("files of images that the store does not have take up room; where it is the right store they can be removed",
		"directory", filepath.Join(l.opts.Dir, ownDir), "folders", folders[:min(len(folders), maxStrays)], "count", len(folders), "bytes", size)
}

// maxStrays is how many folders are named at once.
const maxStrays = 10
