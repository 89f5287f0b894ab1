package model

import (
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/template"
)

// Config is the part of an IgnitionConfig that serving needs. It is immutable: an update of
// the object makes a new one.
type Config struct {
	Ref
	UID      string
	Created  time.Time
	Revision uint64
	// Type is "ignition" or "kickstart", Format spec.format.
	Type, Format string
	// Installer is spec.kickstartVersion.
	Installer string
	// Generation is metadata.generation.
	Generation int64
	// Compiled is the generation of the source that Artifact is made of.
	Compiled int64
	// Source is the newest spec.config, for format=raw.
	Source string
	// Artifact is the last good compilation; nil where there never was one.
	Artifact []byte
	// Template is true where Artifact is a template: it is rendered and compiled
	// for each machine.
	Template bool
	// Hash is "sha256:" and the hex digest of Artifact; ETag is Hash in quotes.
	Hash, ETag      string
	IgnitionVersion string
	// Secrets are those of a rendering that has placeholders in place of their values. Revealed is true for one
	// that has the values, whose Hash is that of the other. Neither is stored.
	// Masked is then the other one.
	Secrets  []template.SecretKey
	Revealed bool
	Masked   *Config
	// Servable are the Ignition spec versions that it can be converted to; none where that
	// is not known.
	Servable ignition.Specs
	// Demands are what the artifact asks of a live system; nil: nothing, or it is a template.
	Demands *ignition.LiveDemands
	// Stale is true while the served artifact is not that of the newest source and its
	// layers.
	Stale bool
	// Pending and Failing are the phase: the newest source is being compiled, or
	// cannot be served.
	Pending, Failing bool
	// Unjudged is true while status.servable does not describe the artifact.
	Unjudged bool
	// Foreign is true where another program has put the config into the bucket: its artifact
	// need not be that of its source.
	Foreign bool
	// ErrorMessage is status.errorMessage.
	ErrorMessage string
	// Confidential is true where only some users may read what machines are served: the source, a layer, or
	// the older source that is served is confidential.
	Confidential bool
	// confidentialSource is true where the newest source is.
	confidentialSource bool
	// Stack has the layers of the config; nil: it has none.
	Stack *Stack

	rule *match.Rule
}

// ParseTemplate reads the template that Artifact is. It is nil exactly where the
// report holds an error.
func (c *Config) ParseTemplate() (*compile.Template, report.Report) {
	return compile.ParseTemplate(compile.Source{
		Type: c.Type, Format: c.Format, Config: string(c.Artifact), Template: true, KickstartVersion: c.Installer,
	})
}

// Stack is the layers of a config. It is immutable.
type Stack struct {
	// Layers are configs of its namespace, the lowest first.
	Layers []string
	// Own is the artifact of the newest source alone; nil where it does not compile.
	Own []byte
	// Merged are the layers of the artifact.
	Merged []v1.LayerStatus
}
