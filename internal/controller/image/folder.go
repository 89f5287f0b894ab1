package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
)

// partName is the name, but for its ending, of a file on its way; originUpload is the
// origin of an upload.
const (
	partName     = "image"
	originUpload = "upload"
)

// folder is the part of the ISO directory that files are received into.
type folder struct {
	*Options
	root *os.Root // nil: there is no directory
	pace *pace
}

func (f *folder) files() download.Folder { return download.Folder{Root: f.root} }

// upload opens the unfinished upload of a CD-ROM.
func (f *folder) upload(cdrom *v1.ISCSICdrom) (*download.Part, error) {
	return f.files().OpenPart(image.OwnFolder(cdrom), partName, originUpload, f.pace.save)
}

// uploaded is the state of the unfinished upload of a CD-ROM.
func (f *folder) uploaded(cdrom *v1.ISCSICdrom) (download.State, error) {
	return download.ReadState(f.root, image.OwnFolder(cdrom), partName, originUpload)
}

// checkRoom fails where the disk has no room for the rest of a file.
func (f *folder) checkRoom(p *download.Part) error {
	free, err := f.pace.free(f.Dir)
	if err != nil {
		return nil // it shows when it is written to
	}
	need := f.pace.reserve
	if p.State.Total >= 0 {
		need += uint64(p.State.Total - p.State.Offset)
	}
	if free < need {
		return fmt.Errorf("%w: %d MB are free, %d MB are needed", errDiskFull, free>>20, need>>20)
	}
	return nil
}

// save keeps what has come of a file for the next try.
func (f *folder) save(p *download.Part) {
	if err := p.Save(); err != nil {
		f.Logger.Warn("an unfinished transfer cannot be saved", "error", err)
	}
}

// commit gives a file that is whole its name, which changes its identity.
func (f *folder) commit(p *download.Part, name, sum string) error {
	if err := p.Commit(name); err != nil {
		return err
	}
	if info, err := p.Stat(); err == nil {
		f.Library.RememberDigest(info, sum)
	}
	return nil
}

// has reports whether a file of a set is there, as it should be. verified is true where
// its signature was looked at since.
func (f *folder) has(ctx context.Context, cdrom *v1.ISCSICdrom, wanted *ordered, verified bool) bool {
	trusted := f.Keyring == nil || verified
	for _, e := range f.manifest(cdrom).Releases {
		for _, there := range e.Files {
			trusted = trusted || there.Name == wanted.name && f.trusts(&e)
		}
	}
	if !trusted {
		return false
	}
	name := path.Join(image.OwnFolder(cdrom), wanted.name)
	file, err := f.root.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	// An earlier release took files of any content.
	if errors.Is(image.CheckArtifact(wanted.role, file, info.Size()), image.ErrBadImage) {
		if err := f.root.Remove(name); err != nil {
			f.Logger.Warn("a file that is no image cannot be removed", "error", image.Cause(err))
		}
		return false
	}
	sum, err := f.Library.Digest(ctx, file)
	return err == nil && strings.EqualFold(sum, wanted.source.SHA256)
}

// keepFile gives a whole file of a set its name, if it is what its role says. It is not
// served before all have come.
func (f *folder) keepFile(p *download.Part, wanted *ordered) error {
	if err := image.CheckArtifact(wanted.role, p, p.State.Offset); err != nil {
		return err
	}
	if err := p.Sync(); err != nil {
		return err
	}
	return f.commit(p, wanted.name, strings.ToLower(wanted.source.SHA256))
}

// remove removes all that was received for an object.
func (f *folder) remove(uid types.UID) error {
	if f.root == nil || uid == "" {
		return nil
	}
	return f.root.RemoveAll(path.Join(image.OwnDir, image.PlainUID(string(uid))))
}

// maxStrays is how many folders are named at once.
const maxStrays = 10

// reportStrays logs the folders of CD-ROMs that the store does not have: they were
// deleted while this server was away. Their files stay, since the store may be another
// one by mistake; somebody has to know of it.
func (f *folder) reportStrays(known map[string]bool) {
	if f.root == nil {
		return
	}
	entries, err := fs.ReadDir(f.root.FS(), image.OwnDir)
	if err != nil {
		return // nothing was received yet
	}
	var folders []string
	size := int64(0)
	for _, entry := range entries {
		if !entry.IsDir() || known[entry.Name()] {
			continue
		}
		folders = append(folders, entry.Name())
		files, _ := fs.ReadDir(f.root.FS(), path.Join(image.OwnDir, entry.Name()))
		for _, file := range files {
			if info, err := file.Info(); err == nil {
				size += info.Size()
			}
		}
	}
	if len(folders) == 0 {
		return
	}
	f.Logger.Warn("files of images that the store does not have take up room; "+
		"where it is the right store they can be removed", "directory", filepath.Join(f.Dir, image.OwnDir),
		"folders", folders[:min(len(folders), maxStrays)], "count", len(folders), "bytes", size)
}
