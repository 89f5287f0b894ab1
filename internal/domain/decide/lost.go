package decide

import (
	"slices"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// Lost are objects that were stored and can no longer be read, as namespace/name.
type Lost struct {
	Hosts, Images, Namespaces []string
	Configs                   []LostConfig
}

// LostConfig is a config that can no longer be read.
type LostConfig struct {
	Ref snapshot.Ref
	// Outline is how it is matched; nil where that is not known.
	Outline *snapshot.Config
}

func (l *Lost) none() bool {
	return len(l.Hosts) == 0 && len(l.Configs) == 0 && len(l.Images) == 0 && len(l.Namespaces) == 0
}

// LostObjects knows what the store has lost. It is asked at each decision. A machine
// whose answer a lost object could have changed is told to come again, since it takes
// most answers for final.
type LostObjects interface{ Lost() Lost }

// lostObjects returns what the store has lost; ok is false where that does not matter
// for a decision that ended with err.
func (q *question) lostObjects(err *fault.Error) (lost Lost, ok bool) {
	final := err != nil && (err.Kind == fault.Refused || err.Kind == fault.Malformed)
	if q.opts.Lost == nil || final || err == ClaimsLimited {
		return Lost{}, false
	}
	lost = q.opts.Lost.Lost()
	return lost, !lost.none()
}

// doubtHost says that the machine may be a lost host: it is no other, or another
// one was found by less than the hardware address that it claims.
func (q *question) doubtHost(lost *Lost) *fault.Error {
	found := q.dec.Host != nil && (q.req.Claims.MAC == zeroMAC || q.dec.FoundBy == byMAC)
	if len(lost.Hosts) == 0 || found {
		return nil
	}
	return lostObject("host", lost.Hosts[0], "this machine may be that host")
}

// doubtConfig says that a lost config could have been chosen.
func (q *question) doubtConfig(lost *Lost, query *match.Query) *fault.Error {
	for i := range lost.Configs {
		if c := &lost.Configs[i]; q.couldWin(c, *query) {
			return lostObject("config", c.Ref.String(), "it may be the one of this machine")
		}
	}
	h := q.dec.Host
	if h != nil && slices.Contains(lost.Images, h.Image.String()) && (q.dec.Config == nil || q.dec.Tier == match.Default) {
		return lostObject("image", h.Image.String(), "it may name the config of this machine")
	}
	return nil
}

// couldWin reports whether a lost config could have been chosen before the one that
// was.
func (q *question) couldWin(lost *LostConfig, query match.Query) bool {
	chosen, outline := q.dec.Config, lost.Outline
	if outline == nil {
		return q.couldWinByName(lost.Ref)
	}
	query.Type = outline.Type
	if matching, _ := snapshot.Alone(outline).Pick(&query); matching == nil {
		return false
	}
	switch {
	case q.req.Type == Kickstart && outline.Type == Ignition:
		return false
	case chosen == nil || chosen.Type != outline.Type:
		return chosen == nil || outline.Type == q.req.Type // which is asked for first
	}
	return q.view.Wins(&query, outline)
}

// couldWinByName is couldWin where only the name of the lost config is known.
func (q *question) couldWinByName(ref snapshot.Ref) bool {
	h, chosen := q.dec.Host, q.dec.Config
	switch {
	case h == nil:
		return !q.opts.Policy.Isolate || ref.Namespace == match.DefaultNamespace
	case q.opts.Policy.Isolate && ref.Namespace != h.Namespace:
		return false
	case chosen == nil || chosen.Namespace != h.Namespace:
		return true
	}
	// The host's own namespace comes first. One that names the machine is its own,
	// whatever else there was.
	return ref.Namespace == h.Namespace && q.dec.Tier != match.MAC && q.dec.Tier != match.Role
}

// doubtScript says that the script of a namespace is lost.
func (q *question) doubtScript(lost *Lost) *fault.Error {
	h := q.dec.Host
	if h == nil || h.Booting().IPXE != "" || !slices.Contains(lost.Namespaces, h.Namespace) {
		return nil
	}
	return lostObject("namespace", h.Namespace, "it may have a boot script for this machine")
}

func lostObject(kind, key, why string) *fault.Error {
	return fault.New(fault.Unavailable, "the store has lost the "+kind+" "+key+", and "+why+
		"; apply it again, and this machine is served when it asks again")
}
