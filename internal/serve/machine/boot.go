package machine

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// The paths that a Server with a Booter answers as well.
const (
	PathScript   = "/boot.ipxe"
	PathIPXE     = "/ipxe"
	PathISO      = "/iso/"
	PathComplete = "/api/v1/boot-complete"
)

// Answers reports whether a path is one of a Server's, besides the aliases of streams.
func Answers(path string) bool {
	switch path {
	case PathIgnition, PathKickstart, PathScript, PathIPXE, PathComplete:
		return true
	}
	return strings.HasPrefix(path, PathISO) || strings.HasPrefix(path, PathStreams)
}

// Booter decides what machines boot.
type Booter interface {
	Boot(req *decide.Request) decide.BootDecision
	Image(req *decide.Request, ref snapshot.Ref, proven bool) decide.ImageDecision
}

// Images opens images.
type Images interface {
	// Open returns an image with a machine's own kernel arguments, or with its own
	// where args is nil; host is who reads it, nil where that is unknown. version is
	// the one that the machine was told of, "" for the present one. The error is a
	// fault.Error.
	Open(ref snapshot.Ref, version string, args []string, host *snapshot.Host) (Image, error)
}

// Image is an image as one machine sees it. Its bytes do not change until Release.
type Image interface {
	io.ReaderAt
	// Size is negative where the image is several files, and no ISO.
	Size() int64
	// ETag names the bytes, in quotes.
	ETag() string
	// File returns a file within; ok is false where there is none.
	File(path string) (content io.ReadSeeker, ok bool)
	Release()
}

// The answers to unknown machines at PathIPXE.
const (
	UnknownExit    = "exit"
	UnknownMenu    = "menu"
	UnknownDefault = "default"
)

// Boot has the parts of the boot path.
type Boot struct {
	Booter Booter
	// Images may be nil: then there are only those of other targets.
	Images Images
	// Unknown is UnknownExit, UnknownMenu or UnknownDefault.
	Unknown string
	// URL is this server as machines reach it, without a slash at its end; "": by
	// the address that they reached it at.
	URL string
	// Portal is the address that machines are told for iSCSI; "": the one that
	// they reached this server at. PortalPort is the port.
	Portal     string
	PortalPort uint16
}

// bootPath answers the paths of the boot path.
type bootPath struct{ *Server }

// baseURL is this server as the sender of a request reaches it. The Host header
// is the sender's own word, and is not used.
func (s bootPath) baseURL(r *http.Request) string {
	if s.opts.Boot.URL != "" {
		return s.opts.Boot.URL
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	local := localAddr(r)
	return scheme + net.JoinHostPort(local.Addr().WithZone("").String(), strconv.Itoa(int(local.Port())))
}

// localAddr is the address that a request has reached.
func localAddr(r *http.Request) netip.AddrPort {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		local := tcp.AddrPort()
		return netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}
