package image

import (
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
)

// maxEntries is how many releases a manifest tells of: the one that has come, and
// the one whose place it takes.
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

// tidy takes away what an image's folder holds beside the files of the release that
// has come. Whoever has a file open goes on reading it.
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
