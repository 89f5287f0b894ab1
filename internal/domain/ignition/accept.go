package ignition

import (
	"fmt"
	"strings"
)

// MediaType is the content type of an Ignition config.
const MediaType = "application/vnd.coreos.ignition+json"

// maxRanges bounds the entries of an Accept header that are kept, those that an
// Ignition config may be of: every spec version and wildcard. The longest header of a
// real client has three.
const maxRanges = 16

// Accept is what a client takes, as its Accept header says it: every entry, the
// preferred first. The zero value is a client that sent no header: it takes all.
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
		// Stable by quality: entries of one quality stay in the header's order.
		i := a.n
		for ; i > 0 && a.ranges[i-1].q < r.q; i-- {
			a.ranges[i] = a.ranges[i-1]
		}
		a.ranges[i] = r
		a.n++
	}
	return a
}

func parseRange(entry string) (mediaRange, bool) {
	name, parameters, _ := strings.Cut(entry, ";")
	name = strings.TrimSpace(name)
	r := mediaRange{q: 1000}
	switch {
	case name == "":
		return r, false
	case name == MediaType, strings.EqualFold(name, MediaType):
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
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	q := int16(whole[0]-'0') * 1000
	for i, weight := 0, int16(100); i < len(decimals); i, weight = i+1, weight/10 {
		if decimals[i] < '0' || decimals[i] > '9' {
			return 0, false
		}
		q += int16(decimals[i]-'0') * weight
	}
	return q, q <= 1000
}

// NamesIgnition reports whether an entry asks for an Ignition config by its type. A
// client without such an entry may be given something else.
func (a Accept) NamesIgnition() bool {
	for i := range a.ranges[:a.n] {
		if r := &a.ranges[i]; r.kind == ignition && r.q > 0 {
			return true
		}
	}
	return false
}

// Takes reports whether the client takes a config of a spec version as it is. If not,
// reason says why in a sentence without a full stop. An entry with a version takes
// that version and those before it of the same major; one with an experimental
// version takes that too. A wildcard counts only where no entry names a version,
// and q=0 refuses what the entry says.
func (a Accept) Takes(specVersion string) (ok bool, reason string) {
	if !a.given {
		return true, ""
	}
	v, _, valid := parseVersion(specVersion)
	if !valid {
		return false, fmt.Sprintf("the config has no spec version that can be compared with what the client reads, but %q",
			clip(specVersion))
	}
	switch a.judge(v) {
	case refuses:
		return false, "the client refuses Ignition configs of spec " + specVersion
	case readsOther:
		return false, fmt.Sprintf("the client reads Ignition spec %s and the config is of spec %s", a.named(), specVersion)
	case readsNone:
		return false, "the client's Accept header has no entry for an Ignition config"
	}
	return true, ""
}

// IsTaken is Takes without the reason, which takes longer than the rest.
func (a Accept) IsTaken(specVersion string) bool {
	if !a.given {
		return true
	}
	v, _, valid := parseVersion(specVersion)
	return valid && a.judge(v) == takes
}

// judgement is the verdict of an Accept header on a version.
type judgement uint8

const (
	takes judgement = iota
	refuses
	readsOther
	readsNone
)

func (a Accept) judge(v version) judgement {
	var readable, named, plain bool
	for i := range a.ranges[:a.n] {
		r := &a.ranges[i]
		if r.kind != ignition || r.q == 0 {
			continue
		}
		if r.versioned {
			named, readable = true, readable || r.version.reads(v)
		} else {
			plain = true
		}
	}
	switch {
	case a.refuses(v):
		return refuses
	case readable || plain:
		return takes
	case named:
		return readsOther
	case a.takesWild() && !a.refusesWild():
		return takes
	}
	return readsNone
}

// reads reports whether a client whose newest spec is c reads a config of spec v.
func (c version) reads(v version) bool {
	if v.pre != "" {
		return c == v
	}
	return c.major == v.major && (v.release() < c.release() || v.release() == c.release() && c.pre == "")
}

// named lists the versions that the client names, the preferred first.
func (a Accept) named() string {
	var names []string
	for _, r := range a.ranges[:a.n] {
		if r.kind == ignition && r.versioned && r.q > 0 {
			names = append(names, r.version.String())
		}
	}
	return strings.Join(names, " or ")
}
