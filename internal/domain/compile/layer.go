package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// MaxMerged bounds a config that was merged over its layers, in bytes.
const MaxMerged = 4 << 20

// Laid is a config that was merged over its layers.
type Laid struct {
	// Artifact is what machines are given. Its Forms are not made, see Judge.
	Artifact *Artifact
	merged   *ignition.Merged
}

// Origins lists the entries of the config, its files, units, users and so on, and says
// which of the layers each came from, the config itself by its own name.
func (l *Laid) Origins() []ignition.Origin { return l.merged.Origins() }

// Lay merges a config over its layers, see Stack, by the rules of Ignition. own is the
// compiled config and name its name. The result is nil exactly where the report holds an
// error.
func Lay(name string, own []byte, stack []*Layer) (laid *Laid, found report.Report) {
	defer func() {
		if fault := recover(); fault != nil {
			laid, found = nil, report.Errorf("the library failed on merging the layers: %.200v", fault)
		}
	}()
	size := len(own)
	var parts []ignition.Part
	for _, layer := range stack {
		size += len(layer.Bytes)
		parts = append(parts, ignition.Part{Name: layer.Name, Config: layer.Bytes})
	}
	if size > MaxMerged {
		return nil, refusal("together with its layers the config is larger than %d bytes (4 MiB): let the machine fetch "+
			"large files by URL (contents.source)", MaxMerged)
	}
	merged, err := ignition.MergeAll(append(parts, ignition.Part{Name: name, Config: own}))
	var part *ignition.PartError
	switch {
	case errors.As(err, &part) && part.Part == name:
		return nil, refusal("the config itself: %s", part.Reason())
	case errors.As(err, &part):
		return nil, refusal("layer %s: %s", part.Part, part.Reason())
	case err != nil:
		return nil, refusal("%v", err)
	case len(merged.Config) > MaxMerged:
		return nil, refusal("merged over its layers the config is larger than %d bytes (4 MiB): let the machine fetch "+
			"large files by URL (contents.source)", MaxMerged)
	}
	found = checkFetched(stack, merged.Version)
	for _, f := range merged.Validate().Errors() {
		f.Line, f.Column = 0, 0 // the text was not written by an operator
		message := "merged over its layers the config is not valid: " + f.String()
		if from := merged.From(f.Path); len(from) > 0 {
			message += fmt.Sprintf(" (from %s)", joined(from))
		}
		found = append(found, refusal("%s", message)...)
	}
	if found.HasError() {
		return nil, found
	}
	artifact := &Artifact{Bytes: merged.Config, Hash: hashOf(merged.Config), IgnitionVersion: merged.Version}
	return &Laid{Artifact: artifact, merged: merged}, found
}

// Judge finds out which spec versions an artifact can be given in, which takes longer
// than all the rest.
func Judge(artifact *Artifact) {
	if artifact.IgnitionVersion != "" {
		artifact.Forms = forms(artifact)
	}
}

func refusal(format string, args ...any) report.Report {
	return report.Report{{Severity: report.Error, Path: layersPath, Message: fmt.Sprintf(format, args...)}}
}

func hashOf(artifact []byte) string {
	digest := sha256.Sum256(artifact)
	return "sha256:" + hex.EncodeToString(digest[:])
}

// joined lists names: a, b and c.
func joined(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// checkFetched reports the configs that layers have the machine fetch: it merges them after
// the layers were merged here, in another order than a machine that fetches all.
func checkFetched(stack []*Layer, version string) report.Report {
	var found report.Report
	add := func(severity report.Severity, layer *Layer, path, format string, args ...any) {
		found = append(found, report.Finding{Severity: severity, Path: layersPath,
			Message: fmt.Sprintf("layer %s: %s: ", layer.Name, path) + fmt.Sprintf(format, args...)})
	}
	appends := version[0] == '2'
	for _, layer := range stack {
		fetched, _ := ignition.FetchingOf(layer.Bytes) // of a valid config
		if fetched.Replace != nil {
			add(report.Error, layer, "$.ignition.config.replace",
				"it would take the place of the whole config: replace in the config itself")
		}
		switch {
		case len(fetched.Children) > 0 && appends:
			add(report.Error, layer, "$.ignition.config.append",
				"spec 2 forgets it where a config is put over it: write the config in spec 3, or append in the config itself")
		case len(fetched.Children) > 0:
			add(report.Warning, layer, "$.ignition.config.merge",
				"the machine merges it over the whole config, also over what stands above the layer")
		}
		if appends && (fetched.HTTPProxy+fetched.HTTPSProxy != "" || len(fetched.NoProxy) > 0) {
			add(report.Warning, layer, "$.ignition.proxy", "spec 2 takes the proxy of the config on top alone")
		}
	}
	return found
}
