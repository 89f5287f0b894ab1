// Package butane translates Butane to Ignition, strictly: a warning is an error. It is the
// one package that imports the Butane library. Its output is byte for byte that of `butane
// --strict`, or for OpenShift's variants of `butane --strict --raw`, with a newline. It is
// stricter in two points: a second YAML document is an error, and so is a source beyond
// the bounds of this package.
package butane

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	vreport "github.com/coreos/vcontext/report"
	"gopkg.in/yaml.v3"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// Translate compiles a Butane source. The output is nil exactly where the report
// holds an error. Local parts are an error: nothing is read but the source.
func Translate(source []byte) ([]byte, report.Report) { return translate(source, "") }

// TranslateLocal is Translate where the local parts of the source are at hand: the
// library reads them under filesDir. It checks only the names of the paths; the
// caller first checks what Locals lists for symbolic links and sizes.
func TranslateLocal(source []byte, filesDir string) ([]byte, report.Report) {
	return translate(source, filesDir)
}

func translate(source []byte, filesDir string) ([]byte, report.Report) {
	d, r := parse(source)
	if r.HasError() {
		return nil, r.Tidy()
	}
	output, found, err := config.TranslateBytes(source, common.TranslateBytesOptions{
		Raw: true, TranslateOptions: common.TranslateOptions{FilesDir: filesDir},
	})
	r = d.convert(found)
	if err != nil && !r.HasError() {
		r = append(r, d.describe(err)...)
	}
	if r.HasError() {
		return nil, r.Tidy()
	}
	output = append(output, '\n')
	if v := ignition.VersionOf(output); ignition.IsExperimental(v) {
		f := d.finding(d.root.value("version"),
			fmt.Sprintf("the output is of Ignition spec %s, which is experimental: only one release of Ignition reads it", v))
		f.Severity = report.Warning
		r = append(r, f)
	}
	return output, append(r, d.machineWarnings(output)...).Tidy()
}

// convert converts the findings of the library, all to errors: that is strict.
func (d *document) convert(found vreport.Report) report.Report {
	r := ignition.Findings(found)
	for i := range r {
		f := &r[i]
		f.Severity = report.Error
		d.place(f)
		switch {
		case f.Message == common.ErrNoFilesDir.Error():
			f.Message = "local files and trees are not on the server"
			f.Hint = "glowplug apply, compile and validate read them with --files-dir DIR, and apply stores the result; " +
				"or write their text into the config"
		case strings.HasPrefix(f.Message, "unused key <<"):
			f.Hint = "merge keys are not supported: write the keys out"
		case strings.HasPrefix(f.Message, "unused key -"):
			f.Hint = spaceHint
		case strings.HasPrefix(f.Message, "unused key "):
			f.Hint = fmt.Sprintf("%s %s has no such key here; check the spelling and the indentation", d.variant, d.version)
		case strings.HasPrefix(f.Message, "context tree does not match"):
			d.explainMismatch(f)
		}
	}
	return r
}

// explainMismatch says why the library found no object at the path of a finding: there is
// nothing, or an alias or a merge key.
func (d *document) explainMismatch(f *report.Finding) {
	key := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	if n, found := d.nearest(f.Path); found && n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		f.Message = key + " is empty, and must be an object"
		f.Hint = "indent the lines that belong to it deeper, or remove it"
		return
	}
	f.Message = "an alias or a merge key cannot stand for an object here"
	f.Hint = "write the object out: strict Butane takes aliases for scalars only"
}

// describe converts an error of the library without findings.
func (d *document) describe(err error) report.Report {
	var unknown common.ErrUnknownVersion
	switch {
	case errors.Is(err, common.ErrNoVariant):
		return report.Report{d.unknownVariant()}
	case errors.Is(err, common.ErrInvalidVersion) && versions[d.variant] == nil:
		return report.Report{d.unknownVariant()}
	case errors.Is(err, common.ErrInvalidVersion):
		return report.Report{d.unknownVersion()}
	case errors.As(err, &unknown) && versions[d.variant] == nil:
		return report.Report{d.unknownVariant()}
	case errors.As(err, &unknown):
		return report.Report{d.unknownVersion()}
	case errors.Is(err, common.ErrRhcosVariantUnsupported):
		f := d.finding(d.root.value("variant"), "variant rhcos has been removed from Butane")
		f.Hint = "use variant: openshift"
		return report.Report{f}
	}
	return yamlErrors(d.source, err)
}

func (d *document) unknownVariant() report.Finding {
	f := d.finding(d.root.value("variant"), "variant is missing")
	if d.variant != "" {
		f.Message = fmt.Sprintf("variant %s is not known", quote(d.variant))
	}
	f.Hint = "variants are " + strings.Join(Variants(), ", ")
	return f
}

func (d *document) unknownVersion() report.Finding {
	f := d.finding(d.root.value("version"), "version is missing")
	if d.version != "" {
		f.Message = fmt.Sprintf("%s has no version %s", d.variant, quote(d.version))
	}
	if known := versions[d.variant]; len(known) > 0 {
		f.Hint = "versions of " + d.variant + " are " + strings.Join(known, ", ")
	}
	return f
}

func quote(s string) string { return strconv.Quote(report.Clip(s, 40)) }

// versions are the variants of the library with their versions, oldest first.
var versions = map[string][]string{
	"fcos":    {"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0", "1.8.0-experimental"},
	"fiot":    {"1.0.0", "1.1.0-experimental"},
	"flatcar": {"1.0.0", "1.1.0", "1.2.0-experimental"},
	"openshift": {
		"4.8.0", "4.9.0", "4.10.0", "4.11.0", "4.12.0", "4.13.0", "4.14.0", "4.15.0", "4.16.0",
		"4.17.0", "4.18.0", "4.19.0", "4.20.0", "4.21.0", "4.22.0", "4.23.0-experimental",
	},
	"r4e": {"1.0.0", "1.1.0", "1.2.0-experimental"},
}

// Variants names the variants that can be compiled, sorted.
func Variants() []string { return slices.Sorted(maps.Keys(versions)) }
