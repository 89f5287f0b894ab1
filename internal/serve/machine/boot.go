package machine

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/loader"
)

// The paths of the boot path.
const (
	PathScript   = "/boot.ipxe"
	PathIPXE     = "/ipxe"
	PathISO      = "/iso/"
	PathComplete = "/api/v1/boot-complete"
	PathHardware = "/api/v1/hardware"
)

// Booter decides what machines boot.
type Booter interface {
	Boot(req *decide.Request) decide.BootDecision
	Image(req *decide.Request, ref model.Ref, proven bool) decide.ImageDecision
}

// Images opens images.
type Images interface {
	// Open returns an image with a machine's kernel arguments, or with its own where args
	// is nil, for a host, nil where that is unknown. version is the one in the machine's
	// script, "" for the present one. token is that of the machine's boot, "" where it has none.
	// The error is a fault.Error.
	Open(ref model.Ref, version string, args []string, token string, host *model.Host) (Image, error)
}

// Image is an image for one machine. Its bytes do not change until Release.
type Image interface {
	// ETag names the bytes, in quotes.
	ETag() string
	// File returns a file of the image, or the image itself where path is ""; ok is false where there is none, as where
	// the image is several files and no ISO.
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
	// Images may be nil: then there are only external ones.
	Images Images
	// Inspections stores reports of hardware; nil: there is no PathHardware.
	Inspections Inspections
	// CHAP returns the credentials of an image in a namespace, whose object may name a Secret.
	CHAP func(namespace string, chap *v1.CHAP) (v1.CHAP, error)
	// Tokens makes the tokens of boots. It is not nil where hosts need them.
	Tokens *boottoken.Key
	// Unknown is UnknownExit, UnknownMenu or UnknownDefault.
	Unknown string
	// Loaders are the boot loaders at PathLoaders; nil: there are none.
	Loaders *loader.Set
	// URL is this server's, without a slash at its end; "": with the address that the
	// machine has reached.
	URL string
	// Portal is the iSCSI address in scripts; "": the one that the machine has reached.
	// PortalPort is the port.
	Portal     string
	PortalPort uint16
	// Others returns the portals of other servers that serve an image with the same bytes as this one; nil: there are no
	// other servers.
	Others func(image model.Ref) []netip.AddrPort
}

// bootPath answers the paths of the boot path.
type bootPath struct{ *Server }

// baseURL returns this server's URL for the sender of a request. The Host header is the
// sender's claim, and is not used.
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

// localAddr returns the address that a request has reached.
func localAddr(r *http.Request) netip.AddrPort {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		local := tcp.AddrPort()
		return netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// notDurable is the answer where the state is recorded and may still be lost.
const notDurable = "that this machine is provisioned could not be stored yet; say it again in a moment"

// serveComplete answers PathComplete: the machine reports that it is provisioned. After a
// 200 this is durable.
func (s bootPath) serveComplete(w *response, r *http.Request, req *request) result {
	host, res := s.reporter(w, r, req, decide.Complete)
	if host == nil {
		return res
	}
	if s.opts.Journal != nil {
		if err := s.opts.Journal.Complete(r.Context(), host); err != nil {
			return w.fail(res, &fault.Error{Kind: fault.Unavailable, Sentence: notDurable, Cause: err})
		}
	}
	w.sentence(http.StatusOK, "host "+host.Ref.String()+" is provisioned")
	return res
}
