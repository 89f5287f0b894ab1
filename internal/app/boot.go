package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"glowplug/internal/image"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/iscsi"
	"glowplug/internal/serve/machine"
	"glowplug/internal/store/snapshot"
)

// openImages opens the ISO directory, and with one the listener of the iSCSI portal.
func (a *App) openImages() error {
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
	a.landmarks = newLandmarks()
	if env := httpproxy.FromEnvironment(); s.ISODir != "" && (env.HTTPProxy != "" || env.HTTPSProxy != "") {
		a.log.Warn("images are downloaded without the proxy of the environment: " +
			"where there is no other way, keep a mirror of them (glowplug coreos mirror)")
	}
	var err error
	a.images, err = image.New(image.Options{
		Dir: s.ISODir, Store: a.stores[api.ISCSICdroms], HTTPURL: a.httpURL(), Portal: a.portal(),
		Allow: s.allowImages, Streams: a.streams, StreamsRead: a.stores[api.StreamReleases].Loaded, Keyring: s.keyring,
		Shared: s.NATSURL != "", Deleted: a.evict, Recorder: a.events, Logger: a.log, Registerer: a.metrics,
	})
	if err != nil {
		return &OptionError{Flag: "iso-dir", Reason: err.Error()}
	}
	a.streams.Changed(a.images.StreamChanged)
	a.onClose(func() { _ = a.images.Close() })
	return nil
}

// openTargets makes the iSCSI server, where there is a portal.
func (a *App) openTargets() (err error) {
	if a.portalListener == nil {
		return nil
	}
	s := a.settings
	t := &targets{app: a, landmarks: a.landmarks}
	told := ""
	if s.portalHost != "" {
		told = net.JoinHostPort(s.portalHost, strconv.Itoa(int(a.portalPort())))
	}
	a.targets, err = iscsi.New(iscsi.Options{
		Resolve: t.resolve, Discover: t.discover, Portal: told, Logger: a.log, MaxConnections: s.MaxConnections,
		Hooks: iscsi.Hooks{Login: t.login, Guessed: t.wrongSecret, Read: t.read},
	})
	if err != nil {
		return err
	}
	a.onClose(a.targets.Close)
	return nil
}

// bootPath is what machines are given beside their configs.
func (a *App) bootPath() *machine.Boot {
	s := a.settings
	return &machine.Boot{
		Booter: a.decider, Images: &shelf{images: a.images, progress: a.progress, landmarks: a.landmarks},
		Unknown: s.UnknownHosts, URL: strings.TrimSuffix(s.HTTPURL, "/"), Portal: s.portalHost, PortalPort: a.portalPort(),
	}
}

// imageInUse names who reads an image.
func (a *App) imageInUse(namespace, name string) []string {
	return a.images.InUse(snapshot.Ref{Namespace: namespace, Name: name})
}

// evictTimeout is how long sessions that are told to end may take to.
const evictTimeout = 10 * time.Second

// evict ends the sessions of an image that was deleted although it was being read:
// whoever forces that takes the medium out of the drive. It does not wait.
func (a *App) evict(ref snapshot.Ref) {
	if a.targets == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
		defer cancel()
		n, err := a.targets.Drop(ctx, func(s *iscsi.Session) bool {
			v, ok := s.Tag.(*visit)
			return ok && v.image == ref && v.disk.Deleted()
		})
		switch {
		case err != nil:
			a.log.Warn("the sessions of a deleted image are not over yet", "image", ref.String(), "sessions", n, "error", err)
		case n > 0:
			a.log.Info("the sessions of a deleted image were ended", "image", ref.String(), "sessions", n)
		}
	}()
}

// portalPort is the port that machines are told for iSCSI; 0 without a portal.
func (a *App) portalPort() uint16 {
	if p := a.settings.portalPort; p != 0 || a.portalListener == nil {
		return p
	}
	return uint16(a.portalListener.Addr().(*net.TCPAddr).Port)
}

// portal is the address that the status of images shows: what --iscsi-portal
// says, else an own address. Machines are told the address that they reached
// this server at.
func (a *App) portal() netip.AddrPort {
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
func (a *App) httpURL() string {
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

// serveTargets serves iSCSI until it is shut.
func (a *App) serveTargets() error {
	err := a.targets.Serve(a.portalListener)
	if errors.Is(err, iscsi.ErrServerClosed) {
		return nil
	}
	return err
}

// shutTargets lets initiators finish what they are at.
func (a *App) shutTargets(ctx context.Context) {
	if a.targets != nil {
		if err := a.targets.Shutdown(ctx); err != nil {
			a.log.Warn("stopping iSCSI", "error", err)
		}
	}
}
