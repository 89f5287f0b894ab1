package members

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "glowplug/api/v1"
)

// maxPortals is the most portals of other servers that a machine is told. It opens a session with each.
const maxPortals = 2

// Portals returns where other servers, that run, offer an image with the same bytes as this one: those of the same
// version and URL, which the patched kernel arguments have, that list the image. image is an entry of a Member's
// images; "" is offered nowhere. Of many servers those are chosen that follow this one by their names.
func (b *Book) Portals(image string) (others []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, ok := b.ownLocked()
	if !ok || !slices.Contains(own.Status.Images, image) {
		return nil
	}
	var same []*v1.Member
	for _, m := range b.members {
		s := &m.Status
		isSame := s.Version == own.Status.Version && s.HTTP == own.Status.HTTP && slices.Contains(s.Images, image)
		if s.ID != own.Status.ID && s.State == v1.MemberReady && time.Since(m.at) < b.pace.missing && isSame {
			same = append(same, m.Member)
		}
	}
	slices.SortFunc(same, func(x, y *v1.Member) int { return strings.Compare(x.Name, y.Name) })
	next, _ := slices.BinarySearchFunc(same, own.Name, func(m *v1.Member, name string) int {
		return strings.Compare(m.Name, name)
	})
	for i := range same {
		portal, err := netip.ParseAddrPort(same[(next+i)%len(same)].Status.Portal)
		// An IPv6 zone has a meaning on the other server alone.
		isNew := err == nil && portal.Addr().Zone() == "" && portal.String() != own.Status.Portal &&
			!slices.Contains(others, portal)
		if isNew && len(others) < maxPortals {
			others = append(others, portal)
		}
	}
	return others
}

// ownLocked returns the Member of this server.
func (b *Book) ownLocked() (*v1.Member, bool) {
	for _, m := range b.members {
		if m.Status.ID == b.opts.Server {
			return m.Member, m.Status.State == v1.MemberReady
		}
	}
	return nil, false
}
