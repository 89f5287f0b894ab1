package machine

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/store/snapshot"
)

var bytesType = []string{"application/octet-stream"}

// isoPath reads PathISO{ns}/{name}.iso and PathISO{ns}/{name}/files/{file}; file
// is "" for the image itself. The name may end in @{version}: the image as it was
// when the machine was told of it.
func isoPath(path string) (ref snapshot.Ref, version, file string, ok bool) {
	namespace, rest, _ := strings.Cut(strings.TrimPrefix(path, PathISO), "/")
	name, file, inside := strings.Cut(rest, "/")
	if inside {
		file, ok = strings.CutPrefix(file, "files/")
		ok = ok && file != ""
	} else {
		name, ok = strings.CutSuffix(name, ".iso")
	}
	name, version, _ = strings.Cut(name, "@")
	return snapshot.Ref{Namespace: namespace, Name: name}, version, file, ok && namespace != "" && name != ""
}

// serveISO answers PathISO, with ranges.
func (s *Server) serveISO(w http.ResponseWriter, r *http.Request, x *exchange) {
	ref, version, file, ok := isoPath(r.URL.Path)
	if !ok || s.opts.Boot.Images == nil {
		fail(w, r, x, fault.New(fault.NoMatch, "there is nothing at this path; want /iso/NAMESPACE/NAME.iso or /iso/NAMESPACE/NAME/files/FILE"))
		return
	}
	if failure := s.hear(r, x); failure != nil {
		fail(w, r, x, failure)
		return
	}
	if s.opts.Lost.Images {
		fail(w, r, x, lost)
		return
	}
	caller := &x.request.Caller
	if limit := s.opts.Sources.Images(x.start, caller); limit != decide.Unlimited && !s.believed(r, x) {
		x.request.ImageLimit = limit
	}
	i := s.opts.Boot.Booter.Image(&x.request, ref, false)
	x.decision.Host, x.decision.FoundBy = i.Host, i.FoundBy
	x.boots = "image " + ref.String()
	s.noticed(x, i.Notices...)
	s.guessed(x, &i.Unheld)
	if i.Missed && !s.believed(r, x) {
		s.opts.Sources.Missed(x.start, caller)
	}
	if i.Err != nil {
		fail(w, r, x, i.Err)
		return
	}
	image, err := s.opts.Boot.Images.Open(ref, version, i.Args, i.Host)
	if err != nil {
		failure := fault.Of(err)
		if i.Host != nil && failure.Kind == fault.Unavailable {
			s.noticed(x, decide.ImageUnavailable(i.Host, ref, failure))
		}
		fail(w, r, x, failure)
		return
	}
	defer image.Release()
	if file == "" && image.Size() < 0 {
		fail(w, r, x, fault.New(fault.NoMatch, "image "+ref.String()+" is several files and no ISO; they are at /iso/"+ref.String()+"/files/"))
		return
	}
	var content io.ReadSeeker = io.NewSectionReader(image, 0, max(0, image.Size()))
	h := w.Header()
	h["Etag"] = []string{image.ETag()}
	if file != "" {
		if content, ok = image.File(file); !ok {
			delete(h, "Etag")
			fail(w, r, x, fault.New(fault.NoMatch, "image "+ref.String()+" has no such file"))
			return
		}
	}
	h["Content-Type"] = bytesType
	h["X-Content-Type-Options"] = noSniff
	counted := &counter{ResponseWriter: w, x: x, may: func() bool { return s.unchanged(r, x) }}
	// No Last-Modified: other kernel arguments are other bytes of the same file.
	http.ServeContent(counted, r, "", time.Time{}, content)
}

// believed reports whether the sender of a request is believed, also where it claims
// nothing.
func (s *Server) believed(r *http.Request, x *exchange) bool {
	return x.request.Caller.Believed || !x.request.Claims.Any() && s.opts.Believe(r)
}

// counter notes the status and the bytes of an answer.
type counter struct {
	http.ResponseWriter
	x *exchange
	// may is asked before each part of the body, and once more before its last byte;
	// nil: nobody is asked.
	may func() bool
	// left is what is left of the body, in bytes.
	left int64
}

func (c *counter) WriteHeader(status int) {
	c.x.status = status
	c.left, _ = strconv.ParseInt(c.Header().Get("Content-Length"), 10, 64)
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	if c.x.status == 0 {
		c.x.status = http.StatusOK
	}
	if c.may == nil {
		return c.pass(p)
	}
	if !c.may() {
		return 0, errChanged
	}
	before := 0
	if size := len(p); size > 1 && int64(size) >= c.left {
		n, err := c.pass(p[:size-1])
		if err != nil {
			return n, err
		}
		if before = n; !c.may() {
			return n, errChanged
		}
	}
	n, err := c.pass(p[before:])
	return before + n, err
}

func (c *counter) pass(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.left -= int64(n)
	c.x.bytes += n
	if err != nil {
		c.x.broken = err
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
