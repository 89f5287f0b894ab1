// Package butane translates Butane to Ignition, strictly: a warning is an error. It is the
// one package that imports the Butane library. Its output is byte for byte that of `butane
// --strict`, or for OpenShift's variants of `butane --strict --raw`, with a newline. It is
// stricter in two points: a second YAML document is an error, and so is a source beyond
// the bounds of this package.
package butane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	vreport "github.com/coreos/vcontext/report"

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
			f.Hint = "glowplug apply --files-dir DIR reads them where they are and stores the result; or write the text " +
				"inline (contents.inline)"
		case strings.HasPrefix(f.Message, "unused key "):
			f.Hint = fmt.Sprintf("%s %s has no such key here; check the spelling and the indentation", d.variant, d.version)
		case strings.HasPrefix(f.Message, "context tree does not match"):
			f.Message = "an alias or a merge key cannot stand for an object here"
			f.Hint = "write the object out: strict Butane takes aliases for scalars only"
		}
	}
	return r
}

// yamlLine finds the position in the messages of the YAML library.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:)?\s*line (\d+): (.*)$`)

// describe converts an error of the library without findings.
func (d *document) describe(err error) report.Report {
	var unknown common.ErrUnknownVersion
	switch {
	case errors.Is(err, common.ErrNoVariant):
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
	return yamlErrors(err)
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

// The YAML library counts lines from 0 where its grammar fails, and from 1
// elsewhere; it leaves the first line out.
var (
	grammar = regexp.MustCompile(
		`^(?:did not find expected (?:<document start>|node content|'-' indicator|key|',' or '[\]}]')|found undefined tag handle|found duplicate %(?:YAML|TAG) directive|found incompatible YAML document)$`)
	lexical = regexp.MustCompile(
		`^(?:did not find|could not find|found |mapping values are not allowed|block sequence entries are not allowed)`)
)

// yamlErrors splits an error of the YAML library, which may hold several lines.
func yamlErrors(err error) report.Report {
	var r report.Report
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "Error unmarshaling yaml: ")) {
		line = strings.TrimSpace(line)
		f := report.Finding{Severity: report.Error, Message: strings.TrimPrefix(line, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(line); m != nil {
			f.Line, _ = strconv.Atoi(m[1])
			f.Message = m[2]
		}
		switch {
		case grammar.MatchString(f.Message):
			f.Line++
		case f.Line == 0 && lexical.MatchString(f.Message):
			f.Line = 1
		}
		switch {
		case f.Message == "unmarshal errors:" || f.Message == "":
			continue
		case strings.Contains(f.Message, "found character that cannot start any token"):
			f.Hint = "YAML is indented with spaces, not with tabs"
		}
		f.Message = reworded(f.Message)
		r = append(r, f)
	}
	if len(r) == 0 {
		return report.Errorf("the YAML cannot be read")
	}
	return r
}

// wrongType is how the YAML library says that a value is of a wrong type.
var wrongType = regexp.MustCompile("^cannot unmarshal !!(\\w+)( `[^`]*`)? into (.+)$")

// kinds are the names of YAML's types.
var kinds = map[string]string{
	"str": "a string", "int": "a number", "float": "a number", "bool": "a boolean",
	"map": "a mapping", "seq": "a list", "timestamp": "a date", "null": "null",
}

// reworded puts the words of a config for the library's words of Go.
func reworded(message string) string {
	m := wrongType.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	found := cmp.Or(kinds[m[1]], "a value of type "+m[1])
	expected := "a mapping"
	switch t := strings.TrimLeft(m[3], "*"); {
	case strings.HasPrefix(t, "[]"):
		expected = "a list"
	case t == "string":
		expected = "a string"
	case t == "bool":
		expected = "true or false"
	case strings.HasPrefix(t, "int"):
		expected = "a whole number"
	}
	return "expected " + expected + ", found " + found + m[2]
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
