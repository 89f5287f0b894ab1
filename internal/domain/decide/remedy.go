package decide

import (
	"cmp"
	"net/netip"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// unnamed is the advice about a client whose address and hardware address are not known. Only
// an inquiry can be about one.
const unnamed = "name the address of the machine, as with --from of glowplug explain"

// machineAt returns a machine for a sentence. Its address and its hardware address may be zero.
func machineAt(addr netip.Addr, mac netaddr.MAC) string {
	switch {
	case !addr.IsValid() && mac == zeroMAC:
		return "a machine whose address is not known"
	case !addr.IsValid():
		return "a machine with the hardware address " + mac.String()
	case mac == zeroMAC:
		return addr.String()
	}
	return addr.String() + " (" + mac.String() + ")"
}

// noHost says that the client is no host, and the remedies, as the end of a sentence. A MAC
// that a believed caller claims counts as known.
func (q *question) noHost() string {
	mac, addr := cmp.Or(q.mac, q.neighbor), q.addr
	if q.req.Caller.Believed && q.mac != zeroMAC && !q.req.Claims.IP.IsValid() {
		addr = netip.Addr{} // it is the caller's
	}
	who, host := machineAt(addr, mac), "create a BareMetalHost with this "
	switch {
	case addr.IsValid() && mac != zeroMAC:
		host += "address or hardware address, or"
	case addr.IsValid():
		host += "address, or"
	case mac != zeroMAC:
		host += "hardware address, or"
	default:
		return who + "; " + unnamed + ", or create a config with default: true"
	}
	return who + ", which is no known host; " + host + " a config with default: true"
}

// hostWithAddress returns the advice to make the client a host.
func (q *question) hostWithAddress() string {
	switch {
	case q.addr.IsValid():
		return "create a BareMetalHost with its address"
	case q.neighbor != zeroMAC:
		return "create a BareMetalHost with its hardware address"
	}
	return unnamed
}

// hostWithRole returns the advice to make the client a host that may claim a role.
func (q *question) hostWithRole(role string) string {
	fact := "the address " + q.addr.String()
	switch {
	case q.addr.IsValid():
	case q.neighbor != zeroMAC:
		fact = "the hardware address " + q.neighbor.String()
	default:
		return unnamed
	}
	return "create a BareMetalHost with " + fact + " and the label role=" + role
}

// whyNot returns the reason why the client may not claim to be a host, as the end of a
// sentence, and the remedies. Each of them is enough by itself: bootSources count only for
// a client that the network does not show to be another machine. own and ownBy are as in
// verifyClaim.
func (q *question) whyNot(kind string, h, own *model.Host, ownBy string) string {
	switch contradicts := q.contradicts(h); {
	case own != nil:
		fact, moved := "address", q.addr.String()
		switch {
		case ownBy == byNeighbor:
			fact, moved = "hardware address", q.neighbor.String()
		case contradicts:
			moved += " and the hardware address " + q.neighbor.String()
		}
		return "not that of host " + own.Ref.String() + ", which this client is by its " + fact +
			"; leave the parameter out, or move " + moved + " to the host with this " + kind
	case contradicts:
		return "that of a host which has other hardware addresses than this client, which is on the server's own network" +
			" and so is no NAT; leave the parameter out, or add " + q.neighbor.String() +
			" to the spec.nics of the host if this is its machine"
	case !q.addr.IsValid():
		if reason := Unrecognised(q.decider, h); reason != "" {
			return "that of a host, and " + reason
		}
		return "that of a host, and it is not known where the machine asks from; leave the parameter out, or " + unnamed
	}
	return "that of a host which does not boot from " + client(q.addr) +
		"; leave the parameter out, or add this address to the host's spec.ip or spec.bootSources"
}

// Unrecognised says why no machine is recognised as a host, and what to do; "": machines can
// be. Without an address of the host every claim to be it is refused, unless all claims are
// believed.
func Unrecognised(d *Decider, h *model.Host) string {
	usesTable, ignoresClaims := d.opts.Policy.Neighbors != identity.NeighborsOff, d.opts.Policy.Claims == identity.Deny
	if d.opts.Policy.Claims == identity.Trust || len(h.IPs) > 0 || usesTable && len(h.MACs) > 0 ||
		!ignoresClaims && len(h.BootSources) > 0 {
		return ""
	}
	text := "no machine is recognised as this host: set "
	switch {
	case usesTable && ignoresClaims:
		return text + "bootMACAddress or ip (--identity-claims=deny ignores bootSources)"
	case usesTable:
		return text + "bootMACAddress, ip or bootSources"
	case ignoresClaims:
		return text + "ip (--neighbors=off and --identity-claims=deny leave nothing else)"
	}
	return text + "ip or bootSources (--neighbors=off shows no hardware addresses)"
}
