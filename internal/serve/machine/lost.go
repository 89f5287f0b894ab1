package machine

import (
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// Lost are the kinds of objects whose bucket is damaged. Requests that depend on them are
// answered 503; others are served.
type Lost struct{ Images, Namespaces, Streams bool }

// lost is the answer to machines that need what is missing.
var lost = fault.New(fault.Unavailable,
	"the server's store is damaged, and lacks what this machine needs; restore the bucket that its log names")

// fromConfig reports whether a host's config may depend on what is missing: its image
// may name one.
func (l Lost) fromConfig(h *snapshot.Host) bool {
	return l.Images && h != nil && h.Image != (snapshot.Ref{})
}

// changesConfig reports whether a decision may be wrong because a whole bucket is
// missing: no config was found, or only a default one.
func (l Lost) changesConfig(d *decide.ConfigDecision) bool {
	nothing := d.Err != nil && d.Err.Kind == fault.NoMatch
	fallback := d.Err == nil && d.Tier == match.Default
	return (nothing || fallback) && l.fromConfig(d.Host)
}

// fromBoot reports whether what a machine boots may depend on what is missing: its
// image, or the script of its namespace. menu reports whether unknown machines are
// offered images.
func (l Lost) fromBoot(b *decide.BootDecision, menu bool) bool {
	switch refused := b.Err != nil && b.Err.Kind != fault.Unavailable; {
	case refused || b.Local:
		return false
	case b.Host == nil:
		return l.Images && menu
	}
	return l.fromConfig(b.Host) || l.Namespaces && b.Host.Booting().IPXE == ""
}
