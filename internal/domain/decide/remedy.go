package decide

import "glowplug/internal/store/snapshot"

// whyNot returns the reason why the client may not claim to be a host, as the end of a
// sentence, and the remedies. Each of them is enough by itself: bootSources count only for
// a client that the network does not show to be another machine. own and ownBy are as in
// verifyClaim.
func (q *question) whyNot(kind string, h, own *snapshot.Host, ownBy string) string {
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
	}
	return "that of a host which does not boot from " + q.client() +
		"; leave the parameter out, or add this address to the host's spec.ip or spec.bootSources"
}
