package ignition

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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

// AcceptOf returns the Accept header of an Ignition whose newest spec version is max.
func AcceptOf(max string) string { return MediaType + ";version=" + max + ", */*;q=0.1" }

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

// How the releases of the CoreOS family are numbered: Fedora CoreOS with the date
// of what it was built from, RHEL CoreOS with the OpenShift release and, since
// OpenShift 4.19, with that of RHEL; Flatcar with days since July 2013.
var (
	fedoraRelease    = regexp.MustCompile(`^\d{2}\.(20\d{6})\.\d+\.\d+$`)
	openshiftRelease = regexp.MustCompile(`^4(\d{1,2})\.\d+\.20\d{10}-\d+$`)
	rhelRelease      = regexp.MustCompile(`^(9|10)\.\d+\.20\d{6}-\d+$`)
	flatcarRelease   = regexp.MustCompile(`^([1-9]\d{3})\.\d+\.\d+$`)
)

// since has the first release of a series that reads a spec version, by its number.
type since struct {
	first int
	spec  string
}

// stable has the dates of Ignition's releases with a new specification, the newest
// first: 2.26.0, 2.20.0, 2.15.0, 2.11.0, 2.7.0 and 2.3.0 (docs/release-notes.md and
// docs/specs.md of coreos/ignition v2).
var stable = []since{
	{20260217, "3.6.0"}, {20241022, "3.5.0"}, {20230221, "3.4.0"}, {20210625, "3.3.0"},
	{20201013, "3.2.0"}, {20200505, "3.1.0"}, {0, "3.0.0"},
}

// arrival is how long a release of Ignition may take until Fedora CoreOS has it.
const arrival = 45 * 24 * time.Hour

var (
	// openshift is the table of specifications of Butane (docs/specs.md of coreos/butane),
	// variant openshift, for the Machine Config Operator; RHCOS reads spec 3 since 46.82
	// (README of coreos/ignition).
	openshift = []since{{19, "3.5.0"}, {14, "3.4.0"}, {7, "3.2.0"}, {6, "3.1.0"}, {1, "2.2.0"}}
	// flatcar: 3185 is the first with Ignition 2, of spec 3.3.0 (Flatcar's page on
	// Ignition); the alphas of March 2023 have 2.15 (coreos/butane issue 434), which
	// 3549 is one of; before 3185 it was 0.3x, which reads 2.3.0. Of later ones no more
	// is known here.
	flatcar = []since{{3549, "3.4.0"}, {3185, "3.3.0"}, {1, "2.3.0"}}
)

// MaxOfRelease returns the newest spec version that the Ignition in a release of
// Fedora CoreOS, RHEL CoreOS or Flatcar reads, by its number, such as
// 41.20241122.3.0, 414.92.202306141028-0 or 3510.2.1; "" where it is none of these.
// A release from the time when a version was on its way counts as the older one.
func MaxOfRelease(release string) string {
	if m := fedoraRelease.FindStringSubmatch(release); m != nil {
		built, err := time.Parse("20060102", m[1])
		if err != nil {
			return ""
		}
		return newestSince(stable, built.Add(-arrival).Format("20060102"))
	}
	if m := openshiftRelease.FindStringSubmatch(release); m != nil {
		return newestSince(openshift, m[1])
	}
	if rhelRelease.MatchString(release) {
		return openshift[0].spec
	}
	if m := flatcarRelease.FindStringSubmatch(release); m != nil {
		return newestSince(flatcar, m[1])
	}
	return ""
}

func newestSince(table []since, digits string) string {
	n, _ := strconv.Atoi(digits)
	i := slices.IndexFunc(table, func(s since) bool { return n >= s.first })
	if i < 0 {
		return ""
	}
	return table[i].spec
}

// Specs is a set of spec versions.
type Specs uint32

// SpecsOf returns the set of versions; those that are not known are left out.
func SpecsOf(versions ...string) Specs {
	var set Specs
	for i := range family {
		if slices.Contains(versions, family[i].name) {
			set |= 1 << i
		}
	}
	return set
}

// Reads reports whether an Ignition whose newest spec version is max reads one of the
// set: one of the same major version that is not newer. It is true of an empty set and
// of an unknown max.
func (s Specs) Reads(max string) bool {
	newest, parts, ok := parseVersion(max)
	if s == 0 || !ok || parts != 3 {
		return true
	}
	for i := range family {
		v := family[i].version
		if s&(1<<i) != 0 && v.pre == "" && v.major == newest.major && v.release() <= newest.release() {
			return true
		}
	}
	return false
}
