package machine

import (
	"net/http"
	"path"
	"strings"

	"glowplug/internal/domain/fault"
	"glowplug/internal/loader"
)

// PathLoaders is where boot loaders are served, for UEFI HTTP Boot.
const PathLoaders = "/boot-loaders/"

// serveLoader answers with a boot loader.
func (s bootPath) serveLoader(w *response, r *http.Request, req *request) result {
	name := strings.TrimPrefix(r.URL.Path, PathLoaders)
	if path.Base(name) == loader.Autoexec {
		return s.serveScript(w, r, req)
	}
	res := result{boots: "loader " + clip(name, 128)}
	if s.opts.Boot.Loaders == nil {
		return w.fail(res, fault.New(fault.NoMatch,
			"no boot loaders are served here; the server has to be started with --pxe-interface"))
	}
	l := s.opts.Boot.Loaders.Named(name)
	if l == nil {
		return w.fail(res, fault.New(fault.NoMatch, "there is no such boot loader"))
	}
	file, info, err := l.Open()
	if err != nil {
		return w.fail(res, fault.Of(err))
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", bytesType)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), file)
	return res
}
