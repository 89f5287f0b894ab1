package boot

import (
	"slices"
	"strings"

	"glowplug/internal/fault"
	"glowplug/internal/match"
)

// Lost are objects that were stored and can no longer be read, as namespace/name.
// What they said is not known.
type Lost struct {
	Hosts, Configs, Images, Namespaces []string
}

func (l *Lost) none() bool {
	return len(l.Hosts) == 0 && len(l.Configs) == 0 && len(l.Images) == 0 && len(l.Namespaces) == 0
}

// ConsiderLost makes the decider ask, at each decision, what the store has lost.
// A machine whose answer a lost object could have changed is told to
// come again, since it takes most answers for final. It is to be called before the
// first decision.
func (d *Decider) ConsiderLost(lost func() Lost) { d.lost = lost }

// withoutLost gives the error of a decision, or the one of what the store has lost
// where that could have changed the decision.
func (q *question) withoutLost(lost func() Lost, err *fault.Error, doubt func(*Lost) *fault.Error) *fault.Error {
	if lost == nil || err != nil && (err.Kind == fault.Refused || err.Kind == fault.Malformed) {
		return err
	}
	what := lost()
	if what.none() {
		return err
	}
	if doubted := q.doubtHost(&what); doubted != nil {
		return doubted
	}
	if doubted := doubt(&what); doubted != nil {
		return doubted
	}
	return err
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
func (q *question) doubtConfig(lost *Lost) *fault.Error {
	for _, key := range lost.Configs {
		if q.couldWin(key) {
			return lostObject("config", key, "it may be the one of this machine")
		}
	}
	h := q.dec.Host
	if h != nil && slices.Contains(lost.Images, h.Image.String()) && (q.dec.Config == nil || q.dec.Tier == match.Default) {
		return lostObject("image", h.Image.String(), "it may name the config of this machine")
	}
	return nil
}

// couldWin tells whether a config of which only the name is known could have been
// chosen before the one that was.
func (q *question) couldWin(key string) bool {
	h, chosen := q.dec.Host, q.dec.Config
	namespace, _, _ := strings.Cut(key, "/")
	switch {
	case h == nil:
		return !q.policy.Isolate || namespace == match.DefaultNamespace
	case q.policy.Isolate && namespace != h.Namespace:
		return false
	case chosen == nil || chosen.Namespace != h.Namespace:
		return true
	}
	// The host's own namespace comes first. One that names the machine is its own,
	// whatever else there was.
	return namespace == h.Namespace && q.dec.Tier != match.MAC && q.dec.Tier != match.Role
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
