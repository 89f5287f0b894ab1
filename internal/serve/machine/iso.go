package machine

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
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
	var content io.ReadSeeker
	switch {
	case file != "":
		if content, ok = image.File(file); !ok {
			return w.fail(res, fault.New(fault.NoMatch, "image "+ref.String()+" has no such file"))
		}
	case image.Size() < 0:
		return w.fail(res, fault.New(fault.NoMatch,
			"image "+ref.String()+" is several files and no ISO; they are at /iso/"+ref.String()+"/files/"))
	default:
		content = io.NewSectionReader(image, 0, image.Size())
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
	file, err := d.Lookup(path)
	if err != nil {
		return nil, false
	}
	return file.Reader(d), true
}

// fileSet is an image of several files.
type fileSet struct {
	*image.Files
	host    *model.Host // nil: unknown
	journal image.Journal
}

// Size implements Image.
func (s *fileSet) Size() int64 { return -1 }

// ReadAt implements io.ReaderAt. Only the files of a set can be read.
func (s *fileSet) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// File implements Image.
func (s *fileSet) File(role string) (io.ReadSeeker, bool) {
	file, size, ok := s.Open(role)
	if !ok {
		return nil, false
	}
	content := &firstRead{SectionReader: io.NewSectionReader(file, 0, size), record: func() {}}
	if s.host != nil {
		switch role {
		case coreos.Kernel:
			content.record = sync.OnceFunc(func() { s.journal.KernelRead(s.host, s.Ref(), "/"+role) })
		case coreos.Initramfs:
			content.record = sync.OnceFunc(func() { s.journal.InitrdRead(s.host, s.Ref(), "/"+role) })
		}
	}
	return content, true
}

// firstRead is a file whose first read is recorded.
type firstRead struct {
	*io.SectionReader
	record func()
}

func (f *firstRead) Read(b []byte) (int, error) {
	f.record()
	return f.SectionReader.Read(b)
}
