package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
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

// save saves the received part of a file for the next attempt.
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

// keepFile gives a complete file of a set its name, if its content fits its role. The set
// is served once all its files are complete.
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
		"where it is the right store, and no image was restored from an export, they can be removed",
		"directory", filepath.Join(f.Dir, image.OwnDir), "folders", folders[:min(len(folders), maxStrays)], "count", len(folders), "bytes", size)
}

// maxEntries is the number of releases in a manifest: the current one, and the one that it
// replaces.
const maxEntries = 2

// manifest is the content of an image.ManifestFile, the newest release first.
type manifest struct {
	Releases []entry `json:"releases"`
}

// entry is a release that was received whole, and verified.
type entry struct {
	origin
	Files []image.SetFile `json:"files"`
	// Signed is true where the signatures were looked at.
	Signed bool `json:"signed,omitempty"`
}

func (o *order) entry() entry {
	e := entry{origin: o.of}
	for _, f := range o.files {
		e.Files = append(e.Files, image.SetFile{Role: f.role, Name: f.name, SHA256: strings.ToLower(f.source.SHA256)})
	}
	return e
}

// sum is over the digests of an order's files, as of an entry's.
func (o *order) sum() string {
	return image.SumOf(o.entry().Files)
}

// manifest returns the manifest of an image, an empty one where there is none.
func (f *folder) manifest(cdrom *v1.ISCSICdrom) manifest {
	var m manifest
	text, err := f.root.ReadFile(path.Join(image.OwnFolder(cdrom), image.ManifestFile))
	if err != nil || json.Unmarshal(text, &m) != nil {
		return manifest{}
	}
	return m
}

// addRelease makes a release the newest of an image's manifest. signed reports whether
// the signatures of its files were looked at.
func (f *folder) addRelease(cdrom *v1.ISCSICdrom, o *order, signed bool) error {
	m := f.manifest(cdrom)
	added := o.entry()
	added.Signed = signed
	m.Releases = slices.DeleteFunc(m.Releases, func(e entry) bool { return e.origin == added.origin })
	m.Releases = slices.Insert(m.Releases, 0, added)
	m.Releases = m.Releases[:min(len(m.Releases), maxEntries)]
	text, err := json.Marshal(&m)
	if err != nil {
		return err
	}
	return f.files().Replace(path.Join(image.OwnFolder(cdrom), image.ManifestFile), text)
}

// releaseOf returns the release that an ISO image with a digest is of; nil: none that
// is known.
func (m *manifest) releaseOf(sha256 string) *entry {
	for i := range m.Releases {
		e := &m.Releases[i]
		if len(e.Files) == 1 && e.Files[0].Name == image.ReceivedFile && e.Files[0].SHA256 == sha256 {
			return e
		}
	}
	return nil
}

// trusts reports whether what was verified when it came is enough now: a keyring may
// have been given since.
func (f *folder) trusts(e *entry) bool { return f.Keyring == nil || e.Signed }

// tidy removes all files of an image's folder but those of the current release. Open files
// stay readable.
func (f *folder) tidy(cdrom *v1.ISCSICdrom, o *order) {
	files, _ := fs.ReadDir(f.root.FS(), image.OwnFolder(cdrom)) // where that fails, the files stay
	for _, file := range files {
		name := file.Name()
		if name == image.ManifestFile || slices.ContainsFunc(o.files, func(f ordered) bool { return f.name == name }) {
			continue
		}
		if err := f.root.Remove(path.Join(image.OwnFolder(cdrom), name)); err != nil {
			f.Logger.Debug("a file of an older release cannot be removed", "file", name, "error", err)
		}
	}
}
