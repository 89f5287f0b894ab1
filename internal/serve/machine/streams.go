package machine

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/fault"
)

// PathStreams is where stream metadata is served, and PathArtifacts the files of a
// mirror of its images. The last part of a stream's path is {stream}.json, as
// coreos-installer asks for it with --stream-base-url.
const (
	PathStreams   = "/streams/"
	PathArtifacts = PathStreams + "artifacts/"
)

// Streams is what stream metadata is served from.
type Streams struct {
	// Document finds the document of a release of a stream, of the current one where
	// release is "", and its hash.
	Document func(stream, release string) (document []byte, hash string, ok bool)
	// Aliases are further paths at which streams are served: path to stream.
	Aliases map[string]string
	// Artifacts is a folder of images, for PathArtifacts; nil: there is none.
	Artifacts *os.Root
}

var (
	jsonType   = []string{"application/json"}
	revalidate = []string{"no-cache"}
)

// streamPath tells whether a request is for stream metadata or images, and which.
func (s *Server) streamPath(path string) (endpoint, bool) {
	if s.opts.Streams == nil {
		return other, false
	}
	if _, alias := s.opts.Streams.Aliases[path]; alias {
		return stream, true
	}
	switch {
	case strings.HasPrefix(path, PathArtifacts):
		return artifact, true
	case strings.HasPrefix(path, PathStreams):
		return stream, true
	}
	return other, false
}

// serveStream answers with a stream's document, to the byte as it was imported.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, x *exchange) {
	x.request.Caller = s.opts.Resolver.Caller(r)
	name, known := s.opts.Streams.Aliases[r.URL.Path]
	if !known {
		name, known = strings.CutSuffix(strings.TrimPrefix(r.URL.Path, PathStreams), ".json")
	}
	if !known || name == "" {
		fail(w, r, x, fault.New(fault.NoMatch, "there is nothing at this path; want /streams/STREAM.json"))
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, r, x, fault.New(fault.Malformed, "the query is malformed"))
		return
	}
	x.boots = "stream " + clip(name, 64)
	document, hash, ok := s.opts.Streams.Document(name, query.Get("release"))
	if !ok && s.opts.Lost.Streams {
		fail(w, r, x, lost)
		return
	}
	if !ok {
		sentence := "there is no stream " + clip(name, 64)
		if release := query.Get("release"); release != "" {
			sentence = "there is no release " + clip(release, 64) + " of stream " + clip(name, 64)
		}
		fail(w, r, x, fault.New(fault.NoMatch, sentence))
		return
	}
	h, etag := w.Header(), `"`+hash+`"`
	h["Etag"] = []string{etag}
	h["Cache-Control"] = revalidate
	if conditions := r.Header["If-None-Match"]; len(conditions) > 0 && matchesAny(conditions, etag) {
		x.status = http.StatusNotModified
		w.WriteHeader(x.status)
		return
	}
	h["Content-Type"] = jsonType
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(document))}
	x.status = http.StatusOK
	w.WriteHeader(x.status)
	if r.Method != http.MethodHead {
		x.bytes, x.broken = w.Write(document)
	}
}

// serveArtifact answers with a file of the folder of images, with ranges. Folders
// are not listed, and what is on its way is not there.
func (s *Server) serveArtifact(w http.ResponseWriter, r *http.Request, x *exchange) {
	x.request.Caller = s.opts.Resolver.Caller(r)
	below := strings.TrimPrefix(r.URL.Path, PathArtifacts)
	x.boots = "artifact " + clip(below, 128)
	root := s.opts.Streams.Artifacts
	if root == nil {
		fail(w, r, x, fault.New(fault.NoMatch, "no images are served here; the server has to be started with --streams-dir"))
		return
	}
	file, err := openArtifact(root, below)
	if err != nil {
		failure := fault.New(fault.NoMatch, "there is no such image")
		failure.Cause = err
		fail(w, r, x, failure)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		fail(w, r, x, fault.Of(err))
		return
	}
	h := w.Header()
	h["Etag"] = []string{`"` + strconv.FormatInt(info.Size(), 16) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 16) + `"`}
	h["Content-Type"] = bytesType
	if strings.HasSuffix(below, ".json") {
		h["Content-Type"] = jsonType
	}
	h["X-Content-Type-Options"] = noSniff
	http.ServeContent(&counter{ResponseWriter: w, x: x}, r, "", info.ModTime(), file)
}

// underWay are what the names of files end in that a mirror is still bringing.
var underWay = []string{".part", ".part.json", ".new"}

// openArtifact opens a regular file below root. The path of one that leads out of
// it, through a link too, is an error.
func openArtifact(root *os.Root, below string) (*os.File, error) {
	if !fs.ValidPath(below) || strings.HasPrefix(below, ".") || strings.Contains(below, "/.") ||
		slices.ContainsFunc(underWay, func(suffix string) bool { return strings.HasSuffix(below, suffix) }) {
		return nil, fs.ErrNotExist
	}
	info, err := root.Stat(below) // before it is opened: a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a file")
	}
	return root.Open(below)
}
