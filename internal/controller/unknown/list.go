package unknown

import (
	"container/list"
	"net/netip"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
)

const (
	// maxMachines bounds the unknown machines.
	maxMachines = 10_000
	// maxOfSource bounds those of one source (netaddr.Network) whose hardware address no
	// neighbour table has: one client must not push out the machines of others.
	maxOfSource = 256
)

// machine is an unknown machine.
type machine struct {
	name string
	// mac is zero for a machine that is known by addr alone. addr is its newest address.
	mac  netaddr.MAC
	addr netip.Addr
	// status is all that is known, except for the count. unwritten counts the requests that
	// the store does not have, and changed is true if it lacks a value.
	status    v1.UnknownMachineStatus
	unwritten int64
	changed   bool
	// stored is true while the store has the object.
	stored bool
	// written is the time of the last write, due that of the next one.
	written, due time.Time

	// verified is true if a neighbour table has its hardware address; source is that of its
	// first request.
	verified bool
	source   netip.Addr
	// inOrder and ofSource are the places in the lists of the same names.
	inOrder, ofSource *list.Element
}

// machines are the unknown machines, bounded. Those that asked last are at the end of each
// list. The recorder's mutex guards them.
type machines struct {
	byName map[string]*machine
	// byAddr has the machine with a hardware address that asked last from an address.
	byAddr map[netip.Addr]*machine
	// alone has the machine that is known by an address alone.
	alone map[netip.Addr]*machine
	// verified have an entry in a neighbour table, claimed have none.
	verified, claimed *list.List
	// sources are the lists of claimed machines by source.
	sources map[netip.Addr]*list.List
}

func newMachines() machines {
	return machines{
		byName: map[string]*machine{}, byAddr: map[netip.Addr]*machine{}, alone: map[netip.Addr]*machine{},
		verified: list.New(), claimed: list.New(), sources: map[netip.Addr]*list.List{},
	}
}

// touch puts a machine, which may be new, at the end of its lists.
func (l *machines) touch(m *machine, addr netip.Addr, verified bool) {
	l.unlink(m)
	m.verified = m.verified || verified
	m.addr = addr
	switch {
	case !addr.IsValid():
	case m.mac == (netaddr.MAC{}):
		l.alone[addr] = m
	default:
		l.byAddr[addr] = m
	}
	l.byName[m.name] = m
	if m.verified {
		m.inOrder = l.verified.PushBack(m)
		return
	}
	m.inOrder = l.claimed.PushBack(m)
	// A client that claims the hardware address of another machine does not take it over.
	if !m.source.IsValid() {
		m.source = netaddr.Network(addr)
	}
	if l.sources[m.source] == nil {
		l.sources[m.source] = list.New()
	}
	m.ofSource = l.sources[m.source].PushBack(m)
}

// unlink takes a machine out of the lists, but not out of byName.
func (l *machines) unlink(m *machine) {
	for _, at := range []map[netip.Addr]*machine{l.byAddr, l.alone} {
		if at[m.addr] == m {
			delete(at, m.addr)
		}
	}
	if m.inOrder == nil {
		return
	}
	if m.verified {
		l.verified.Remove(m.inOrder)
	} else {
		l.claimed.Remove(m.inOrder)
		of := l.sources[m.source]
		if of.Remove(m.ofSource); of.Len() == 0 {
			delete(l.sources, m.source)
		}
	}
	m.inOrder, m.ofSource = nil, nil
}

func (l *machines) remove(m *machine) {
	l.unlink(m)
	delete(l.byName, m.name)
}

// surplus returns the machine that has to go because of a new one, and the bound that it is
// over; nil: none has to. The oldest goes: first of the same source, then of those that only
// claim their hardware address, then of all.
func (l *machines) surplus(added *machine) (out *machine, cause string) {
	if of := l.sources[added.source]; !added.verified && of != nil && of.Len() > maxOfSource {
		return of.Front().Value.(*machine), causeSource
	}
	if len(l.byName) <= maxMachines {
		return nil, ""
	}
	if l.claimed.Len() > 0 {
		return l.claimed.Front().Value.(*machine), causeFull
	}
	return l.verified.Front().Value.(*machine), causeFull
}
