package compile

import (
	"regexp"
	"strings"

	"glowplug/internal/domain/report"
)

// foreignFormats are what people store under a wrong format, and how it begins.
var foreignFormats = []struct {
	// formats are those under which the source is a mistake.
	formats string
	begins  *regexp.Regexp
	// is and hint say what the source is and what to do.
	is, hint string
}{
	{
		"butane kickstart", regexp.MustCompile(`^\s*\{\s*"ignition"`),
		"an Ignition config in JSON", "set type: ignition and format: ignition; a file of its own ends in .ign, or has --format ignition",
	},
	{
		"ignition kickstart", regexp.MustCompile(`(?m)\A(?:\s*#.*\n|\s*\n|---\s*\n)*(?:variant|version): *["']?[a-z0-9.]+["']?\s*\n(?:variant|version): `),
		"a Butane config", "set type: ignition and format: butane; a file of its own ends in .bu, or has --format butane",
	},
	{
		"butane ignition kickstart", regexp.MustCompile(`^\s*#cloud-config`),
		"a cloud-init config", "cloud-init is not served; write the config as Butane or as a kickstart",
	},
	{
		"butane ignition kickstart", regexp.MustCompile(`^(?:\s*#.*\n|---\s*\n|debug: .*\n|persist: .*\n)*version: v1alpha1\s*\n`),
		"a Talos machine config", "Talos fetches its config itself, from the URL of its kernel argument talos.config: serve " +
			"it as a file, with --assets-dir",
	},
	{
		"butane ignition kickstart", regexp.MustCompile(`^(?:\s*#.*\n|\s*\n|---\s*\n)*(?:apiVersion|kind): `),
		"a Kubernetes manifest", "spec.config contains the source alone; glowplug validate and glowplug apply take manifests",
	},
	{
		"butane ignition kickstart", regexp.MustCompile(`(?m)^d-i +[a-z]`),
		"a preseed file of the Debian installer", "preseed is not served; serve it as a file, with --assets-dir",
	},
	{
		"butane ignition kickstart", regexp.MustCompile(`^\s*<\?xml`),
		"an XML document", "XML, such as AutoYaST's profiles, is not served; serve it as a file, with --assets-dir",
	},
}

// fact finds a template's action that begins with a fact of the machine. The names of
// other facts are those of Podman's and Docker's own templates, too.
var fact = regexp.MustCompile(`\{\{-? *(?:(?:if|with|range) +)?\.(?:Hostname|IP|MAC|NICs|Namespace)\b[^}]*\}\}`)

// noTemplate is the hint about a fact in a source that is no template. The source is of an object,
// or of a plain file, which has no manifest.
const noTemplate = "to have it rendered for each machine set spec.template: true in the IgnitionConfig; " +
	"a plain file is rendered by glowplug compile --template --host HOST.yaml"

// explainMistakes says what the source is, where it is of another format than its own, or
// a template that is not said to be one. What a wrong format cannot read is not listed.
func explainMistakes(src Source, found report.Report) report.Report {
	for _, foreign := range foreignFormats {
		if !strings.Contains(foreign.formats, src.Format) || !found.HasError() && src.Format != FormatKickstart ||
			!foreign.begins.MatchString(src.Config) {
			continue
		}
		f := report.ErrorAt([]byte(src.Config), 0, "the config is "+foreign.is+", and its format is "+src.Format, foreign.hint)
		if found.HasError() {
			return report.Report{f}
		}
		f.Severity = report.Warning
		return append(report.Report{f}, found...).Tidy()
	}
	if !strings.Contains(src.Config, "{{") {
		return found
	}
	if at := fact.FindStringIndex(src.Config); at != nil {
		f := report.ErrorAt([]byte(src.Config), at[0], src.Config[at[0]:min(at[1], at[0]+80)]+
			" is not rendered: the config is no template", noTemplate)
		if !found.HasError() {
			f.Severity = report.Warning
		}
		return append(found, f).Tidy()
	}
	return found
}
