package machine

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"

	"glowplug/internal/domain/fault"
)

// PathAssets is where the files of a folder of the operator are served.
const PathAssets = "/assets/"

// serveAsset answers with a file of the folder of assets.
func (s *Server) serveAsset(w *response, r *http.Request, _ *request) result {
	below := strings.TrimPrefix(r.URL.Path, PathAssets)
	res := result{boots: "asset " + clip(below, 128)}
	if s.opts.Assets == nil {
		return w.fail(res, fault.New(fault.NoMatch,
			"no assets are served here; the server has to be started with --assets-dir"))
	}
	return serveFile(w, r, s.opts.Assets, below, res, "there is no such asset")
}

// serveFile answers with a file below root, with ranges. Folders are not listed.
func serveFile(w *response, r *http.Request, root *os.Root, below string, res result, missing string) result {
	file, err := openFile(root, below)
	if err != nil {
		failure := fault.New(fault.NoMatch, missing)
		failure.Cause = err
		return w.fail(res, failure)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return w.fail(res, fault.Of(err))
	}
	h := w.Header()
	h.Set("Etag", `"`+strconv.FormatInt(info.Size(), 16)+"-"+strconv.FormatInt(info.ModTime().UnixNano(), 16)+`"`)
	// Not by the suffix: a browser would run a page with the rights of the admin listener.
	h.Set("Content-Type", bytesType)
	if strings.HasSuffix(below, ".json") {
		h.Set("Content-Type", jsonType)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), file)
	return res
}

// openFile opens a regular file below root. A path that leads out of root, through a link
// too, is an error, and so is one with a hidden file or folder.
func openFile(root *os.Root, below string) (*os.File, error) {
	if !fs.ValidPath(below) || strings.HasPrefix(below, ".") || strings.Contains(below, "/.") {
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
