package machine

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ownPaths are the paths of a Server among those of the API.
var ownPaths = []string{PathIgnition, PathKickstart, PathComplete, PathHardware}

// apiPaths begin the paths that are not a Server's: those of the API and of the metrics.
var apiPaths = []string{"", "api", "apis", "openapi", "version", "metrics"}

// Answers reports whether a request for a path is a Server's to answer: at its own paths and below them, and at
// those of nobody, for which it lists its own. The API would ask a machine for a credential there.
func Answers(path string) bool {
	path = clean(path)
	if slices.ContainsFunc(ownPaths, func(own string) bool { return path == own || strings.HasPrefix(path, own+"/") }) {
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return !slices.Contains(apiPaths, first)
}

// clean returns a path without doubled slashes, and without one at its end except for the root. Dots stay as
// they are.
func clean(path string) string {
	if !strings.Contains(path, "//") && (len(path) < 2 || !strings.HasSuffix(path, "/")) {
		return path
	}
	var b strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		if part != "" {
			b.WriteString("/" + part)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// cleaned returns a request with its path clean. A redirect to that would end the boot: firmware and U-Boot
// follow none.
func cleaned(r *http.Request) *http.Request {
	path := clean(r.URL.Path)
	if path == r.URL.Path {
		return r
	}
	inner, at := *r, *r.URL
	at.Path, at.RawPath = path, ""
	inner.URL = &at
	return &inner
}

// said returns a parameter of free text. A plus sign is itself: iPXE does not escape it, and writes a space
// as %20.
func said(r *http.Request) url.Values {
	values, _ := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, "+", "%2B")) // what cannot be read is left out
	return values
}
