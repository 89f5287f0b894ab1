package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
)

var (
	// ErrSettling is the error for a file that has just changed, and may not be complete.
	ErrSettling = errors.New("the file has just changed and may not be complete yet; it is read once it has been" +
		" left alone for two seconds")
	errNoFile = errors.New("it is no regular file")
)

// Open opens the ISO image of a CD-ROM as it is now, and returns the volume that is
// current, if it still is of that state of the file. hashing is called before a file is
// read whole.
func (l *Library) Open(ctx context.Context, cdrom *v1.ISCSICdrom, hashing func()) (*Volume, error) {
	ref, name := RefOf(cdrom), fileOf(cdrom)
	info, err := l.root.Stat(name)
	if err != nil {
		l.sawFile(ref, identity{})
		return nil, Cause(err)
	}
	id := identityOf(info)
	l.sawFile(ref, id)
	if current := l.Current(ref).Volume; current != nil && *current.id.Load() == id && current.Path == name {
		return current, nil
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	if !strings.HasPrefix(name, OwnDir+"/") && l.opts.isSettling(info) {
		return nil, ErrSettling
	}
	f, err := l.root.Open(name)
	if err != nil {
		return nil, Cause(err)
	}
	v, err := l.openVolume(ctx, f, id, hashing)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	v.Path = name
	return v, nil
}

// isSettling reports whether a file was written so recently that its writing may go on.
func (o *Options) isSettling(info fs.FileInfo) bool {
	age := o.Now().Sub(info.ModTime())
	return age >= 0 && age < o.Settle
}

// Peek looks into the ISO image of a CD-ROM that need not be stored: the distribution, and whether an argument that
// the server sets by default or that the image has itself tells the system where its config is. known is false where
// this server cannot read the file now.
func (l *Library) Peek(cdrom *v1.ISCSICdrom) (distro string, tells, known bool) {
	if l.root == nil {
		return "", false, false
	}
	name := fileOf(cdrom)
	info, err := l.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", false, false
	}
	f, err := l.root.Open(name)
	if err != nil {
		return "", false, false
	}
	defer f.Close()
	img, err := iso.Open(f, info.Size())
	if err != nil {
		return "", false, false
	}
	_, tells, _ = img.BootFiles()
	return img.Distro(), tells || slices.ContainsFunc(img.DefaultArgs(""), iso.TellsConfig), true
}

// openVolume makes a volume of an open file, which has to be, and to stay, id.
func (l *Library) openVolume(ctx context.Context, f *os.File, id identity, hashing func()) (*Volume, error) {
	same := func() error {
		info, err := f.Stat()
		if err == nil && (identityOf(info) != id || !info.Mode().IsRegular()) {
			err = ErrSettling
		}
		return err
	}
	if err := same(); err != nil {
		return nil, err
	}
	img, err := iso.Open(l.source(f), id.Size)
	if err != nil {
		return nil, err
	}
	boots, tells, _ := img.BootFiles() // the progress of boots from an image without any is not noted
	if _, known := l.digests.find(id); !known {
		hashing()
	}
	sum, err := l.digests.of(ctx, f, id)
	if err != nil {
		return nil, err
	}
	if err := same(); err != nil {
		return nil, err
	}
	l.digests.remember(id, sum)
	v := &Volume{file: f, Image: img, bootFiles: boots, TellsConfig: tells, SHA256: sum, holders: holders{count: 1}}
	v.id.Store(&id)
	return v, nil
}

// Digest returns the SHA-256 of an open file, in hex.
func (l *Library) Digest(ctx context.Context, f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return l.digests.of(ctx, f, identityOf(info))
}

// RememberDigest keeps the digest of a file that is not written any more.
func (l *Library) RememberDigest(info fs.FileInfo, sum string) {
	l.digests.remember(identityOf(info), sum)
}

// OpenSet opens the files of a release, with their names in the folder of a CD-ROM, and
// checks that they are as they were received. The error is of the first that is not. It
// returns the set that is current, if that has the same digests.
func (l *Library) OpenSet(ctx context.Context, cdrom *v1.ISCSICdrom, files []SetFile) (*Set, error) {
	s := &Set{Sum: SumOf(files), holders: holders{count: 1}}
	if current := l.Current(RefOf(cdrom)).Set; current != nil && current.Sum == s.Sum {
		return current, nil
	}
	for _, f := range files {
		err := l.openSetFile(ctx, s, OwnFolder(cdrom), f)
		if err != nil {
			_ = s.Drop()
			return nil, fmt.Errorf("its %s: %w", f.Role, err)
		}
	}
	return s, nil
}

// openSetFile adds a file to a set.
func (l *Library) openSetFile(ctx context.Context, s *Set, folder string, f SetFile) error {
	file, err := l.root.Open(path.Join(folder, f.Name))
	if err != nil {
		return Cause(err)
	}
	f.file = file
	s.Files = append(s.Files, &f)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.Size = info.Size()
	id := identityOf(info)
	sum, err := l.digests.of(ctx, file, id)
	if err == nil && sum != f.SHA256 {
		err = errors.New("it has changed on the disk")
	}
	if err == nil {
		err = CheckArtifact(f.Role, file, info.Size())
	}
	if err == nil {
		l.digests.remember(id, f.SHA256)
	}
	return err
}

// SawManifest notes the state of a set's manifest for Changed.
func (l *Library) SawManifest(cdrom *v1.ISCSICdrom) {
	l.sawFile(RefOf(cdrom), l.identityOf(path.Join(OwnFolder(cdrom), ManifestFile)))
}

// Cause returns an error without its system call and path; fs.ErrNotExist and the like
// stay what they are.
func Cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// ErrChanging is the error of a read while it is not known whether a file that was
// touched has the same content still: the same read may succeed later.
var ErrChanging = errors.New("its file has changed and is being read again")

// ErrOverwritten is the error of all reads of an image after its file was written to.
var ErrOverwritten = errors.New("its file was overwritten in place")

// check fails where the file of a volume is not in the state that it was opened in,
// and lets it be read again. One that another has taken the place of, as by a rename,
// is as good as ever.
func (l *Library) check(im *served, v *Volume) error {
	if v.spoiled.Load() {
		return ErrOverwritten
	}
	same, err := unchanged(v.file, *v.id.Load())
	if same && !v.doubted.Load() {
		return nil
	}
	if !v.doubted.Swap(true) {
		v.wasRead.Store(v.disks.Load() > 0)
		l.mu.Lock()
		l.doubtLocked(im, v)
		l.mu.Unlock()
		l.due.Publish(Due{Ref: im.ref})
	}
	if err != nil {
		return err
	}
	return ErrChanging
}

// Verify reads again the files of a CD-ROM that have changed under their readers. It
// returns the number of those that were overwritten while they were read, and when to call it
// again; 0: never.
func (l *Library) Verify(ctx context.Context, ref Ref) (overwritten int, again time.Duration) {
	for _, v := range l.doubted(ref) {
		if !l.verify(ctx, v) {
			again = max(l.opts.Settle, minVerify)
			continue
		}
		if v.spoiled.Load() && v.wasRead.Load() {
			overwritten++
		}
		l.trusted(ref, v)
	}
	return overwritten, again
}

// minVerify is the least time between two tries to verify a file.
const minVerify = 200 * time.Millisecond

// verify finds out whether the file of a volume still has the content that it had. It
// reports false while that cannot be known, since the file is being written.
func (l *Library) verify(ctx context.Context, v *Volume) bool {
	info, err := v.file.Stat()
	if err != nil || info.Size() != v.id.Load().Size {
		v.spoiled.Store(true)
		return true
	}
	if l.opts.isSettling(info) {
		return false
	}
	id := identityOf(info)
	sum, err := l.digests.of(ctx, v.file, id)
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		if same, err := unchanged(v.file, id); !same && err == nil {
			return false
		}
		l.digests.remember(id, sum)
	}
	if err != nil || sum != v.SHA256 {
		v.spoiled.Store(true)
		return true
	}
	v.id.Store(&id)
	v.doubted.Store(false)
	return true
}
