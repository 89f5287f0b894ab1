package machine

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/store/snapshot"
)

// The paths that a Server with a Booter answers as well.
const (
	PathScript   = "/boot.ipxe"
	PathIPXE     = "/ipxe"
	PathISO      = "/iso/"
	PathComplete = "/api/v1/boot-complete"
)

// Answers tells whether a path is one of a Server's, besides the aliases of streams.
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
	// Open gives an image with a machine's own kernel arguments, or with its own
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
	// File gives a file within; ok is false where there is none.
	File(path string) (content io.ReadSeeker, ok bool)
	Release()
}

// What unknown machines get from PathIPXE.
const (
	UnknownExit    = "exit"
	UnknownMenu    = "menu"
	UnknownDefault = "default"
)

// Boot is what the boot of machines stands on.
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

// baseURL is this server as the sender of a request reaches it. The Host header
// is the sender's own word, and is not used.
func (s *Server) baseURL(r *http.Request) string {
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

// serveScript answers PathScript, the same for every machine.
func (s *Server) serveScript(w http.ResponseWriter, r *http.Request, x *exchange) {
	script, err := ipxe.Boot(s.baseURL(r))
	if err != nil {
		fail(w, r, x, fault.Of(err))
		return
	}
	s.script(w, r, x, script)
}

// serveIPXE answers PathIPXE: what the machine boots.
func (s *Server) serveIPXE(w http.ResponseWriter, r *http.Request, x *exchange) {
	if failure := s.hear(r, x); failure != nil {
		fail(w, r, x, failure)
		return
	}
	b := s.opts.Boot.Booter.Boot(&x.request)
	x.decision.Host, x.decision.FoundBy = b.Host, b.FoundBy
	s.noticed(x, b.Notices...)
	s.guessed(x, &b.Unheld)
	script, failure := "", b.Err
	if failure == decide.ClaimsLimited { // nothing is missing that a script could tell
		fail(w, r, x, failure)
		return
	}
	if s.opts.Lost.fromBoot(&b, s.opts.Boot.Unknown != UnknownExit) {
		failure = lost
	}
	if failure == nil {
		if script, failure = s.render(r, x, &b); failure != nil && b.Image != nil {
			s.noticed(x, decide.ImageUnavailable(b.Host, b.Image.Ref, failure))
		}
	}
	switch {
	case failure != nil && failure.Kind == fault.Unavailable:
		// iPXE shows no body of a 503, and waits on its own for as long as there is a
		// Retry-After: a script can say what is missing, and let the machine go on.
		x.failure = failure
		name := "this machine"
		if b.Host != nil {
			name = "host " + b.Host.Ref.String()
		}
		script = ipxe.Failed(name, failure.Sentence)
	case failure != nil:
		fail(w, r, x, failure)
		return
	}
	s.script(w, r, x, script)
	// As with configs, a believed caller who asks about a machine has booted nothing.
	if s.opts.Journal == nil || b.Host == nil || x.request.Caller.Believed || r.Method != http.MethodGet || x.broken != nil {
		return
	}
	switch {
	case failure != nil:
		s.opts.Journal.Failed(b.Host)
	case b.Local:
		s.opts.Journal.LocalBoot(b.Host, b.Reason)
	default:
		try := r.URL.Query().Get("try")
		s.opts.Journal.ScriptServed(b.Host, x.boots, try != "" && try != "0")
	}
}

// render makes the script of a decision.
func (s *Server) render(r *http.Request, x *exchange, b *decide.BootDecision) (string, *fault.Error) {
	if b.Host == nil {
		return s.unknown(r, x, b)
	}
	name := "host " + b.Host.Ref.String()
	if b.Local {
		x.boots = "disk"
		return ipxe.Local(name, b.Reason), nil
	}
	var image *ipxe.Image
	if b.Image != nil {
		i := s.image(r, x, b, b.Image)
		image = &i
		x.boots = "image " + b.Image.Ref.String()
	}
	if b.Script == "" {
		return rendered(ipxe.Sanboot(name, image))
	}
	x.boots = cmp.Or(x.boots, "its own script")
	return s.custom(r, b, image)
}

// unknown makes the script of a machine that is no host.
func (s *Server) unknown(r *http.Request, x *exchange, b *decide.BootDecision) (string, *fault.Error) {
	switch s.opts.Boot.Unknown {
	case UnknownMenu:
		x.boots = "menu"
		images := make([]ipxe.Image, 0, len(b.Offer))
		for _, image := range b.Offer {
			if !image.Hidden {
				images = append(images, s.image(r, x, b, image))
			}
		}
		address, mac := "", ""
		if caller := &x.request.Caller; caller.Addr.IsValid() {
			address = caller.Addr.String()
			if caller.MAC != zeroMAC {
				mac = caller.MAC.String()
			}
		}
		return rendered(ipxe.Menu(address, mac, images))
	case UnknownDefault:
		for _, image := range b.Offer {
			if image.Default {
				i := s.image(r, x, b, image)
				x.boots = "image " + image.Ref.String()
				return rendered(ipxe.Sanboot("an unknown machine", &i))
			}
		}
	}
	x.boots = "disk"
	return ipxe.Local("this machine", b.Reason), nil
}

func rendered(script string, err error) (string, *fault.Error) {
	if err != nil {
		return "", &fault.Error{Kind: fault.Unavailable, Sentence: "the boot script cannot be made: " + err.Error(), Cause: err}
	}
	return script, nil
}

// custom runs a script of the operator's own. It was checked when it was written.
func (s *Server) custom(r *http.Request, b *decide.BootDecision, image *ipxe.Image) (string, *fault.Error) {
	template, err := ipxe.ParseTemplate(b.Script)
	if err != nil {
		return rendered("", err)
	}
	h, said := b.Host, r.URL.Query()
	m := ipxe.Machine{
		Host: h.Name, Namespace: h.Namespace, UUID: h.UUID, Labels: h.Labels, Server: s.baseURL(r),
		State:    cmp.Or(b.Progress.State, v1.StateAvailable),
		Platform: said.Get("platform"), Arch: said.Get("arch"), Serial: said.Get("serial"), Asset: said.Get("asset"),
		Manufacturer: said.Get("manufacturer"), Product: said.Get("product"),
	}
	if len(h.Hostnames) > 0 {
		m.Hostname = h.Hostnames[0]
	}
	if len(h.MACs) > 0 {
		m.MAC = h.MACs[0].String()
	}
	if len(h.IPs) > 0 {
		m.IP = h.IPs[0].String()
	}
	if image != nil {
		m.Image = image.Name
		if m.Sanboot, err = image.Lines(); err != nil {
			return rendered("", err)
		}
	}
	return rendered(template.Render(m))
}

// script writes a script.
func (s *Server) script(w http.ResponseWriter, r *http.Request, x *exchange, script string) {
	h := w.Header()
	h["Content-Type"] = textType
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(script))}
	x.status = http.StatusOK
	w.WriteHeader(x.status)
	if r.Method != http.MethodHead {
		s.send(w, r, x, []byte(script))
	}
}

// notDurable is told to a machine whose word is noted and could be lost yet.
const notDurable = "that this machine is provisioned could not be stored yet; say it again in a moment"

// serveComplete answers PathComplete: the machine says that it is provisioned. A 200
// says that this is written down for good.
func (s *Server) serveComplete(w http.ResponseWriter, r *http.Request, x *exchange) {
	if failure := s.hear(r, x); failure != nil {
		fail(w, r, x, failure)
		return
	}
	b := s.opts.Boot.Booter.Boot(&x.request)
	x.decision.Host, x.decision.FoundBy = b.Host, b.FoundBy
	s.noticed(x, b.Notices...)
	s.guessed(x, &b.Unheld)
	switch {
	case b.Err != nil && (b.Err.Kind == fault.Refused || b.Err == decide.ClaimsLimited):
		fail(w, r, x, b.Err)
	case b.Host == nil:
		fail(w, r, x, fault.New(fault.NoMatch, "this machine is no known host; create a BareMetalHost with its address"))
	default:
		if s.opts.Journal != nil {
			if err := s.opts.Journal.Complete(r.Context(), b.Host); err != nil {
				fail(w, r, x, &fault.Error{Kind: fault.Unavailable, Sentence: notDurable, Cause: err})
				return
			}
		}
		x.write(w, r.Method, http.StatusOK, "host "+b.Host.Ref.String()+" is provisioned")
	}
}
