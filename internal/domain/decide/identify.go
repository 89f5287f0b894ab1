package decide

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// isMade reports whether a request makes the claim. An address that is none of Ethernet is no claim as long as no
// host has any: nobody can be guessed by it.
func (c *claim) isMade(view model.View, made *identity.Claims) bool {
	return c.present(made) && (c != claimedOtherMAC || view.HasOtherMACs())
}

// identify finds the host, and refuses claims that do not hold.
func (q *question) identify() *fault.Error {
	q.takeCard()
	switch {
	case q.req.Caller.Believed || q.decider.opts.Policy.Claims == identity.Trust:
		q.believe()
	case q.decider.opts.Policy.Claims == identity.Deny:
		q.dec.Host, q.dec.FoundBy = q.ownHost()
	case q.limited(q.req.ClaimLimit):
		return q.verifyOwn()
	default:
		return q.verify()
	}
	return nil
}

// takeCard makes the claimed MAC of a machine that names several cards the one that fits best: that of its own
// host, else of one that it may claim to be, else of any host, which is refused, else the first.
func (q *question) takeCard() {
	cards := q.req.Cards
	if len(cards) == 0 {
		return
	}
	c := &q.req.Claims
	own, ownBy := q.ownHost()
	best, rank := cards[0], 0
	for _, card := range cards {
		c.MAC, c.OtherMAC = card.MAC, card.OtherMAC
		if fits := q.fits(own, ownBy); fits > rank {
			best, rank = card, fits
		}
	}
	if rank == 0 && own == nil { // each was a guess
		for _, card := range cards[1:] {
			c.MAC, c.OtherMAC = card.MAC, card.OtherMAC
			if claim := claimOfCard(c); claim.isMade(q.view, &q.req.Claims) {
				q.dec.Unheld.Ignored = append(q.dec.Unheld.Ignored, claim.named(c))
			}
		}
	}
	c.MAC, c.OtherMAC = best.MAC, best.OtherMAC
}

// fits says how well the claimed card fits: 3 for one of the machine's own host, 2 for one of a host that it may
// claim to be, 1 for one of any other, 0 for none.
func (q *question) fits(own *model.Host, ownBy string) int {
	claim := claimOfCard(&q.req.Claims)
	switch {
	case own != nil && claim.holds(own, &q.req.Claims):
		return 3
	case q.limited(q.req.ClaimLimit): // nothing is looked up
		return 0
	}
	switch h := claim.host(q.view, &q.req.Claims); {
	case h == nil:
		return 0
	case q.req.Caller.Believed || q.decider.opts.Policy.Claims == identity.Trust || q.mayBe(h, ownBy):
		return 2
	}
	return 1
}

// ownHost returns the host that the network shows: by the client's address, else by its
// entry in the neighbour table, which goes first where only that host is none of a tenant.
func (q *question) ownHost() (host *model.Host, foundBy string) {
	h := q.view.HostByIP(q.addr)
	if q.neighbor != zeroMAC {
		if other := q.view.HostByMAC(q.neighbor); other != nil && (h == nil || yields(q.view, h, other)) {
			return other, byNeighbor
		}
	}
	if h != nil {
		return h, byAddress
	}
	return nil, ""
}

// believe accepts every claim.
func (q *question) believe() {
	c := &q.req.Claims
	q.role = c.Role
	if c.IP.IsValid() && c.IP != q.addr {
		// From here on the request is of another machine than the neighbour entry.
		q.addr, q.neighbor, q.former = c.IP, zeroMAC, zeroMAC
	}
	own, ownBy := q.ownHost()
	for _, claim := range claims {
		if h := q.claimed(claim, own); h != nil {
			q.dec.Host, q.dec.FoundBy = h, claim.kind
			break
		}
	}
	switch {
	case q.dec.Host != nil && q.req.Caller.Believed:
		q.neighbor, q.former = zeroMAC, zeroMAC // of the caller, who asks for another machine
	case q.dec.Host == nil && own != nil:
		q.dec.Host, q.dec.FoundBy = own, ownBy
	case q.dec.Host == nil:
		q.mac, q.hostname = c.MAC, c.Hostname
	}
}

// claimed returns the host with a claimed value; nil: there is none. Where several hosts
// have it, the one that the network shows goes before the oldest.
func (q *question) claimed(claim *claim, own *model.Host) *model.Host {
	c := &q.req.Claims
	switch {
	case !claim.present(c):
		return nil
	case own != nil && claim.holds(own, c):
		return own
	}
	return claim.host(q.view, c)
}

// verify believes claims as far as the network confirms them.
func (q *question) verify() *fault.Error {
	c, dec := &q.req.Claims, &q.dec
	own, ownBy := q.ownHost()
	if c.IP.IsValid() && c.IP != q.addr {
		victim := cmp.Or(q.view.HostByIP(c.IP), own)
		return q.refuse(victim, byIP, "the claimed ip is not the address of this client, "+client(q.addr)+
			"; leave the parameter out")
	}
	var found *claim
	var ignored []*claim
	for _, claim := range claims {
		if !claim.isMade(q.view, &q.req.Claims) {
			continue
		}
		ignore, err := q.verifyClaim(claim, own, ownBy)
		if err != nil {
			return err
		}
		if ignore {
			ignored = append(ignored, claim)
		}
		if found == nil && dec.FoundBy == claim.kind {
			found = claim
		}
	}
	if dec.Host == nil {
		dec.Host, dec.FoundBy = own, ownBy
	}
	for _, claim := range ignored {
		q.ignore(claim)
	}
	if u := &dec.Unheld; len(u.Ignored) > 0 && dec.Host != nil {
		u.Known = true
		if own == nil {
			u.Beside = found.named(c)
		}
	}
	return nil
}

// named returns the host that a claim names; nil: none. A UUID that the neighbour entry contradicts names none,
// as one that the claimed MAC contradicts.
func (q *question) named(claim *claim) *model.Host {
	h := claim.host(q.view, &q.req.Claims)
	if claim.kind != byUUID {
		return h
	}
	if h != nil && q.contradicts(h) {
		h = nil
	}
	q.otherBoard = h == nil && q.view.HostByUUID(q.req.Claims.UUID) != nil
	return h
}

// verifyClaim finds the host by a claim, or compares the claim with the host that was
// found by another one. own is the host that the network shows, ownBy how it was found.
// ignore is true for a claim that no host has.
func (q *question) verifyClaim(claim *claim, own *model.Host, ownBy string) (ignore bool, err *fault.Error) {
	c, dec, kind := &q.req.Claims, &q.dec, claim.kind
	if dec.Host != nil && claim.holds(dec.Host, c) {
		return false, nil
	}
	h := q.named(claim)
	if dec.Host == nil && own != nil && claim.holds(own, c) {
		dec.Host, dec.FoundBy = q.firstOf(own, h), kind
		return false, nil
	}
	shown := cmp.Or(dec.Host, own)
	switch {
	case areSeparate(q.view, shown, h):
		return q.verifyForeign(claim, h, shown)
	case h == nil:
		// The address is the client's, and the neighbour entry proves more than
		// a claim does.
		return kind != byIP && (claim != claimedMAC || c.MAC != q.neighbor), nil
	case dec.Host != nil:
		return false, q.refuse(h, kind, "the claimed "+kind+" is not that of host "+dec.Host.Ref.String()+
			", which this client is; leave the parameter out or correct the host")
	case !q.mayBe(h, ownBy) && claim.rival(q.view.Rivals(h), c) != nil:
		return false, q.shared(h, claim.rival(q.view.Rivals(h), c), claim.named(c))
	case !q.mayBe(h, ownBy):
		return false, q.refuse(h, kind, "the claimed "+kind+" is "+q.whyNot(kind, h, own, ownBy))
	}
	dec.Host, dec.FoundBy = h, kind
	return false, nil
}

// verifyForeign verifies a claim that names the host h. An island is between h and shown, the host that the client is
// known as.
// A tenant, who can write any fact into his hosts, must neither take the machine of another nor stop it.
func (q *question) verifyForeign(claim *claim, h, shown *model.Host) (ignore bool, err *fault.Error) {
	isIsland, mayBe := q.view.Islands().Has(h.Namespace), q.mayBe(h, "")
	switch {
	case isIsland && (!mayBe || !q.view.Islands().Has(shown.Namespace)):
		return true, nil
	case isIsland:
		return false, q.shared(shown, h, claim.named(&q.req.Claims))
	case !mayBe:
		return false, q.refuse(h, claim.kind, "the claimed "+claim.kind+" is not that of host "+shown.Ref.String()+
			", which this client is; leave the parameter out or correct the host")
	}
	q.dec.Host, q.dec.FoundBy = h, claim.kind
	return false, nil
}

// mayBe reports whether the client may claim to be a host that the network does not show.
// ownBy is the fact by which it shows another host, "" where it shows none.
func (q *question) mayBe(h *model.Host, ownBy string) bool {
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
	return !q.contradicts(h) &&
		slices.ContainsFunc(h.BootSources, func(p netip.Prefix) bool { return p.Contains(q.addr) })
}

// limited reports whether a limit is for the client.
func (q *question) limited(l Limit) bool {
	if l == StrangersLimited {
		own, _ := q.ownHost()
		return own == nil
	}
	return l == AllLimited
}

// verifyOwn decides without looking up a claim. A host that the network identifies may make
// claims that hold for itself: they disclose nothing of others, and machines that boot
// next to one that guesses always make them.
func (q *question) verifyOwn() *fault.Error {
	c := &q.req.Claims
	own, _ := q.ownHost()
	held := own != nil && (!c.IP.IsValid() || c.IP == q.addr) && (c.Role == "" || own.Labels[match.RoleLabel] == c.Role)
	for _, claim := range claims {
		held = held && (!claim.isMade(q.view, &q.req.Claims) || claim.kind == byIP || claim.holds(own, c))
	}
	if !held {
		return ClaimsLimited
	}
	return q.verify()
}

// contradicts reports whether the neighbour entry is that of another machine than a
// host. It never contradicts a host without a known hardware address.
func (q *question) contradicts(h *model.Host) bool {
	return q.neighbor != zeroMAC && h.HasMACs() && !slices.Contains(h.MACs, q.neighbor)
}

// byNetwork reports whether the network, and not only a claim, identifies the client as a
// host: by the hardware addresses where both are known, else by the address.
func (q *question) byNetwork(h *model.Host) bool {
	if q.neighbor != zeroMAC && h.HasMACs() {
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

// admit refuses an identified machine that may not be served.
func (q *question) admit() *fault.Error {
	h := q.dec.Host
	if h == nil {
		q.unknown()
	} else if err := q.admitHost(h); err != nil {
		return err
	}
	role := q.req.Claims.Role
	if role == "" || q.role == role || q.decider.opts.Policy.Claims == identity.Deny {
		return nil
	}
	switch {
	case h == nil:
		return q.refuse(nil, "role", "an unknown machine may not claim a role; "+q.hostWithRole(role)+
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
func (q *question) admitHost(h *model.Host) *fault.Error {
	enforce := q.decider.opts.Policy.Neighbors == identity.NeighborsEnforce
	switch {
	case q.contradicts(h):
		q.notice(ReasonNeighborMismatch, h, q.who(), "the neighbour table has "+q.neighbor.String()+" for "+client(q.addr)+
			", which is none of this host's hardware addresses")
		if enforce {
			return fault.New(fault.Refused, "the hardware address behind "+client(q.addr)+" is not one of host "+h.Ref.String()+
				"; add it to the host's spec.nics or correct its spec.ip")
		}
	case q.former != zeroMAC:
		notice, refusal := NeighborChanged(h, q.addr, q.neighbor, q.former)
		q.dec.Notices = append(q.dec.Notices, notice)
		if enforce {
			return refusal
		}
	}
	if other := q.hostOfNeighbor(h); other != nil {
		q.notice(ReasonDuplicate, h, other.Ref.String(), q.who()+" is served as this host, which has its address, and "+
			"host "+other.Ref.String()+" has its hardware address; delete one of the two hosts")
	}
	other := q.view.HostByIP(q.addr)
	if other != nil && other != h && q.view.Islands().Separate(h.Namespace, other.Namespace) {
		const text = "; correct the spec.ip of one of the two"
		q.notice(ReasonDuplicate, h, other.Ref.String(), q.who()+" is served as this host, and host "+other.Ref.String()+
			", of another island, has its address"+text)
		q.notice(ReasonDuplicate, other, h.Ref.String(), q.who()+" has the address of this host, and is served as host "+
			h.Ref.String()+" of another namespace"+text)
	}
	return q.admitShared(h)
}

// hostOfNeighbor returns another host with the client's hardware address, if the found host
// has none: the two are one machine.
func (q *question) hostOfNeighbor(h *model.Host) *model.Host {
	if q.neighbor == zeroMAC || h.HasMACs() || !slices.Contains(h.IPs, q.addr) {
		return nil
	}
	return q.view.HostByMAC(q.neighbor)
}
