package decide

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// The ways to find a host. The first four are claims, in the order in which
// they are tried.
const (
	byMAC      = "mac"
	byIP       = "ip"
	byUUID     = "uuid"
	byHostname = "hostname"
	byAddress  = "address"
	byNeighbor = "neighbor"
)

var claimOrder = [...]string{byMAC, byIP, byUUID, byHostname}

// identify finds the host, and refuses claims that do not hold.
func (q *question) identify() *fault.Error {
	switch {
	case q.req.Caller.Believed || q.opts.Policy.Claims == identity.Trust:
		q.believe()
	case q.opts.Policy.Claims == identity.Deny:
		q.dec.Host, q.dec.FoundBy = q.ownHost()
	case q.limited(q.req.ClaimLimit):
		return q.verifyOwn()
	default:
		return q.verify()
	}
	return nil
}

// ownHost is the host that the network says the client is: by its address,
// else by its entry in the neighbour table.
func (q *question) ownHost() (host *snapshot.Host, foundBy string) {
	if h := q.view.HostByIP(q.addr); h != nil {
		return h, byAddress
	}
	if q.neighbor != zeroMAC {
		if h := q.view.HostByMAC(q.neighbor); h != nil {
			return h, byNeighbor
		}
	}
	return nil, ""
}

// claims reports whether the request makes a claim.
func (q *question) claims(kind string) bool {
	c := &q.req.Claims
	switch kind {
	case byMAC:
		return c.MAC != zeroMAC
	case byIP:
		return c.IP.IsValid()
	case byUUID:
		return c.UUID != ""
	default:
		return c.Hostname != ""
	}
}

// named is the host that a claim names; nil: none.
func (q *question) named(kind string) *snapshot.Host {
	c := &q.req.Claims
	switch kind {
	case byMAC:
		return q.view.HostByMAC(c.MAC)
	case byIP:
		return q.view.HostByIP(c.IP)
	case byUUID:
		return q.view.HostByUUID(c.UUID)
	default:
		return q.view.HostByHostname(c.Hostname)
	}
}

// carries reports whether a claim holds for a host, which need not be the one
// that it names where several share what is claimed.
func (q *question) carries(h *snapshot.Host, kind string) bool {
	c := &q.req.Claims
	switch kind {
	case byMAC:
		return slices.Contains(h.MACs, c.MAC)
	case byIP:
		return slices.Contains(h.IPs, c.IP)
	case byUUID:
		return h.UUID == c.UUID
	}
	for _, n := range h.Hostnames {
		if match.SameHost(n, c.Hostname) {
			return true
		}
	}
	return false
}

// believe takes every claim for true.
func (q *question) believe() {
	c := &q.req.Claims
	q.role = c.Role
	if c.IP.IsValid() && c.IP != q.addr {
		// From here on the request is of a machine elsewhere, which the neighbour
		// entry does not speak of.
		q.addr, q.neighbor, q.former = c.IP, zeroMAC, zeroMAC
	}
	for _, kind := range claimOrder {
		if !q.claims(kind) {
			continue
		}
		h := q.named(kind)
		switch {
		case h != nil && q.dec.Host == nil:
			q.dec.Host, q.dec.FoundBy = h, kind
		case h == nil && kind == byMAC:
			q.mac = c.MAC
		case h == nil && kind == byHostname:
			q.hostname = c.Hostname
		}
	}
	if q.dec.Host == nil {
		q.dec.Host, q.dec.FoundBy = q.ownHost()
	} else if q.req.Caller.Believed {
		q.neighbor, q.former = zeroMAC, zeroMAC // the caller's own, who asks for another
	}
}

// verify believes claims as far as the network confirms them.
func (q *question) verify() *fault.Error {
	c, dec := &q.req.Claims, &q.dec
	own, ownBy := q.ownHost()
	if c.IP.IsValid() && c.IP != q.addr {
		victim := cmp.Or(q.view.HostByIP(c.IP), own)
		return q.refuse(victim, byIP, "the claimed ip is not the address of this client, "+q.client()+
			"; leave the parameter out")
	}
	var ignored []string
	for _, kind := range claimOrder {
		if !q.claims(kind) {
			continue
		}
		ignore, err := q.verifyClaim(kind, own, ownBy)
		if err != nil {
			return err
		}
		if ignore {
			ignored = append(ignored, kind)
		}
	}
	if dec.Host == nil {
		dec.Host, dec.FoundBy = own, ownBy
	}
	for _, kind := range ignored {
		q.ignore(kind)
	}
	if u := &dec.Unheld; len(u.Ignored) > 0 && dec.Host != nil {
		u.Known = true
		if own == nil {
			u.Beside = dec.FoundBy + " " + valueOf(c, dec.FoundBy)
		}
	}
	return nil
}

// verifyClaim finds the host by a claim, or holds the claim against the host that was
// found by another one. own is the host that the network says the client is, ownBy how.
// ignore is true for a claim that names nobody.
func (q *question) verifyClaim(kind string, own *snapshot.Host, ownBy string) (ignore bool, err *fault.Error) {
	dec := &q.dec
	if dec.Host != nil && q.carries(dec.Host, kind) {
		return false, nil
	}
	if dec.Host == nil && own != nil && q.carries(own, kind) {
		dec.Host, dec.FoundBy = own, kind
		return false, nil
	}
	h := q.named(kind)
	switch {
	case h == nil:
		// The address is the client's, and the neighbour entry proves more than
		// a claim does.
		return kind != byIP && (kind != byMAC || q.req.Claims.MAC != q.neighbor), nil
	case dec.Host != nil:
		return false, q.refuse(h, kind, "the claimed "+kind+" is not that of host "+dec.Host.Ref.String()+
			", which this client is; leave the parameter out or correct the host")
	case !q.mayBe(h, ownBy):
		return false, q.refuse(h, kind, "the claimed "+kind+" is that of a host which "+q.whyNot(h))
	}
	dec.Host, dec.FoundBy = h, kind
	return false, nil
}

// mayBe reports whether the client may claim to be a host that it is not found to
// be without the claim; ownBy is how it is found to be another one, "" where it
// is not.
func (q *question) mayBe(h *snapshot.Host, ownBy string) bool {
	switch {
	case slices.Contains(h.IPs, q.addr):
		return true
	case ownBy == byAddress:
		return false
	case len(h.IPs) == 0 && q.neighbor != zeroMAC && slices.Contains(h.MACs, q.neighbor):
		return true
	case ownBy == byNeighbor:
		return false
	}
	return !q.contradicts(h) && q.isSource(h)
}

// contradicts reports whether the neighbour entry is that of another machine than a
// host. Nothing contradicts a host of which no hardware address is known.
func (q *question) contradicts(h *snapshot.Host) bool {
	return q.neighbor != zeroMAC && len(h.MACs) > 0 && !slices.Contains(h.MACs, q.neighbor)
}

// isSource reports whether a host may also ask from the client's address.
func (q *question) isSource(h *snapshot.Host) bool {
	return slices.ContainsFunc(h.BootSources, func(p netip.Prefix) bool { return p.Contains(q.addr) })
}

// whyNot says why the client may not claim to be a host, and what to do.
func (q *question) whyNot(h *snapshot.Host) string {
	if q.contradicts(h) && q.isSource(h) {
		return "has other hardware addresses than this client, which is on the server's own network and so is no NAT;" +
			" leave the parameter out, or correct the host's spec.nics"
	}
	return "does not boot from " + q.client() +
		"; leave the parameter out, or add this address to the host's spec.ip or spec.bootSources"
}

// byNetwork reports whether the network, and not just a claim, says that the client is
// a host: the hardware address does where the client's and the host's are known, else
// the address.
func (q *question) byNetwork(h *snapshot.Host) bool {
	if q.neighbor != zeroMAC && len(h.MACs) > 0 {
		return slices.Contains(h.MACs, q.neighbor)
	}
	return slices.Contains(h.IPs, q.req.Caller.Addr)
}

// identifyAndAdmit finds the host, and refuses a machine that may not be served.
func (q *question) identifyAndAdmit() *fault.Error {
	if err := q.identify(); err != nil {
		return err
	}
	return q.admit()
}

// admit refuses who may not be served although it is known who asks.
func (q *question) admit() *fault.Error {
	h := q.dec.Host
	if h == nil {
		q.unknown()
	} else if err := q.admitHost(h); err != nil {
		return err
	}
	role := q.req.Claims.Role
	if role == "" || q.role == role || q.opts.Policy.Claims == identity.Deny {
		return nil
	}
	switch {
	case h == nil:
		return q.refuse(nil, "role", "an unknown machine claims no role; create a BareMetalHost with the address "+q.client()+
			", or leave the parameter role out")
	case h.Labels[match.RoleLabel] != role:
		return q.refuse(h, "role", "the claimed role is not the label role of host "+h.Ref.String()+
			"; set the label, or leave the parameter role out")
	}
	q.role = role
	return nil
}

// admitHost refuses a host that the neighbour table contradicts, a host whose
// neighbour entry has just changed, and a host with a duplicate identity.
func (q *question) admitHost(h *snapshot.Host) *fault.Error {
	enforce := q.opts.Policy.Neighbors == identity.NeighborsEnforce
	switch {
	case q.contradicts(h):
		q.mismatch(h)
		if enforce {
			return fault.New(fault.Refused, "the hardware address behind "+q.client()+" is not one of host "+h.Ref.String()+
				"; add it to the host's spec.nics or correct its spec.ip")
		}
	case q.former != zeroMAC:
		q.dec.Notices = append(q.dec.Notices, NeighborChanged(h, q.addr, q.neighbor, q.former))
		if enforce {
			return fault.New(fault.Refused, "the hardware address behind "+q.client()+" was another one less than a minute ago,"+
				" or when this connection was made; connect again in a minute")
		}
	}
	if q.opts.Policy.Isolate {
		if c, shared := q.view.SharedAcross(h); shared {
			q.duplicate(h, c)
			return fault.New(fault.Refused, "host "+h.Ref.String()+" shares "+c.Shared()+
				" with a host of another namespace, so neither is served; correct one of the two")
		}
	}
	return nil
}
