package ignition

import (
	"slices"
	"strings"
)

// Negotiate says in which spec versions a client takes a config of version own, the
// preferred first, for a server that can convert. accept is its Accept header;
// userAgent its User-Agent, which counts for the clients whose header says what they
// cannot read; asked a version that the request asks for by itself, or empty. Where
// the client takes nothing the list is empty and reason says why, in a sentence
// without a full stop.
//
// A client that names no version takes the config as it is. One that names a version
// takes the config as it is if it reads that, and else the versions that it reads,
// the newest first. What an entry of q=0 names is not given.
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
	// This is asked for every request of a client that is given another form: it
	// allocates once.
	wanted = make([]string, 0, len(family))
	add := func(name string, v version) {
		if !accept.refuses(v) && !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
	}
	ownVersion, _, ownKnown := parseVersion(own)
	named, plain := accept.namesVersion(), false
	for i := range accept.ranges[:accept.n] {
		r := &accept.ranges[i]
		switch {
		case r.q == 0:
		case r.kind == ignition && r.versioned:
			client, ok := actual(r.version, userAgent)
			if !ok {
				continue
			}
			if ownKnown && client.reads(ownVersion) && !accept.refuses(ownVersion) {
				add(own, ownVersion)
				continue
			}
			for j := len(family) - 1; j >= 0; j-- {
				if s := &family[j]; s.pre == "" && client.reads(s.version) {
					add(s.name, s.version)
				}
			}
		case r.kind == ignition:
			plain = true
			add(own, ownVersion)
		case r.kind == wildcard && !named && !accept.refusesWild():
			plain = true
			add(own, ownVersion)
		}
	}
	switch {
	case len(wanted) > 0:
		return wanted, ""
	case named || plain:
		_, reason = accept.Takes(own)
		if reason == "" {
			reason = "the client refuses every form of the config"
		}
		return nil, reason
	}
	return nil, "the client's Accept header has no entry for an Ignition config"
}

// namesVersion tells whether an entry names a version, so that wildcards, which
// every real client sends, do not count.
func (a Accept) namesVersion() bool {
	for i := range a.ranges[:a.n] {
		if r := &a.ranges[i]; r.kind == ignition && r.versioned && r.q > 0 {
			return true
		}
	}
	return false
}

// refuses tells whether an entry of q=0 names the version, or every one.
func (a Accept) refuses(v version) bool {
	for i := range a.ranges[:a.n] {
		r := &a.ranges[i]
		if r.kind == ignition && r.q == 0 && (!r.versioned || r.version == v) {
			return true
		}
	}
	return false
}

func (a Accept) refusesWild() bool {
	for i := range a.ranges[:a.n] {
		if r := &a.ranges[i]; r.kind == wildcard && r.q == 0 {
			return true
		}
	}
	return false
}

// actual is the newest version that a client reads where its Accept header names
// one. Ignition 2.0.x still sends the header of the releases before it, and reads
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

// Misleads tells whether a client is one that does not read all that its Accept
// header says, so that what Accept.Takes says of it does not hold.
func Misleads(userAgent string) bool {
	release, ok := releaseOf(userAgent)
	return ok && release.major == 2 && release.minor == 0
}

// releaseOf reads the release of Ignition from its User-Agent: "Ignition/v0.35.0",
// "Ignition/2.0.1" or "Ignition/Debian 2.14.0+ds1-1+b6".
func releaseOf(userAgent string) (version, bool) {
	rest, ok := strings.CutPrefix(userAgent, "Ignition/")
	if !ok {
		return version{}, false
	}
	start := strings.IndexAny(rest, "0123456789")
	if start < 0 {
		return version{}, false
	}
	rest = rest[start:]
	if end := strings.IndexFunc(rest, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); end >= 0 {
		rest = rest[:end]
	}
	v, parts, ok := parseVersion(strings.TrimSuffix(rest, "."))
	return v, ok && parts == 3
}
