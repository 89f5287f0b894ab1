package image

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
)

// manifestFile says, in the folder of an image of a stream, which releases the
// files there are of. It is written before a file takes the place of another, and
// with a set it is what makes the switch: one small file, in one step.
const manifestFile = "manifest.json"

// maxEntries is how many releases a manifest tells of: the one that has come, and
// the one whose place it takes.
const maxEntries = 2

// manifest is the content of a manifestFile, the newest release first.
type manifest struct {
	Releases []entry `json:"releases"`
}

// entry is a release that was received whole, and verified.
type entry struct {
	origin
	Files []fileEntry `json:"files"`
	// Signed is true where the signatures were looked at.
	Signed bool `json:"signed,omitempty"`
}

type fileEntry struct {
	Role   string `json:"role"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

func (o *order) entry() entry {
	e := entry{origin: o.of}
	for _, f := range o.files {
		e.Files = append(e.Files, fileEntry{f.role, f.name, strings.ToLower(f.source.SHA256)})
	}
	return e
}

// sum is over the digests of an order's files, as of an entry's.
func (o *order) sum() string {
	e := o.entry()
	return e.sum()
}

// readManifest gives the manifest of an image, an empty one where there is none.
func (l *Library) readManifest(cdrom *v1.ISCSICdrom) manifest {
	var m manifest
	text, err := l.root.ReadFile(path.Join(ownFolder(cdrom), manifestFile))
	if err != nil || json.Unmarshal(text, &m) != nil {
		return manifest{}
	}
	return m
}

// addRelease makes a release the newest of an image's manifest. signed tells whether
// the signatures of its files were looked at.
func (l *Library) addRelease(cdrom *v1.ISCSICdrom, o *order, signed bool) error {
	m := l.readManifest(cdrom)
	added := o.entry()
	added.Signed = signed
	m.Releases = slices.DeleteFunc(m.Releases, func(e entry) bool { return e.origin == added.origin })
	m.Releases = append([]entry{added}, m.Releases...)
	if len(m.Releases) > maxEntries {
		m.Releases = m.Releases[:maxEntries]
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return err
	}
	return l.folder().Replace(path.Join(ownFolder(cdrom), manifestFile), text)
}

// releaseOf gives the release that an ISO image with a digest is of; nil: none that
// is known.
func (m *manifest) releaseOf(sha256 string) *entry {
	for i := range m.Releases {
		e := &m.Releases[i]
		if len(e.Files) == 1 && e.Files[0].Name == imageFile && e.Files[0].SHA256 == sha256 {
			return e
		}
	}
	return nil
}

// trusts tells whether what was verified when it came is enough now: a keyring may
// have been given since.
func (l *Library) trusts(e *entry) bool { return l.opts.Keyring == nil || e.Signed }

// tidy takes away what an image's folder holds beside the files of the release that
// has come. Whoever has a file open goes on reading it.
func (l *Library) tidy(cdrom *v1.ISCSICdrom, o *order) {
	dir, err := l.root.Open(ownFolder(cdrom))
	if err != nil {
		return
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return
	}
	for _, name := range names {
		kept := name == manifestFile || slices.ContainsFunc(o.files, func(f ordered) bool { return f.name == name })
		if kept {
			continue
		}
		if err := l.root.Remove(path.Join(ownFolder(cdrom), name)); err != nil {
			l.opts.Logger.Debug("a file of an older release cannot be removed", "file", name, "error", err)
		}
	}
}
