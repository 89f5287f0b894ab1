// Package compile turns the source of an IgnitionConfig into the bytes for machines, with
// a report. It is pure: the same source always gives the same bytes. It is bounded: no
// source takes more than a few seconds of CPU, and only those near the bounds take more than
// one (docs/reference/limits.md).
package compile

import (
	"fmt"
	"strings"
	"unicode/utf8"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/kickstart"
	"glowplug/internal/domain/report"
)

// MaxSource bounds a source, in bytes.
const MaxSource = 2 << 20

const (
	fetchLarge = "let the machine fetch files by URL (contents.source), the large ones first"
	fetchParts = "let the script of %post fetch large parts by URL"
)

// Types and formats of a Source.
const (
	TypeIgnition    = "ignition"
	TypeKickstart   = "kickstart"
	FormatButane    = "butane"
	FormatIgnition  = "ignition"
	FormatKickstart = "kickstart"
)

// Source is what an operator wrote: spec.type, spec.format, spec.config and what
// says how to read it.
type Source struct {
	Type, Format string
	Config       string
	// Template says that Config is a template: ParseTemplate compiles it for a host.
	Template bool
	// WithoutForms leaves out the Forms, which take most of the time and say nothing of
	// what is merged over layers.
	WithoutForms bool
	// KickstartVersion is the installer that a kickstart is checked for, one of
	// kickstart.Versions; "" is the newest.
	KickstartVersion string
}

// SourceOf returns the source of a config.
func SourceOf(config *v1.IgnitionConfig) Source {
	spec := &config.Spec
	return Source{
		Type: spec.Type, Format: spec.Format, Config: spec.Config,
		WithoutForms: len(spec.Layers) > 0, KickstartVersion: spec.KickstartVersion, Template: spec.Template,
	}
}

// ShortHash returns the beginning of a digest such as Artifact.Hash, without its algorithm.
func ShortHash(hash string) string {
	_, digest, _ := strings.Cut(hash, ":")
	return digest[:min(12, len(digest))]
}

// Artifact is a config ready to be served.
type Artifact struct {
	// Bytes is the exact body of the answer. For format butane it is what the
	// command `butane --strict` writes, with its newline; the other formats are
	// served as they were written, to the last byte, without a byte order mark.
	Bytes []byte
	// Hash is "sha256:" and the hex digest of Bytes.
	Hash string
	// IgnitionVersion is the spec version of Bytes; empty for a kickstart.
	IgnitionVersion string
	// Forms has the spec versions that Bytes can be given in, and the losses of the others;
	// nil for a kickstart and a template.
	Forms []ignition.Form
	// Template says that Bytes is a template, as it was written, that is yet to be
	// rendered for a host.
	Template bool
}

// Compile translates and validates a source; of a template it checks the syntax.
// The artifact is nil exactly where the report holds an error.
func Compile(src Source) (*Artifact, report.Report) { return compileWith(src, butane.Translate) }

// CompileLocal is Compile for a client with the local parts of a Butane source under
// filesDir; see butane.TranslateLocal for the duties of the caller. The result is small
// enough to be stored with format ignition.
func CompileLocal(src Source, filesDir string) (*Artifact, report.Report) {
	artifact, found := compileWith(src, func(source []byte) ([]byte, report.Report) {
		return butane.TranslateLocal(source, filesDir)
	})
	if artifact != nil && len(artifact.Bytes) > MaxSource {
		return nil, append(found, report.ErrorWithHint(fetchLarge,
			"with its local files the config has %d bytes, and may have %d (2 MiB)", len(artifact.Bytes), MaxSource)...)
	}
	return artifact, found
}

func compileWith(src Source, translate func([]byte) ([]byte, report.Report)) (artifact *Artifact, found report.Report) {
	// The translators are other people's code, run on what anybody may have
	// written. A fault in them is an error of this one source, not of the server.
	defer func() {
		if fault := recover(); fault != nil {
			artifact, found = nil, report.ErrorWithHint(
				"this is a fault of the library, which the config sets off; compiling parts of it shows which",
				"the %s library failed on this config: %.200v", src.Format, fault)
		}
	}()
	src.Config = strings.TrimPrefix(src.Config, byteOrderMark)
	if src.Template {
		return checkTemplate(src)
	}
	if found = check(src); found != nil {
		return nil, found
	}
	artifact = &Artifact{Bytes: []byte(src.Config)}
	switch src.Format {
	case FormatButane:
		artifact.Bytes, found = translate(artifact.Bytes)
		artifact.IgnitionVersion = ignition.VersionOf(artifact.Bytes)
	case FormatIgnition:
		artifact.IgnitionVersion, found = ignition.Validate(artifact.Bytes)
	case FormatKickstart:
		found = kickstart.Check(artifact.Bytes, src.KickstartVersion).Tidy()
	}
	found = explainMistakes(src, found)
	if found.HasError() {
		return nil, found
	}
	if !src.WithoutForms {
		Judge(artifact)
	}
	artifact.Hash = hashOf(artifact.Bytes)
	return artifact, found
}

// forms lists the versions of an artifact. An experimental version, which is not
// converted, is given as it is, and so is a config on which the libraries fail.
func forms(artifact *Artifact) (all []ignition.Form) {
	own := []ignition.Form{{Version: artifact.IgnitionVersion}}
	defer func() {
		if recover() != nil {
			all = own
		}
	}()
	all, err := ignition.Servable(artifact.Bytes)
	if err != nil {
		return own
	}
	return all
}

// check refuses what no translator is given.
func check(src Source) report.Report {
	switch src.Type + "/" + src.Format {
	case TypeIgnition + "/" + FormatButane, TypeIgnition + "/" + FormatIgnition, TypeKickstart + "/" + FormatKickstart:
	default:
		return report.ErrorWithHint(
			"type ignition takes format butane or ignition, type kickstart takes format kickstart",
			"format %.40q does not go with type %.40q", src.Format, src.Type)
	}
	if len(src.Config) > MaxSource {
		hint := fetchLarge
		if src.Format == FormatKickstart {
			hint = fetchParts
		}
		return report.ErrorWithHint(hint, "the config is larger than %d bytes (2 MiB)", MaxSource)
	}
	if strings.TrimSpace(src.Config) == "" && src.Format == FormatKickstart {
		return report.Report{report.ErrorAt(nil, 0, "the config is empty", "")}
	}
	if strings.HasPrefix(src.Config, "\xff\xfe") || strings.HasPrefix(src.Config, "\xfe\xff") {
		return report.Report{report.ErrorAt(nil, 0, "the config is UTF-16", "configs are UTF-8: save it as that")}
	}
	if at := badByte(src.Config); at >= 0 {
		return report.Report{report.ErrorAt([]byte(src.Config), at,
			fmt.Sprintf("byte 0x%02x is not text", src.Config[at]),
			"configs are UTF-8; binary content goes into a data: URL with base64")}
	}
	return nil
}

// byteOrderMark is what some editors write at the beginning of a file. No machine reads it.
const byteOrderMark = "\ufeff"

// badByte returns the offset of the first byte that is NUL or no UTF-8, -1 for none.
func badByte(s string) int {
	for i, c := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if c == 0 || c == utf8.RuneError && size == 1 {
			return i
		}
	}
	return -1
}
