package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
)

var (
	errSettling = errors.New("the file is being written")
	errNoFile   = errors.New("it is no regular file")
)

// announce says that a file is being read, which takes a while where it is large,
// unless an older one is served meanwhile.
func (l *Library) announce(ctx context.Context, im *image, cdrom *v1.ISCSICdrom) {
	l.mu.Lock()
	served := im.current != nil
	l.mu.Unlock()
	if served {
		return
	}
	f := finding{phase: v1.PhasePending, message: "its SHA-256 is being computed"}
	if err := l.writeStatus(ctx, im, cdrom, &f); err != nil {
		l.opts.Logger.Debug("a status could not be written", "image", im.ref.String(), "error", err)
	}
}

// open gives the file as it is now: the volume that is current, if that is still
// it, or a new one. hashing is called before a file is read whole.
func (l *Library) open(ctx context.Context, im *image, name string, hashing func()) (*volume, error) {
	info, err := l.root.Stat(name)
	if err != nil {
		l.saw(im, identity{})
		return nil, plain(err)
	}
	id := identityOf(info)
	l.saw(im, id)
	l.mu.Lock()
	current := im.current
	l.mu.Unlock()
	if current != nil && *current.id.Load() == id && current.path == name {
		return current, nil
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	own := strings.HasPrefix(name, ownDir+"/")
	if age := l.opts.Now().Sub(info.ModTime()); !own && age >= 0 && age < l.pace.settle {
		return nil, errSettling
	}
	f, err := l.root.Open(name)
	if err != nil {
		return nil, plain(err)
	}
	v, err := l.read(ctx, f, id, hashing)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	v.path = name
	return v, nil
}

// read makes a volume of an open file, which has to be, and to stay, id.
func (l *Library) read(ctx context.Context, f *os.File, id identity, hashing func()) (*volume, error) {
	same := func() error {
		info, err := f.Stat()
		if err == nil && (identityOf(info) != id || !info.Mode().IsRegular()) {
			err = errSettling
		}
		return err
	}
	if err := same(); err != nil {
		return nil, err
	}
	img, err := iso.Open(l.pace.source(f), id.Size)
	if err != nil {
		return nil, err
	}
	boots, _ := img.BootFiles() // the progress of boots from an image without any is not noted
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
	v := &volume{file: f, img: img, bootFiles: boots, sha256: sum, holders: 1}
	v.id.Store(&id)
	return v, nil
}

func (l *Library) saw(im *image, id identity) {
	l.mu.Lock()
	im.seen = id
	l.mu.Unlock()
}

// plain leaves the system call and its path out of an error; fs.ErrNotExist and
// the like stay what they are.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// doomed is an object that was deleted, and its transfers, which have been told
// to end.
type doomed struct {
	uid  string
	ends []<-chan struct{}
}

// clean takes away what was kept for objects that were deleted.
func (l *Library) clean(ctx context.Context, im *image) {
	l.mu.Lock()
	all := im.doomed
	im.doomed = nil
	l.mu.Unlock()
	for _, d := range all {
		for _, end := range d.ends {
			select {
			case <-end:
			case <-ctx.Done():
				return
			}
		}
		if l.root == nil || d.uid == "" {
			continue
		}
		if err := l.root.RemoveAll(path.Join(ownDir, plainUID(d.uid))); err != nil {
			l.opts.Logger.Warn("the files of a deleted image cannot be removed", "image", im.ref.String(), "error", err)
		}
	}
}
