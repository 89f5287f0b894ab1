package decide

import (
	"cmp"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Fixed decides about hosts over a view that does not change. It takes each image for one that this
// server can serve.
type Fixed struct {
	*Decider
	view model.View
}

// fixed is an Inventory that does not change.
type fixed struct{ view model.View }

func (f fixed) View() model.View { return f.view }

// On returns a Fixed with the rules of a Decider. renderer renders its templates.
func On(d *Decider, view model.View, renderer Renderer) *Fixed {
	opts := d.opts
	opts.Inventory, opts.Images, opts.Renderer = fixed{view}, nil, renderer
	return &Fixed{&Decider{opts: opts, forms: d.forms}, view}
}

// Receives decides which config of a type a host receives whose machine asks with the headers of
// its Ignition. The machine of a host that shares an address is the one that the network shows. The
// config has the values of Secrets.
func (f *Fixed) Receives(h *model.Host, typ string) ConfigDecision {
	return f.receives(h, typ, true)
}

// Masked is Receives for a config that somebody reads: placeholders stand for the values of Secrets.
func (f *Fixed) Masked(h *model.Host, typ string) ConfigDecision { return f.receives(h, typ, false) }

func (f *Fixed) receives(h *model.Host, typ string, reveal bool) ConfigDecision {
	if f.view.Shares(h) {
		req := f.machineRequest(h, typ)
		req.Reveal = reveal
		return f.Config(req)
	}
	req := &Request{Type: typ, Accept: acceptOf(f.view, h, typ), Reveal: reveal}
	q := configQuestion{newQuestion(f.Decider, f.view, req)}
	q.dec.Host = h
	query := q.query()
	q.dec.Err = q.choose(&query, nil)
	q.renderChosen()
	return q.dec
}

// Boots decides what the machine of a host boots next.
func (f *Fixed) Boots(h *model.Host) BootDecision {
	return f.Boot(f.machineRequest(h, IPXE))
}

// IsMatched reports whether a host receives a config of a type where there are only those of one
// of the indexes.
func (f *Fixed) IsMatched(h *model.Host, typ string, indexes ...*match.Index) bool {
	query := f.queryFor(f.view, h, typ)
	for _, index := range indexes {
		if r, _ := index.Pick(&query); r != nil {
			return true
		}
	}
	return false
}

// machineRequest returns the request of the machine of a host, as the network shows it. A host
// that no machine is recognised as is believed to be it.
func (f *Fixed) machineRequest(h *model.Host, typ string) *Request {
	in := &Inquiry{Type: typ}
	req, _ := in.asMachine(f.view, h)
	if claimed, ok := claiming(req, h); ok {
		req = claimed.req
	}
	if Unrecognised(f.Decider, h) != "" {
		req = in.asBelieved(h)
	}
	q := newQuestion(f.Decider, f.view, req)
	_ = q.identify() // a refused request has the header, too
	req.Accept = acceptOf(f.view, cmp.Or(q.dec.Host, h), typ)
	return req
}

// acceptOf returns the Accept header of the Ignition on the machine of a host: of the release in
// its image where that is known, else of a current one. An installer has none.
func acceptOf(view model.View, h *model.Host, typ string) string {
	if typ != Ignition {
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
