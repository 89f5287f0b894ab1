package app

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/net/http/httpproxy"

	"glowplug/internal/controller/host"
	imagecontroller "glowplug/internal/controller/image"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/image"
	"glowplug/internal/option"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/portal"
)

// openImages opens the ISO directory, and with one the listener of the iSCSI portal.
func (a builder) openImages() error {
	s := a.settings
	if s.Images.ISODir != "" {
		listener, err := listen("iscsi-listen", "tcp", s.Boot.ISCSIListen)
		if err != nil {
			return err
		}
		a.onClose(func() { _ = listener.Close() })
		a.portalListener = listener // without a wrapper: iSCSI sends files over TCP, and bounds its connections itself
	}
	if env := httpproxy.FromEnvironment(); s.Images.ISODir != "" && (env.HTTPProxy != "" || env.HTTPSProxy != "") {
		a.log.Warn("images are downloaded without the proxy of the environment: " +
			"where there is no other way, keep a mirror of them (glowplug coreos mirror)")
	}
	var err error
	a.images, err = image.New(image.Options{
		Dir: s.Images.ISODir, HTTPURL: a.httpURL(), Shared: s.Store.NATSURL != "", Logger: a.log, Registerer: a.metrics,
	})
	if err != nil {
		return option.Bad("iso-dir", "%v", err)
	}
	a.onClose(func() { _ = a.images.Close() })
	return nil
}

// openPortal makes the iSCSI portal, if there is a listener for it, and the controller of
// images.
func (a builder) openPortal() (err error) {
	s := a.settings
	options := imagecontroller.Options{
		Library: a.images, Dir: s.Images.ISODir, Store: a.backend.Stores[kinds.ISCSICdroms], Portal: a.portal(),
		Allow: s.allowImages, Streams: a.streams, Keyring: s.keyring,
		StreamsRead: a.backend.Stores[kinds.StreamReleases].Loaded, StreamsLost: a.backend.IsLost(kinds.StreamReleases),
		Shared: s.Store.NATSURL != "", Recorder: a.events, Metrics: a.controllers, Logger: a.log, Registerer: a.metrics,
	}
	if a.portalListener != nil {
		a.targets, err = portal.New(portal.Options{
			Listener: a.portalListener, Address: a.portalAddress(), MaxConnections: s.Limits.MaxConnections,
			Decider: a.decider, Images: a.images, Resolver: a.resolver, Sources: a.sources,
			Journal: notes{a.tracker, a.events, a.unknown}, Audit: auditOfLogins(a.App), Ready: a.ready,
			Image: func(ref model.Ref) *model.Image { return a.inventory.View().Image(ref) },
			CHAP:  a.secrets.CHAP, Logger: a.log,
		})
		if err != nil {
			return err
		}
		a.onClose(a.targets.Close)
		options.Deleted = a.targets.Evict
	}
	a.imageController = imagecontroller.New(options)
	return nil
}

// portalAddress returns the address in the answers of discovery, as host:port; "" for the
// one that the initiator has reached.
func (a builder) portalAddress() string {
	if a.settings.portalHost == "" {
		return ""
	}
	return net.JoinHostPort(a.settings.portalHost, strconv.Itoa(int(a.portalPort())))
}

// bootPath returns the options of the boot path.
func (a builder) bootPath() *machine.Boot {
	s := a.settings
	return &machine.Boot{
		Booter: a.decider, Images: machine.ServedImages{Library: a.images, Journal: notes{a.tracker, a.events, a.unknown}},
		Inspections: host.NewInspections(a.backend.Stores[kinds.BareMetalHosts]),
		CHAP:        a.secrets.CHAP, Tokens: a.bootTokens,
		Loaders: a.loaders, Unknown: s.Boot.UnknownHosts, URL: s.Boot.HTTPURL, Portal: s.portalHost,
		PortalPort: a.portalPort(),
		Others:     a.otherPortals(),
	}
}

// otherPortals returns what gives the portals of the other servers that offer an image; nil: there are none.
func (a builder) otherPortals() func(model.Ref) []netip.AddrPort {
	if a.backend.Exclusive() {
		return nil
	}
	return func(ref model.Ref) []netip.AddrPort {
		return a.members.Portals(offered(a.images, ref))
	}
}

// offered names the image of a CD-ROM and its bytes, as in the Member of a server; "": none is served.
func offered(images *image.Library, ref model.Ref) string {
	c := images.Current(ref)
	if c.Volume == nil || c.Failure != nil {
		return ""
	}
	return ref.String() + "@" + c.Version()
}

// portalPort returns the iSCSI port in boot scripts; 0 without a portal.
func (a builder) portalPort() uint16 {
	if p := a.settings.portalPort; p != 0 || a.portalListener == nil {
		return p
	}
	return uint16(a.portalListener.Addr().(*net.TCPAddr).Port)
}

// portal returns the address in the status of images: that of --iscsi-portal, else an own
// address. Boot scripts have the address that the machine has reached.
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

// httpURL returns the URL of this server in the kernel arguments of images and in templates:
// --http-url, else plain HTTP at an own address; "": there is no plain HTTP.
func (a builder) httpURL() string {
	if a.settings.Boot.HTTPURL != "" {
		return a.settings.Boot.HTTPURL
	}
	d := a.listeners.named("http")
	if d == nil {
		return ""
	}
	address := d.listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	return "http://" + net.JoinHostPort(ownAddress(address).String(), port)
}

// ownAddress returns the address of a listener or, if that is the wildcard, the first
// address of this machine that others can reach.
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
