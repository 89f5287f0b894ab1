package decide

import (
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// Lost are stored objects that can no longer be read, as namespace/name.
type Lost struct {
	Hosts, Images, Namespaces []string
	Configs                   []LostConfig
	// Bindings are RoleBindings.
	Bindings []snapshot.Ref
	// AllConfigs, AllImages, AllNamespaces and AllBindings are true where the bucket of that kind is
	// missing as a whole.
	AllConfigs, AllImages, AllNamespaces, AllBindings bool
}

// LostConfig is a config that can no longer be read.
type LostConfig struct {
	Ref snapshot.Ref
	// Outline has its selector; nil where that is unknown.
	Outline *snapshot.Config
}

func (l *Lost) none() bool {
	return len(l.Hosts) == 0 && len(l.Configs) == 0 && len(l.Images) == 0 && len(l.Namespaces) == 0 &&
		len(l.Bindings) == 0 && !l.AllConfigs && !l.AllImages && !l.AllNamespaces && !l.AllBindings
}

// lostImage returns the error of a host whose image is among the lost objects; nil: it is not,
// or nothing is known of lost objects.
func lostImage(objects LostObjects, h *snapshot.Host) *fault.Error {
	if objects == nil {
		return nil
	}
	lost := objects.Lost()
	return lost.image(h)
}

// image returns the error of a host whose image is lost; nil: it is not.
func (l *Lost) image(h *snapshot.Host) *fault.Error {
	switch {
	case l.AllImages:
		return fault.LostBucket("the image " + h.Image.String() + " of this machine")
	case slices.Contains(l.Images, h.Image.String()):
		return lostObject("image", h.Image.String(), "it is the one of this machine")
	}
	return nil
}

// LostObjects returns the lost objects of the store, for each decision. A machine whose
// answer a lost object could have changed has to ask again, since most answers are final.
type LostObjects interface{ Lost() Lost }

// lostObjects returns the lost objects; ok is false where they do not matter for a
// decision with the error err.
func (q *question) lostObjects(err *fault.Error) (lost Lost, ok bool) {
	final := err != nil && (err.Kind == fault.Refused || err.Kind == fault.Malformed)
	if q.opts.Lost == nil || final || err == ClaimsLimited {
		return Lost{}, false
	}
	lost = q.opts.Lost.Lost()
	return lost, !lost.none()
}

// doubtHost returns an error where the machine may be a lost host: it is no other, or the
// other one was not found by the hardware address that the machine claims.
func (q *question) doubtHost(lost *Lost) *fault.Error {
	found := q.dec.Host != nil && (q.req.Claims.MAC == zeroMAC || q.dec.FoundBy == byMAC)
	if len(lost.Hosts) == 0 || found {
		return nil
	}
	return lostObject("host", lost.Hosts[0], "this machine may be that host")
}

// doubtConfig returns an error where a lost config could have been chosen.
func (q *question) doubtConfig(lost *Lost, query *match.Query) *fault.Error {
	if lost.AllConfigs {
		return fault.LostBucket("the configs")
	}
	for i := range lost.Configs {
		if c := &lost.Configs[i]; q.couldWin(c, *query) {
			return lostObject("config", c.Ref.String(), "it may be the one of this machine")
		}
	}
	h := q.dec.Host
	if h == nil || h.Image == (snapshot.Ref{}) || q.dec.Config != nil && q.dec.Tier != match.Default {
		return nil
	}
	return lost.image(h) // which may name the config of this machine
}

// couldWin reports whether a lost config could have been preferred to the chosen one.
func (q *question) couldWin(lost *LostConfig, query match.Query) bool {
	chosen, outline := q.dec.Config, lost.Outline
	if outline == nil {
		return q.couldWinByName(lost.Ref)
	}
	query.Type = outline.Type
	if matching, _ := q.view.Subset(outline).Pick(&query); matching == nil {
		return false
	}
	switch {
	case q.req.Type == Kickstart && outline.Type == Ignition:
		return false
	case chosen == nil || chosen.Type != outline.Type:
		return chosen == nil || outline.Type == q.req.Type // the preferred type
	}
	return q.view.Wins(&query, outline)
}

// couldWinByName is couldWin for a lost config of which only the name is known.
func (q *question) couldWinByName(ref snapshot.Ref) bool {
	h, chosen := q.dec.Host, q.dec.Config
	switch {
	case h == nil:
		return !q.view.IsIsland(ref.Namespace)
	case q.view.Separates(h.Namespace, ref.Namespace):
		return false
	case chosen == nil || chosen.Namespace != h.Namespace:
		return true
	}
	// The host's own namespace is preferred. A match by MAC address or role is final.
	return ref.Namespace == h.Namespace && q.dec.Tier != match.MAC && q.dec.Tier != match.Role
}

// lostScript returns the error of a host whose namespace is lost, and with it perhaps its boot
// script; nil: it is not, or nothing is known of lost objects.
func lostScript(objects LostObjects, h *snapshot.Host) *fault.Error {
	if objects == nil {
		return nil
	}
	lost := objects.Lost()
	return lost.namespace(h, "may have a boot script for this machine")
}

// namespace returns the error of a host whose namespace is lost, with what that may have for the machine;
// nil: it is not.
func (l *Lost) namespace(h *snapshot.Host, mayHave string) *fault.Error {
	switch {
	case l.AllNamespaces:
		return fault.LostBucket("the namespace " + h.Namespace + ", which " + mayHave)
	case slices.Contains(l.Namespaces, h.Namespace):
		return lostObject("namespace", h.Namespace, "it "+mayHave)
	}
	return nil
}

// doubtLimits returns an error where the namespace of a host is lost, and with it perhaps the limits for
// its config: it had some where their use is recorded.
func (q *question) doubtLimits(lost *Lost) *fault.Error {
	h := q.dec.Host
	if h == nil || q.req.Caller.Believed {
		return nil
	}
	failure := lost.namespace(h, "may limit when this machine receives its config")
	if failure == nil || progressOf(q.opts.Progress, h).Window == nil {
		return nil
	}
	return failure
}

// whyNoConfig says why a host without a config may lack it because objects are lost; "": none
// is lost that it could have.
func (l *Lost) whyNoConfig(h *snapshot.Host) string {
	const until = "; until then the machine of this host gets 503"
	switch hasImage := h.Image != (snapshot.Ref{}); {
	case l.AllConfigs:
		return fault.LostBucket("the configs").Sentence + until
	case hasImage && l.AllImages:
		return fault.LostBucket("the image "+h.Image.String()+" of this machine, which may name its config").Sentence + until
	case len(l.Configs) > 0 || hasImage && l.image(h) != nil:
		return "the store has lost objects, and with them perhaps the config of this host: its machine gets 503; " +
			"the events with the reason ObjectLost and the log of the server name them"
	}
	return ""
}

func lostObject(kind, key, why string) *fault.Error {
	return fault.New(fault.Unavailable, "the store has lost the "+kind+" "+key+", and "+why+
		"; apply it again, and this machine is served when it asks again")
}
