package app

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpproxy"

	imagecontroller "glowplug/internal/controller/image"
	"glowplug/internal/image"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/portal"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/snapshot"
)

// openImages opens the ISO directory, and with one the listener of the iSCSI portal.
func (a builder) openImages() error {
	s := a.settings
	if s.ISODir != "" {
		listener, err := net.Listen("tcp", s.ISCSIListen)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) {
				err = op.Err
			}
			return &ListenError{Flag: "iscsi-listen", Address: s.ISCSIListen, Err: err}
		}
		a.onClose(func() { _ = listener.Close() })
		a.portalListener = listener // as it is: iSCSI sends files over TCP, and bounds its connections itself
	}
	if env := httpproxy.FromEnvironment(); s.ISODir != "" && (env.HTTPProxy != "" || env.HTTPSProxy != "") {
		a.log.Warn("images are downloaded without the proxy of the environment: " +
			"where there is no other way, keep a mirror of them (glowplug coreos mirror)")
	}
	var err error
	a.images, err = image.New(image.Options{
		Dir: s.ISODir, HTTPURL: a.httpURL(), Shared: s.NATSURL != "", Logger: a.log, Registerer: a.metrics,
	})
	if err != nil {
		return &OptionError{Flag: "iso-dir", Reason: err.Error()}
	}
	a.onClose(func() { _ = a.images.Close() })
	return nil
}

// openPortal makes the iSCSI portal of the images, where there is a listener for it, and
// the controller of images.
func (a builder) openPortal() (err error) {
	s := a.settings
	options := imagecontroller.Options{
		Library: a.images, Dir: s.ISODir, Store: a.stores[kinds.ISCSICdroms], Portal: a.portal(),
		Allow: s.allowImages, Streams: a.streams, StreamsRead: a.stores[kinds.StreamReleases].Loaded, Keyring: s.keyring,
		Shared: s.NATSURL != "", Recorder: a.events, Metrics: a.controllers, Logger: a.log, Registerer: a.metrics,
	}
	if a.portalListener != nil {
		a.targets, err = portal.New(portal.Options{
			Listener: a.portalListener, Address: a.portalAddress(), MaxConnections: s.MaxConnections,
			Decider: a.decider, Images: a.images, Resolver: a.resolver, Sources: a.sources,
			Journal: notes{a.progress, a.events}, Image: a.image, Ready: a.ready, Logger: a.log,
		})
		if err != nil {
			return err
		}
		a.onClose(a.targets.Close)
		options.Deleted = a.targets.Evict
	}
	a.imageController = imagecontroller.New(options)
	a.streams.Changed(a.imageController.StreamChanged)
	return nil
}

// portalAddress returns the address that discovery tells, as host:port; "" for the one
// that was reached.
func (a builder) portalAddress() string {
	if a.settings.portalHost == "" {
		return ""
	}
	return net.JoinHostPort(a.settings.portalHost, strconv.Itoa(int(a.portalPort())))
}

// bootPath is what machines are given beside their configs.
func (a builder) bootPath() *machine.Boot {
	s := a.settings
	return &machine.Boot{
		Booter: a.decider, Images: machine.ServedImages{Library: a.images, Journal: notes{a.progress, a.events}},
		Unknown: s.UnknownHosts, URL: strings.TrimSuffix(s.HTTPURL, "/"), Portal: s.portalHost, PortalPort: a.portalPort(),
	}
}

// imageInUse names who reads an image.
func (a builder) imageInUse(namespace, name string) []string {
	return a.images.InUse(snapshot.Ref{Namespace: namespace, Name: name})
}

// image returns an image as it is stored; nil where there is none.
func (a builder) image(ref snapshot.Ref) *snapshot.Image {
	view := a.inventory.View()
	return view.Image(ref)
}

// portalPort is the port that machines are told for iSCSI; 0 without a portal.
func (a builder) portalPort() uint16 {
	if p := a.settings.portalPort; p != 0 || a.portalListener == nil {
		return p
	}
	return uint16(a.portalListener.Addr().(*net.TCPAddr).Port)
}

// portal is the address that the status of images shows: what --iscsi-portal
// says, else an own address. Machines are told the address that they reached
// this server at.
func (a builder) portal() netip.AddrPort {
	if a.portalListener == nil {
		return netip.AddrPort{}
	}
	addr, err := netip.ParseAddr(a.settings.portalHost)
	if err != nil {
		addr = ownAddress(a.portalListener.Addr().String())
	}
	return netip.AddrPortFrom(addr, a.portalPort())
}

// httpURL is this server in the kernel arguments of images: what --http-url
// says, else plain HTTP at an own address.
func (a builder) httpURL() string {
	if u := strings.TrimSuffix(a.settings.HTTPURL, "/"); u != "" {
		return u
	}
	for _, d := range a.doors {
		if d.name == "http" {
			address := d.listener.Addr().String()
			_, port, _ := net.SplitHostPort(address)
			return "http://" + net.JoinHostPort(ownAddress(address).String(), port)
		}
	}
	return ""
}

// ownAddress is the address of a listener or, where that listens on all, the
// first one of this machine that others can reach.
func ownAddress(listen string) netip.Addr {
	if host, _, err := net.SplitHostPort(listen); err == nil {
		if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
			return addr.Unmap()
		}
	}
	addresses, _ := net.InterfaceAddrs()
	best := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			return prefix.Addr()
		}
		if best.IsLoopback() {
			best = prefix.Addr()
		}
	}
	return best
}
