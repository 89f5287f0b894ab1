package machine

import (
	"cmp"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/model"
	"glowplug/internal/image"
)

// isoPath reads PathISO{ns}/{name}.iso and PathISO{ns}/{name}/files/{file}; file
// is "" for the image itself. The name may end in @{version}: that of the image in the
// machine's script. The token of the boot, if the machine needs one, follows it.
func isoPath(path string) (ref model.Ref, version, token, file string, ok bool) {
	namespace, rest, _ := strings.Cut(strings.TrimPrefix(path, PathISO), "/")
	name, file, inside := strings.Cut(rest, "/")
	if inside {
		file, ok = strings.CutPrefix(file, "files/")
		ok = ok && file != ""
	} else {
		name, ok = strings.CutSuffix(name, ".iso")
	}
	name, token = boottoken.CutPath(name)
	name, version, _ = strings.Cut(name, "@")
	return model.Ref{Namespace: namespace, Name: name}, version, token, file, ok && namespace != "" && name != ""
}

// serveISO answers PathISO, with ranges.
func (s bootPath) serveISO(w *response, r *http.Request, req *request) result {
	ref, version, token, file, ok := isoPath(r.URL.Path)
	if !ok || s.opts.Boot.Images == nil {
		return w.fail(result{}, fault.New(fault.NoMatch,
			"there is nothing at this path; want /iso/NAMESPACE/NAME.iso or /iso/NAMESPACE/NAME/files/FILE"))
	}
	if failure := s.readClaims(r, req); failure != nil {
		return w.fail(result{}, failure)
	}
	req.Claims.Token = cmp.Or(token, req.Claims.Token)
	// A credential counts for images also where the request claims nothing.
	req.Caller.Believed = req.Caller.Believed || s.opts.Believe(r)
	i := s.decideImage(r, req, ref)
	res := result{ConfigDecision: decide.ConfigDecision{Identity: i.Identity}, boots: "image " + ref.String()}
	if i.Err != nil {
		return w.fail(res, i.Err)
	}
	image, err := s.opts.Boot.Images.Open(ref, version, i.Args, i.Token, i.Host)
	if err != nil {
		failure := fault.Of(err)
		if i.Host != nil && failure.Kind == fault.Unavailable {
			s.notify(decide.ImageUnavailable(i.Host, ref, failure))
		}
		return w.fail(res, failure)
	}
	defer image.Release()
	content, ok := image.File(file)
	switch {
	case !ok && file != "":
		return w.fail(res, fault.New(fault.NoMatch, "image "+ref.String()+" has no such file"))
	case !ok:
		return w.fail(res, fault.New(fault.NoMatch,
			"image "+ref.String()+" is several files and no ISO; they are at /iso/"+ref.String()+"/files/"))
	}
	h := w.Header()
	h.Set("Etag", image.ETag())
	h.Set("Content-Type", bytesType)
	h.Set("X-Content-Type-Options", "nosniff")
	// No Last-Modified: other kernel arguments are other bytes of the same file.
	http.ServeContent(w, r, "", time.Time{}, content)
	return res
}

// decideImage decides whether the machine may read an image, and counts it if not.
func (s bootPath) decideImage(r *http.Request, req *request, ref model.Ref) decide.ImageDecision {
	if !req.Caller.Believed {
		req.ImageLimit = s.opts.Sources.Images(req.At, &req.Caller)
	}
	i := s.opts.Boot.Booter.Image(&req.Request, ref, false)
	s.record(r, req, &i.Identity)
	if i.Missed && !req.Caller.Believed {
		s.opts.Sources.Missed(req.At, &req.Caller)
	}
	return i
}

// ServedImages are the images of a library, whose reads are recorded in a journal as the
// progress of boots. It implements Images.
type ServedImages struct {
	Library *image.Library
	Journal image.Journal
}

// Open implements Images.
func (s ServedImages) Open(ref model.Ref, version string, args []string, token string, host *model.Host) (
	Image, error,
) {
	if s.Library.IsSet(ref) {
		files, err := s.Library.Files(ref, version)
		if err != nil {
			return nil, err
		}
		return &fileSet{files, host, s.Journal}, nil
	}
	disk, err := s.Library.DiskOf(ref, version, args, token)
	if err != nil {
		return nil, err
	}
	return &disc{disk, disk.Progress(host, s.Journal)}, nil
}

// disc is an ISO image whose reads count as progress of a boot.
type disc struct {
	*image.Disk
	progress *image.Progress
}

// ReadAt implements io.ReaderAt.
func (d *disc) ReadAt(b []byte, off int64) (int, error) {
	d.progress.Read(off, int64(len(b)))
	return d.Disk.ReadAt(b, off)
}

// File implements Image.
func (d *disc) File(path string) (io.ReadSeeker, bool) {
	file := iso.File{Size: d.Size(), Extents: []iso.Extent{{Off: 0, Len: d.Size()}}}
	if path != "" {
		var err error
		if file, err = d.Lookup(path); err != nil {
			return nil, false
		}
	}
	return &imageContent{SectionReader: file.Reader(d), next: func(off, n int64) (iso.Segment, error) {
		off, n = file.At(off, n)
		d.progress.Read(off, n)
		return d.AppendSegments(nil, off, n)[0], d.Check()
	}}, true
}

// fileSet is an image of several files.
type fileSet struct {
	*image.Files
	host    *model.Host // nil: unknown
	journal image.Journal
}

// File implements Image.
func (s *fileSet) File(role string) (io.ReadSeeker, bool) {
	file, size, ok := s.Open(role)
	if !ok {
		return nil, false
	}
	record := func() {}
	if s.host != nil {
		switch role {
		case coreos.Kernel:
			record = sync.OnceFunc(func() { s.journal.KernelRead(s.host, s.Ref(), "/"+role) })
		case coreos.Initramfs:
			record = sync.OnceFunc(func() { s.journal.InitrdRead(s.host, s.Ref(), "/"+role) })
		case coreos.Rootfs:
			record = sync.OnceFunc(func() { s.journal.RootfsRead(s.host, s.Ref(), "/"+role) })
		}
	}
	recorded := &recordedFile{file, record}
	return &imageContent{
		SectionReader: io.NewSectionReader(recorded, 0, size),
		next: func(off, n int64) (iso.Segment, error) {
			record()
			return iso.Segment{Source: file, Off: off, Len: n}, nil
		},
	}, true
}

// recordedFile is a file whose reads are recorded.
type recordedFile struct {
	*os.File
	record func()
}

// ReadAt implements io.ReaderAt.
func (f *recordedFile) ReadAt(b []byte, off int64) (int, error) {
	f.record()
	return f.File.ReadAt(b, off)
}
