package decide

import (
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Losses are the kinds of objects of which the store has lost some, or all.
type Losses struct {
	Hosts, Configs, Images bool
	// Namespaces is true for Namespaces, roles and bindings: they say which namespaces are islands, and a namespace
	// has limits and a boot script.
	Namespaces bool
	// Boots are the keys, namespace/name, of the hosts whose newest boot is lost.
	Boots []string
}

// LostObjects returns what the store has lost, for each decision.
type LostObjects interface{ Lost() Losses }

// lossesOf returns what the store has lost; nil objects: nothing.
func lossesOf(objects LostObjects) Losses {
	if objects == nil {
		return Losses{}
	}
	return objects.Lost()
}

// What was lost cannot be asked which machines it was for. So one rule holds for all of it: while objects of a kind
// that decides are lost, a machine is answered only where a fact that nothing goes before has settled the decision,
// in an object that is there. That is a MAC address or UUID for the question which host it is, and a MAC address or
// role for the question which config it receives. Every other machine has to ask again, since most answers are final.

// holdConfig returns the error of a machine whose config a lost object could have changed; nil: none could.
func (q *configQuestion) holdConfig() *fault.Error {
	lost, host, config := lossesOf(q.decider.opts.Lost), q.dec.Host, q.dec.Config
	final := config != nil && (q.dec.Tier == match.MAC || q.dec.Tier == match.Role)
	switch {
	case lost.lacksBoot(host) && q.view.Limits(host) != (model.Limits{}):
		return lostBoot(host)
	case lost.Hosts && !q.hasCardOfHost():
		return held("hosts", byCard)
	case lost.Configs && !final:
		return held("configs", byTier)
	case lost.Images && !final:
		return held("images", byTier)
	case lost.Namespaces && !(final && host != nil && isWithin(q.view, host.Namespace, config.Namespace)):
		return held("namespaces, roles or bindings", byTier+" of its own namespace")
	}
	return nil
}

// holdBoot returns the error of a machine whose boot a lost object could have changed; nil: none could.
func (q *bootQuestion) holdBoot() *fault.Error {
	lost := lossesOf(q.decider.opts.Lost)
	switch {
	case lost.lacksBoot(q.dec.Host):
		return lostBoot(q.dec.Host)
	case q.hasCardOfHost() || !lost.Hosts && !lost.Images && !lost.Namespaces:
		return nil
	case lost.Hosts:
		return held("hosts", byCard)
	case lost.Images:
		return held("images", byCard)
	}
	return held("namespaces, roles or bindings", byCard)
}

// lacksBoot reports whether the newest boot of a host, which may be nil, is lost.
func (l *Losses) lacksBoot(h *model.Host) bool {
	return len(l.Boots) > 0 && h != nil && slices.Contains(l.Boots, h.Ref.String())
}

// lostBoot is the error of a machine of which nobody knows any more whether it is provisioned.
func lostBoot(h *model.Host) *fault.Error {
	return fault.New(fault.Unavailable, "the store has lost the newest boot of host "+h.Ref.String()+", and with it whether "+
		"its machine is provisioned; set status.state of the host to what it is, and this machine is served when it asks again")
}

// holdScript returns the error of a known host whose namespace is lost, and with it perhaps its boot script, or whose
// image may be one of an island; nil: neither.
func (q *bootQuestion) holdScript(h *model.Host, script string) *fault.Error {
	imaged := h.Image != (model.Ref{})
	switch {
	case !lossesOf(q.decider.opts.Lost).Namespaces:
		return nil
	case script == "" && !q.view.HasNamespace(h.Namespace):
		return fault.LostBucket("the namespace " + h.Namespace + ", which may have a boot script for this machine")
	case imaged && !isWithin(q.view, h.Namespace, h.Image.Namespace):
		return held("namespaces, roles or bindings", "an image of its own namespace")
	}
	return nil
}

// isWithin reports whether an object is in the namespace of a host, and that namespace exists.
func isWithin(view model.View, host, other string) bool {
	return host == other && view.HasNamespace(host)
}

// hasCardOfHost reports whether the machine was found as a host by a MAC address or UUID.
func (q *question) hasCardOfHost() bool {
	h := q.dec.Host
	if h == nil {
		return false
	}
	return q.dec.FoundBy == byMAC || q.dec.FoundBy == byUUID || q.dec.FoundBy == byNeighbor ||
		q.neighbor != zeroMAC && slices.Contains(h.MACs, q.neighbor)
}

// What has to settle a decision, in the words of an answer.
const (
	byCard = "a MAC address or UUID of a host"
	byTier = "a MAC address or role in a config"
)

// held is the error of a machine that waits while objects of a kind are lost.
func held(kind, settles string) *fault.Error {
	return fault.New(fault.Unavailable, "the store has lost "+kind+", and a machine is answered only where "+settles+
		" decides; restore what the log names or accept the loss, and this machine is served when it asks again")
}

// MissingImage returns the error of an image that is not there, where images are lost; nil: none is.
func (d *Decider) MissingImage(ref model.Ref) *fault.Error {
	if !lossesOf(d.opts.Lost).Images {
		return nil
	}
	return fault.LostBucket("the image " + ref.String())
}

// WhyNoConfig says why a host may lack a config because objects are lost; "": none is lost that it could have.
func (d *Decider) WhyNoConfig() string {
	if l := lossesOf(d.opts.Lost); !l.Configs && !l.Images && !l.Namespaces {
		return ""
	}
	return "the store has lost objects, and with them perhaps the config of this host: its machine gets 503; " +
		"the log and the events of the server name them"
}
