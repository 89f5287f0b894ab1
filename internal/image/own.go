package image

import "glowplug/internal/image/download"

// folder is the ISO directory as files are received into it, for nobody else to read.
func (l *Library) folder() download.Folder { return download.Folder{Root: l.root} }

// tighten closes the library's own folder to other users of the machine: earlier
// releases made it open. What lies in it cannot be reached then, and keeps its modes: a
// file whose mode changes gets another time of change, and would be read again for its
// digest.
func (l *Library) tighten() {
	info, err := l.root.Stat(ownDir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return // nothing was received yet, or it is closed
	}
	if err := l.root.Chmod(ownDir, 0o700); err != nil {
		l.opts.Logger.Warn("the folder of received images is open to other users and cannot be closed: give it mode 0700",
			"folder", ownDir, "error", plain(err))
	}
}
