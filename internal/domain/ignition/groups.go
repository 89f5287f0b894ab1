package ignition

import (
	"slices"
	"strings"
)

// Group is a run of consecutive released versions of one major version that a config can be
// given in, or cannot for the same reasons. An experimental version is a group of its own.
type Group struct {
	// First and Last are versions such as "3.0.0" and "3.6.0"; they may be the same.
	First, Last string
	Losses      []Loss
}

// Groups returns the groups of forms, which are in the order of their versions.
func Groups(forms []Form) []Group {
	var groups []Group
	for _, f := range forms {
		if n := len(groups); n > 0 && groups[n-1].takes(f) {
			groups[n-1].Last = f.Version
		} else {
			groups = append(groups, Group{f.Version, f.Version, f.Losses})
		}
	}
	return groups
}

func (g *Group) takes(f Form) bool {
	return slices.Equal(g.Losses, f.Losses) && !IsExperimental(g.Last) && !IsExperimental(f.Version) &&
		strings.HasPrefix(f.Version, g.Last[:strings.IndexByte(g.Last, '.')+1])
}

// String returns the versions, such as "3.0.0-3.6.0", or "2.2.0" where it is only one.
func (g Group) String() string {
	if g.First == g.Last {
		return g.First
	}
	return g.First + "-" + g.Last
}

// SpecsIn returns the versions of a group by its String; none where it is no such text.
func SpecsIn(versions string) Specs {
	if one := SpecsOf(versions); one != 0 {
		return one
	}
	low, high, _ := strings.Cut(versions, "-")
	first, last := specOf(low), specOf(high)
	if first == nil || last == nil {
		return 0
	}
	var set Specs
	for i := range family {
		if s := &family[i]; s.pre == "" && !s.before(first) && !last.before(s) {
			set |= 1 << i
		}
	}
	return set
}
