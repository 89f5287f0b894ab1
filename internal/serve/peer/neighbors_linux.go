package peer

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"glowplug/internal/domain/netaddr"
)

const (
	// countingStates are those in which the kernel would send to the entry's
	// hardware address.
	countingStates = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
	// netlinkBuffer is the receive buffer of the subscriptions, in bytes. An overflow
	// ends a subscription, which then begins again.
	netlinkBuffer = 1 << 20
	// readDelay is long enough for all notifications of one change of interfaces.
	readDelay = 20 * time.Millisecond

	retryFirst = 250 * time.Millisecond
	retryMax   = 30 * time.Second
)

// kernelTable is the neighbour table of this machine's kernel.
type kernelTable struct {
	*neighborTable
	logger  *slog.Logger
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// openNeighbors reads the interfaces and begins to follow them and their neighbours.
func openNeighbors(logger *slog.Logger) Neighbors {
	ctx, cancel := context.WithCancel(context.Background())
	t := &kernelTable{neighborTable: newNeighborTable(queryNeighbor), logger: logger, ctx: ctx, cancel: cancel}
	t.readLinks()
	t.running.Go(func() { t.keep("neighbours", t.followNeighbors) })
	t.running.Go(func() { t.keep("addresses", t.followAddresses) })
	return t
}

// Close ends the subscriptions and waits for them.
func (t *kernelTable) Close() error {
	t.cancel()
	t.running.Wait()
	return nil
}

// keep runs follow until Close, with growing pauses where it fails at once.
func (t *kernelTable) keep(what string, follow func() error) {
	for pause := retryFirst; ; pause = min(2*pause, retryMax) {
		began := time.Now()
		err := follow()
		switch {
		case t.ctx.Err() != nil:
			return
		case time.Since(began) > retryMax:
			pause = retryFirst
		case pause == retryFirst:
			t.logger.Warn("cannot follow the kernel's "+what+"; trying again", "error", err)
		}
		select {
		case <-t.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// followNeighbors lists the neighbours and applies their updates, until the
// subscription breaks or Close.
func (t *kernelTable) followNeighbors() (failure error) {
	t.clear()
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	updates := make(chan netlink.NeighUpdate, 256)
	err := netlink.NeighSubscribeWithOptions(updates, ctx.Done(), netlink.NeighSubscribeOptions{
		ReceiveBufferSize: netlinkBuffer,
		ErrorCallback:     func(err error) { failure = err },
	})
	if err != nil {
		return err
	}
	// Not ListExisting: the library sends its request to the group, which needs CAP_NET_ADMIN.
	existing, err := netlink.NeighList(0, unix.AF_UNSPEC)
	if err != nil {
		cancel()
		for range updates { // until the library has closed it
		}
		return err
	}
	for _, n := range existing {
		t.apply(unix.RTM_NEWNEIGH, &n)
	}
	for u := range updates {
		t.apply(u.Type, &u.Neigh)
	}
	return failure
}

// followAddresses reads the interfaces whenever an address is added or deleted.
func (t *kernelTable) followAddresses() (failure error) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	updates := make(chan netlink.AddrUpdate, 256)
	err := netlink.AddrSubscribeWithOptions(updates, ctx.Done(), netlink.AddrSubscribeOptions{
		ReceiveBufferSize: netlinkBuffer,
		ErrorCallback:     func(err error) { failure = err },
	})
	if err != nil {
		return err
	}
	t.readLinks()
	for range updates {
		time.Sleep(readDelay)
		for len(updates) > 0 {
			<-updates
		}
		t.readLinks()
	}
	return failure
}

// apply updates the table by one message about a neighbour.
func (t *kernelTable) apply(kind uint16, n *netlink.Neigh) {
	addr, mac, ok := neighborOf(n)
	if !addr.IsValid() {
		return
	}
	key := neighborKey{n.LinkIndex, addr}
	if ok && kind == unix.RTM_NEWNEIGH {
		t.put(key, mac)
	} else {
		t.remove(key)
	}
}

// neighborOf returns the address of an entry, the zero one for forwarding tables of
// bridges and for proxies, and its hardware address where the entry's state is valid.
func neighborOf(n *netlink.Neigh) (addr netip.Addr, mac netaddr.MAC, ok bool) {
	if n.Family != unix.AF_INET && n.Family != unix.AF_INET6 || n.Flags&netlink.NTF_PROXY != 0 {
		return netip.Addr{}, mac, false
	}
	if addr, ok = netip.AddrFromSlice(n.IP); !ok {
		return netip.Addr{}, mac, false
	}
	if n.State&countingStates == 0 || len(n.HardwareAddr) != len(mac) {
		return addr.Unmap(), mac, false
	}
	mac = netaddr.MAC(n.HardwareAddr)
	return addr.Unmap(), mac, mac != netaddr.MAC{} && mac[0]&1 == 0
}

// queryNeighbor asks the kernel for one entry. Kernels before 5.0 refuse that.
func queryNeighbor(key neighborKey) (netaddr.MAC, bool) {
	family := unix.AF_INET
	if key.addr.Is6() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.AddData(&netlink.Ndmsg{Family: uint8(family), Index: uint32(key.link)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, key.addr.AsSlice()))
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil || len(messages) == 0 {
		return netaddr.MAC{}, false
	}
	n, err := netlink.NeighDeserialize(messages[0])
	if err != nil {
		return netaddr.MAC{}, false
	}
	addr, mac, ok := neighborOf(n)
	return mac, ok && addr == key.addr && n.LinkIndex == key.link
}

// readLinks reads the interfaces and their addresses.
func (t *kernelTable) readLinks() {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.logger.Warn("cannot read the interfaces", "error", err)
		return
	}
	read := &links{own: make(map[netip.Addr]struct{}), index: make(map[string]int)}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		read.index[i.Name] = i.Index
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				read.own[prefix.Addr().Unmap()] = struct{}{}
				read.nets = append(read.nets, onLink{prefix.Masked(), i.Index})
			}
		}
	}
	t.links.Store(read)
}
