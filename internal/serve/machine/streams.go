package machine

import (
	"net/http"
	"net/url"
	"os"
	"slices"
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

// Streams has stream metadata, and images.
type Streams struct {
	// Document returns the document of a release of a stream, of the current one where
	// release is "", and its hash.
	Document func(stream, release string) (document []byte, hash string, ok bool)
	// Lost reports whether releases are lost; nil: none are.
	Lost func() bool
	// Aliases are further paths at which streams are served: path to stream.
	Aliases map[string]string
	// Artifacts is a folder of images, for PathArtifacts; nil: there is none.
	Artifacts *os.Root
}

// streamPath answers PathStreams and PathArtifacts.
type streamPath struct{ *Server }

// serveStream answers with a stream's document, to the byte as it was imported.
func (s streamPath) serveStream(w *response, r *http.Request, _ *request) result {
	name, known := s.opts.Streams.Aliases[r.URL.Path]
	if !known {
		name, known = strings.CutSuffix(strings.TrimPrefix(r.URL.Path, PathStreams), ".json")
	}
	if !known || name == "" {
		return w.fail(result{}, fault.New(fault.NoMatch, "there is nothing at this path; want /streams/STREAM.json"))
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return w.fail(result{}, fault.New(fault.Malformed, "the query is malformed"))
	}
	release := query.Get("release")
	res := result{boots: "stream " + clip(name, 64)}
	document, hash, ok := s.opts.Streams.Document(name, release)
	switch {
	case ok:
	case s.opts.Streams.Lost != nil && s.opts.Streams.Lost():
		return w.fail(res, fault.LostBucket("stream releases"))
	case release != "":
		return w.fail(res, fault.New(fault.NoMatch, "there is no release "+clip(release, 64)+" of stream "+clip(name, 64)))
	default:
		return w.fail(res, fault.New(fault.NoMatch, "there is no stream "+clip(name, 64)))
	}
	h, etag := w.Header(), `"`+hash+`"`
	h.Set("Etag", etag)
	h.Set("Cache-Control", "no-cache")
	if !w.notModified(r, etag) {
		h.Set("X-Content-Type-Options", "nosniff")
		w.write(http.StatusOK, jsonType, document)
	}
	return res
}

// serveArtifact answers with a file of the folder of images. Unfinished downloads are not
// served.
func (s streamPath) serveArtifact(w *response, r *http.Request, _ *request) result {
	below := strings.TrimPrefix(r.URL.Path, PathArtifacts)
	res := result{boots: "artifact " + clip(below, 128)}
	root := s.opts.Streams.Artifacts
	switch {
	case root == nil:
		return w.fail(res, fault.New(fault.NoMatch,
			"no images are served here; the server has to be started with --streams-dir"))
	case slices.ContainsFunc(unfinished, func(suffix string) bool { return strings.HasSuffix(below, suffix) }):
		return w.fail(res, fault.New(fault.NoMatch, "there is no such image"))
	}
	return serveFile(w, r, root, below, res, "there is no such image")
}

// unfinished are the suffixes of files that a mirror is still downloading.
var unfinished = []string{".part", ".part.json", ".new"}
