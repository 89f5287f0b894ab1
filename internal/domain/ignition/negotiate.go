package ignition

import (
	"cmp"
	"slices"
	"strings"
)

// Negotiate returns the spec versions in which a client takes a config of version own, the
// preferred first, for a server that can convert. accept is its Accept header; userAgent
// counts for clients whose header names versions that they cannot read; asked is the
// version in the request, or empty. If the list is empty, reason is a sentence without a
// full stop. A client that names no version takes the config as it is. One that names a
// version takes the config as it is if it reads it, and else the versions that it reads,
// the newest first. A version in an entry of q=0 is never served.
func Negotiate(accept Accept, userAgent, asked, own string) (wanted []string, reason string) {
	if asked != "" {
		s := specOf(asked)
		if s == nil {
			return nil, "there is no Ignition spec " + clip(asked) + ": " + readsHint
		}
		return []string{s.name}, ""
	}
	if !accept.given {
		return []string{own}, ""
	}
	n := negotiation{accept: &accept, own: own}
	n.ownVersion, _, n.ownKnown = parseVersion(own)
	// Every request of a client that is served a converted config gets here, so that
	// this allocates once.
	n.wanted = make([]string, 0, len(family))
	wild := !accept.namesVersion() && accept.takesWildcards()
	for i := range accept.ranges[:accept.n] {
		r := &accept.ranges[i]
		switch {
		case r.q == 0:
		case r.kind == ignition && r.versioned:
			n.addReadable(r.version, userAgent)
		case r.kind == ignition, wild:
			n.add(own, n.ownVersion)
		}
	}
	if len(n.wanted) == 0 {
		_, reason = accept.Takes(own)
		return nil, cmp.Or(reason, "the client refuses every form of the config")
	}
	return n.wanted, ""
}

// negotiation collects the versions that a client takes.
type negotiation struct {
	accept     *Accept
	own        string
	ownVersion version
	ownKnown   bool
	wanted     []string
}

// add adds a version, unless the client refuses it or it is there already.
func (n *negotiation) add(name string, v version) {
	if !n.accept.refuses(v) && !slices.Contains(n.wanted, name) {
		n.wanted = append(n.wanted, name)
	}
}

// addReadable adds what a client reads whose header names a version: the config's own
// version, or else all released ones, the newest first.
func (n *negotiation) addReadable(named version, userAgent string) {
	client, ok := actual(named, userAgent)
	switch {
	case !ok:
	case n.ownKnown && client.reads(n.ownVersion) && !n.accept.refuses(n.ownVersion):
		n.add(n.own, n.ownVersion)
	default:
		for _, s := range slices.Backward(family) {
			if s.pre == "" && client.reads(s.version) {
				n.add(s.name, s.version)
			}
		}
	}
}

// actual returns the newest version that a client reads whose Accept header names a
// version. Ignition 2.0.x still sends the header of the releases before it, and reads
// 3.0.0 alone; 0.35 reads up to 2.4.0 and says 2.2.0.
func actual(named version, userAgent string) (version, bool) {
	release, ok := releaseOf(userAgent)
	switch {
	case Misleads(userAgent):
		if named.major == 2 {
			return version{major: 3}, true
		}
		return named, named.major == 3
	case ok && release.major == 0 && release.minor == 35 && named == version{major: 2, minor: 2}:
		return version{major: 2, minor: 4}, true
	}
	return named, true
}

// Misleads reports whether a client reads less than its Accept header names, so that
// Accept.Takes is wrong about it.
func Misleads(userAgent string) bool {
	release, ok := releaseOf(userAgent)
	return ok && release.major == 2 && release.minor == 0
}

// releaseOf reads the release of Ignition from its User-Agent: "Ignition/v0.35.0",
// "Ignition/2.0.1" or "Ignition/Debian 2.14.0+ds1-1+b6".
func releaseOf(userAgent string) (version, bool) {
	rest, ok := strings.CutPrefix(userAgent, "Ignition/")
	start := strings.IndexAny(rest, "0123456789")
	if !ok || start < 0 {
		return version{}, false
	}
	rest = rest[start:]
	number := rest[:len(rest)-len(strings.TrimLeft(rest, ".0123456789"))]
	v, parts, ok := parseVersion(strings.TrimSuffix(number, "."))
	return v, ok && parts == 3
}
