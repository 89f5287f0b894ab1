package remote

import (
	"cmp"
	"net/http"
	"strings"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/version"
)

// client is the Ignition that a config is rendered for.
type client struct {
	// spec is the newest version that it reads.
	spec string
	// release is of Ignition, as its User-Agent names it, and accept its Accept header.
	release, accept string
	// keepsHeader is true for the line of spec 2, which sends its own defaults again
	// after a redirect; the line of spec 3 sends no header of a request on.
	keepsHeader bool
}

// clientOf is the client that reads up to a spec version, as the releases of Ignition
// present themselves.
func clientOf(spec string) client {
	c := client{spec: spec, release: releases[spec]}
	if !strings.HasPrefix(spec, "2.") {
		c.accept = ignition.MediaType + ";version=" + spec + ", */*;q=0.1"
		return c
	}
	c.keepsHeader = true
	c.release = cmp.Or(c.release, "v0.35.0") // it reads 2.4.0
	named := "2.2.0"                         // no release names a higher version in its header
	switch spec {
	case "2.0.0", "2.1.0":
		named = spec
	case "2.2.0-experimental":
		named = "2.1.0"
	}
	c.accept = ignition.MediaType + "; version=" + named + ", " + ignition.MediaType + "; version=1; q=0.5, */*; q=0.1"
	return c
}

// releases has the last release of Ignition that reads up to a version.
var releases = map[string]string{
	"2.0.0": "v0.16.0", "2.1.0": "v0.21.0", "2.2.0-experimental": "v0.19.0", "2.2.0": "v0.22.0",
	"3.0.0": "2.2.0", "3.1.0": "2.6.0", "3.2.0": "2.10.0", "3.3.0": "2.14.0", "3.4.0": "2.19.0", "3.5.0": "2.25.0",
	"3.6.0": "2.26.0",
}

// header has what Ignition sends by default. The name of this program stands behind
// that of the release, for the logs of who is asked.
func (c client) header() http.Header {
	return http.Header{
		"Accept":          {c.accept},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"Ignition/" + c.release + " (glowplug/" + version.Version + ")"},
	}
}
