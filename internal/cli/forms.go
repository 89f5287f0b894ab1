package cli

import (
	"fmt"
	"strings"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
)

// maxBlockers bounds the fields that are named for one version.
const maxBlockers = 5

// describeForms says which spec versions a config can be given in, and what stands
// in the way of the others; empty for a kickstart.
func describeForms(artifact *compile.Artifact) string {
	if artifact == nil || len(artifact.Forms) == 0 {
		return ""
	}
	given := runs(artifact.Forms, func(f ignition.Form) string {
		if len(f.Losses) == 0 {
			return "yes"
		}
		return ""
	})
	var b strings.Builder
	fmt.Fprintf(&b, "spec %s, can be given as %s\n", artifact.IgnitionVersion, strings.Join(spans(given), ", "))
	for _, r := range runs(artifact.Forms, blockers) {
		fmt.Fprintf(&b, "  not as %s: %s\n", r.span(), r.what)
	}
	return b.String()
}

// blockers names the fields that stand in the way of a form.
func blockers(f ignition.Form) string {
	var fields []string
	for i, l := range f.Losses {
		if i == maxBlockers {
			fields = append(fields, fmt.Sprintf("and %d more", len(f.Losses)-i))
			break
		}
		fields = append(fields, l.Path)
	}
	return strings.Join(fields, ", ")
}

// stretch is a row of versions of which the same is to be said.
type stretch struct {
	first, last, what string
}

func (r stretch) span() string {
	if r.first == r.last {
		return r.first
	}
	return r.first + " to " + r.last
}

func spans(all []stretch) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.span())
	}
	return out
}

// runs puts neighbours of one major together of which the same is said; of those
// with "" nothing is.
func runs(forms []ignition.Form, say func(ignition.Form) string) []stretch {
	var all []stretch
	open := false
	for _, f := range forms {
		what := say(f)
		last := len(all) - 1
		switch {
		case what == "":
			open = false
			continue
		case open && all[last].what == what && all[last].last[0] == f.Version[0]:
			all[last].last = f.Version
		default:
			all = append(all, stretch{f.Version, f.Version, what})
		}
		open = true
	}
	return all
}
