package ignition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MediaType is the content type of an Ignition config.
const MediaType = "application/vnd.coreos.ignition+json"

// maxRanges bounds the entries of an Accept header that are kept. The longest header
// of a real client has three.
const maxRanges = 16

// Accept is the Accept header of a client: every entry that an Ignition config may
// match, the preferred first. The zero value, of a client without the header, takes all.
type Accept struct {
	ranges [maxRanges]mediaRange
	n      int
	// given is true where the header has an entry at all.
	given bool
}

// mediaRange is one entry of the header.
type mediaRange struct {
	kind rangeKind
	// versioned entries name the spec version that the client reads up to.
	versioned bool
	version   version
	// q is the quality in thousandths; 0 refuses.
	q int16
}

type rangeKind uint8

const (
	other    rangeKind = iota // a type that no Ignition config is of
	wildcard                  // */*, application/* or application/json
	ignition                  // MediaType
)

// ParseAccept reads the Accept header of a request; several headers are joined by
// commas first. An entry that cannot be read is left out, so that a client is never
// refused for a part of its header that it does not need.
func ParseAccept(header string) Accept {
	var a Accept
	for header != "" && a.n < maxRanges {
		var entry string
		entry, header, _ = strings.Cut(header, ",")
		r, ok := parseRange(entry)
		if !ok {
			continue
		}
		a.given = true
		if r.kind == other {
			continue
		}
		a.ranges[a.n] = r
		a.n++
	}
	slices.SortStableFunc(a.ranges[:a.n], func(a, b mediaRange) int { return int(b.q - a.q) })
	return a
}

func parseRange(entry string) (mediaRange, bool) {
	name, parameters, _ := strings.Cut(entry, ";")
	name = strings.TrimSpace(name)
	r := mediaRange{q: 1000}
	switch {
	case name == "":
		return r, false
	case strings.EqualFold(name, MediaType):
		r.kind = ignition
	case name == "*/*", strings.EqualFold(name, "application/*"), strings.EqualFold(name, "application/json"):
		r.kind = wildcard
	}
	for parameters != "" {
		var parameter string
		parameter, parameters, _ = strings.Cut(parameters, ";")
		key, value, _ := strings.Cut(parameter, "=")
		key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case strings.EqualFold(key, "version"):
			var ok bool
			if r.version, _, ok = parseVersion(value); !ok {
				return r, false
			}
			r.versioned = true
		case strings.EqualFold(key, "q"):
			q, ok := quality(value)
			if !ok {
				return r, false
			}
			r.q = q
		}
	}
	return r, true
}

// quality reads a q value in thousandths: 0 to 1 with at most three decimals.
func quality(s string) (int16, bool) {
	integer, decimals, _ := strings.Cut(s, ".")
	if len(integer) != 1 || len(decimals) > 3 {
		return 0, false
	}
	q, err := strconv.ParseUint(integer+(decimals + "000")[:3], 10, 16)
	return int16(q), err == nil && q <= 1000
}

// has reports whether an entry of a kind fulfils a condition.
func (a *Accept) has(kind rangeKind, condition func(*mediaRange) bool) bool {
	return slices.ContainsFunc(a.ranges[:a.n], func(r mediaRange) bool { return r.kind == kind && condition(&r) })
}

// NamesIgnition reports whether an entry asks for an Ignition config by its type. A
// client without such an entry may be given something else.
func (a Accept) NamesIgnition() bool {
	return a.has(ignition, func(r *mediaRange) bool { return r.q > 0 })
}

// namesVersion reports whether an entry names a version, so that wildcards, which
// every real client sends, do not count.
func (a *Accept) namesVersion() bool {
	return a.has(ignition, func(r *mediaRange) bool { return r.q > 0 && r.versioned })
}

// refuses reports whether an entry of q=0 names the version, or every one.
func (a *Accept) refuses(v version) bool {
	return a.has(ignition, func(r *mediaRange) bool { return r.q == 0 && (!r.versioned || r.version == v) })
}

// takesWildcards reports whether there is a wildcard, and none of q=0.
func (a *Accept) takesWildcards() bool {
	return a.has(wildcard, func(r *mediaRange) bool { return r.q > 0 }) &&
		!a.has(wildcard, func(r *mediaRange) bool { return r.q == 0 })
}

// IsTaken reports whether the client takes a config of a spec version as it is. An
// entry with a version takes that version and those before it of the same major; one
// with an experimental version takes that too. A wildcard counts only where no entry
// names a version, and q=0 refuses what the entry says.
func (a Accept) IsTaken(specVersion string) bool {
	if !a.given {
		return true
	}
	v, _, valid := parseVersion(specVersion)
	if !valid || a.refuses(v) {
		return false
	}
	reads := a.has(ignition, func(r *mediaRange) bool { return r.q > 0 && (!r.versioned || r.version.reads(v)) })
	return reads || !a.namesVersion() && a.takesWildcards()
}

// Takes is IsTaken with the reason of a refusal, a sentence without a full stop. The
// reason takes longer than the rest.
func (a Accept) Takes(specVersion string) (ok bool, reason string) {
	if a.IsTaken(specVersion) {
		return true, ""
	}
	v, _, valid := parseVersion(specVersion)
	switch {
	case !valid:
		return false, fmt.Sprintf("the config has no spec version that can be compared with what the client reads, but %q",
			clip(specVersion))
	case a.refuses(v):
		return false, "the client refuses Ignition configs of spec " + specVersion
	case a.namesVersion():
		return false, fmt.Sprintf("the client reads Ignition spec %s and the config is of spec %s", a.named(), specVersion)
	case a.n > 0:
		return false, "the client's Accept header has no entry for an Ignition config with a q above 0"
	}
	return false, "the client's Accept header has no entry for an Ignition config"
}

// reads reports whether a client whose newest spec is c reads a config of spec v.
func (c version) reads(v version) bool {
	if v.pre != "" {
		return c == v
	}
	return c.major == v.major && (v.release() < c.release() || v.release() == c.release() && c.pre == "")
}

// named lists the versions that the client names, the preferred first.
func (a *Accept) named() string {
	var names []string
	for _, r := range a.ranges[:a.n] {
		if r.kind == ignition && r.versioned && r.q > 0 {
			names = append(names, r.version.String())
		}
	}
	return strings.Join(names, " or ")
}
