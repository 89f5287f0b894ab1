package explain

import (
	"cmp"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Fixed decides about hosts over a view that does not change: its Decider is one that On returns.
type Fixed struct{ *decide.Decider }

// Receives decides which config of a type a host receives whose machine asks with the headers of
// its Ignition. The machine of a host that shares an address is the one that the network shows. The
// config has the values of Secrets.
func (f Fixed) Receives(h *model.Host, typ string) decide.ConfigDecision {
	return f.receives(h, typ, true)
}

// Masked is Receives for a config that somebody reads: placeholders stand for the values of Secrets.
func (f Fixed) Masked(h *model.Host, typ string) decide.ConfigDecision {
	return f.receives(h, typ, false)
}

func (f Fixed) receives(h *model.Host, typ string, reveal bool) decide.ConfigDecision {
	if f.View().Shares(h) {
		req := f.machineRequest(h, typ)
		req.Reveal = reveal
		return f.Config(req)
	}
	return f.ConfigFor(h, &decide.Request{Type: typ, Accept: acceptOf(f.View(), h, typ), Reveal: reveal})
}

// Boots decides what the machine of a host boots next.
func (f Fixed) Boots(h *model.Host) decide.BootDecision {
	return f.Boot(f.machineRequest(h, decide.IPXE))
}

// IsMatched reports whether a host receives a config of a type where there are only those of one
// of the indexes.
func (f Fixed) IsMatched(h *model.Host, typ string, indexes ...*match.Index) bool {
	query := f.QueryOf(f.View(), h, typ)
	for _, index := range indexes {
		if r, _ := index.Pick(&query); r != nil {
			return true
		}
	}
	return false
}

// machineRequest returns the request of the machine of a host, as the network shows it. A host
// that no machine is recognised as is believed to be it.
func (f Fixed) machineRequest(h *model.Host, typ string) *decide.Request {
	in := &Inquiry{Type: typ}
	req, _ := in.asMachine(f.View(), h)
	if claimed, ok := claiming(req, h); ok {
		req = claimed.req
	}
	if decide.Unrecognised(f.Decider, h) != "" {
		req = in.asBelieved(h)
	}
	req.Accept = acceptOf(f.View(), cmp.Or(f.Identify(req), h), typ) // a refused request has the header, too
	return req
}

// acceptOf returns the Accept header of the Ignition on the machine of a host: of the release in
// its image where that is known, else of a current one. An installer has none.
func acceptOf(view model.View, h *model.Host, typ string) string {
	if typ != decide.Ignition {
		return ""
	}
	return ignition.AcceptOf(cmp.Or(MaxIgnition(view, h), ignition.Newest))
}

// MaxIgnition returns the newest Ignition spec version that the image of a host reads; "": it has
// no image, or that is not known.
func MaxIgnition(view model.View, h *model.Host) string {
	if image := view.Image(h.Image); image != nil {
		return image.MaxIgnition
	}
	return ""
}
