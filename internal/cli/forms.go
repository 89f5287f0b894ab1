package cli

import (
	"fmt"
	"strings"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
)

// maxBlockers bounds the fields that are listed for one version.
const maxBlockers = 5

// versions are Ignition versions of one major, in order, with the same blockers.
type versions struct{ first, last, blockers string }

func (v *versions) String() string {
	if v.first == v.last {
		return v.first
	}
	return v.first + " to " + v.last
}

// describeForms lists the Ignition versions in which a config can be served, and the
// fields that prevent the others; "" for a kickstart.
func describeForms(artifact *compile.Artifact) string {
	if artifact == nil || len(artifact.Forms) == 0 {
		return ""
	}
	var spans []*versions
	for _, f := range artifact.Forms {
		blockers := blockersOf(f)
		if n := len(spans); n > 0 && spans[n-1].blockers == blockers && spans[n-1].last[0] == f.Version[0] {
			spans[n-1].last = f.Version
		} else {
			spans = append(spans, &versions{f.Version, f.Version, blockers})
		}
	}
	var servable []string
	var others strings.Builder
	for _, v := range spans {
		if v.blockers == "" {
			servable = append(servable, v.String())
		} else {
			fmt.Fprintf(&others, "  not as %s: %s\n", v, v.blockers)
		}
	}
	return fmt.Sprintf("spec %s, can be given as %s\n%s", artifact.IgnitionVersion, strings.Join(servable, ", "), &others)
}

// blockersOf lists the fields that prevent a form.
func blockersOf(f ignition.Form) string {
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
