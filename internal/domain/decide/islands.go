package decide

import (
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// islandBetween returns the one of two namespaces that is an island, where that separates them.
func islandBetween(view model.View, namespace, other string) (island string, separate bool) {
	switch {
	case !view.Islands().Separate(namespace, other):
		return "", false
	case view.Islands().Has(namespace):
		return namespace, true
	}
	return other, true
}

// yields reports whether a host of an island gives way to another one, which no tenant can write.
func yields(view model.View, h, other *model.Host) bool {
	return h != other && view.Islands().Has(h.Namespace) && !view.Islands().Has(other.Namespace)
}

// firstOf returns the host that goes first of the client's own and the one that a claim names, which may be nil: the
// own one, unless it gives way to the other and the client may be that.
func (q *question) firstOf(own, named *model.Host) *model.Host {
	if named != nil && yields(q.view, own, named) && q.mayBe(named, "") {
		return named
	}
	return own
}

// areSeparate reports whether an island is between two hosts; nil is none.
func areSeparate(view model.View, a, b *model.Host) bool {
	return a != nil && b != nil && view.Islands().Separate(a.Namespace, b.Namespace)
}

// rivalHere returns the host of another island that the client may be as well: it has the hardware address of the
// client, unless the found host has both that and the address and the other one has addresses of its own; or it has
// none, and the claim by which the other was found is true of it as well.
func (q *question) rivalHere(h *model.Host) *model.Host {
	if q.neighbor != zeroMAC {
		hasAll := slices.Contains(h.MACs, q.neighbor) && slices.Contains(h.IPs, q.addr)
		if other := q.view.Rivals(h).ByMAC(q.neighbor); other != nil && !(hasAll && len(other.IPs) > 0) {
			return other
		}
	}
	for _, claim := range claims {
		if claim.kind != q.dec.FoundBy || !claim.isMade(q.view, &q.req.Claims) {
			continue
		}
		if other := claim.rival(q.view.Rivals(h), &q.req.Claims); other != nil && len(other.IPs) == 0 && q.mayBe(other, "") {
			return other
		}
	}
	return nil
}

// admitShared returns an error where a host of another island has what identifies the machine, unless it asks from
// the host's own address: the author of one could have the machine of the other taken for his own, or stop it. The
// machine asks again, since its author could not make it boot after a final answer.
func (q *question) admitShared(h *model.Host) *fault.Error {
	if !q.view.Islands().Has(h.Namespace) {
		return nil // the hosts of islands give way to it
	}
	rival := q.rivalHere(h)
	if rival == nil && slices.Contains(h.IPs, q.addr) && q.view.Rivals(h).ByIP(q.addr) == nil {
		return nil
	}
	if c, ok := q.view.Rivals(h).First(); ok {
		return q.shared(h, q.view.Host(c.With), c.Shared())
	}
	for _, claim := range claims {
		if claim.kind != q.dec.FoundBy || q.neighbor != zeroMAC && slices.Contains(h.MACs, q.neighbor) {
			continue
		}
		if other := claim.rival(q.view.Rivals(h), &q.req.Claims); other != nil {
			return q.shared(h, other, claim.named(&q.req.Claims))
		}
	}
	if rival != nil {
		return q.shared(h, rival, "the machine "+q.who())
	}
	return nil
}

// shared returns the error of a machine that may be either of two hosts of different islands, both of which get an
// event.
func (q *question) shared(h, other *model.Host, what string) *fault.Error {
	const text = " with a host of another island, and its machine is not served: correct one of the two"
	q.notice(ReasonDuplicate, h, what, "shares "+what+text)
	q.notice(ReasonDuplicate, other, what, "shares "+what+text)
	return fault.New(fault.Unavailable, "host "+h.Ref.String()+" shares "+what+" with a host of another island, so neither "+
		"is served; correct one of the two, or give the machine's host its address in spec.ip")
}
