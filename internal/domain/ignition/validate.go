package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	vreport "github.com/coreos/vcontext/report"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

// Validate checks a JSON config of any spec version of the family with the library of
// Ignition itself. Its warnings stay warnings, except that a field of other versions is an
// error that names them. The bytes are served unchanged.
func Validate(raw []byte) (specVersion string, r report.Report) {
	d, s, failure := read(raw)
	if failure != nil {
		return "", report.Report{*failure}
	}
	r = d.validate(s)
	if r.HasError() {
		return "", r
	}
	return s.name, append(r, d.machineWarnings(s)...).Tidy()
}

// read parses a config within the bounds and finds its spec.
func read(raw []byte) (*document, *spec, *report.Finding) {
	d, failure := parse(raw)
	if failure != nil {
		return nil, nil, failure
	}
	s, failure := d.spec()
	if failure != nil {
		return nil, nil, failure
	}
	if f := boundJSON(d); f != nil {
		return nil, nil, f
	}
	return d, s, nil
}

// maxTried bounds the configs for whose errors other versions are asked, in values:
// each of them validates the config once more.
const maxTried = 2_000

// validate holds a document against a spec.
func (d *document) validate(s *spec) report.Report {
	r := s.check(d, true)
	r = d.judgeUnknown(s, r)
	if r.HasError() && len(d.nodes) <= maxTried {
		d.hintVersions(s, r)
	}
	return r.Tidy()
}

// hintVersions adds to errors the later version of the major that accepts the value.
func (d *document) hintVersions(s *spec, r report.Report) {
	for i := range family {
		other := &family[i]
		if other.major != s.major || !s.before(other) || other.pre != "" {
			continue
		}
		there := other.check(d, false)
		for j := range r {
			f := &r[j]
			if f.Severity != report.Error || f.Hint != "" || f.Path == "" {
				continue
			}
			at := func(o report.Finding) bool {
				return o.Severity == report.Error && (strings.HasPrefix(o.Path, f.Path) || strings.HasPrefix(f.Path, o.Path))
			}
			if !slices.ContainsFunc(there, at) {
				f.Hint = "spec " + other.name + " takes it"
			}
		}
	}
}

// judgeUnknown judges the keys that the spec does not have. A key of another version is an
// error, and so is every one in an experimental spec. The others keep the warning of the
// library.
func (d *document) judgeUnknown(s *spec, r report.Report) report.Report {
	unknown := map[string]int{}
	for _, i := range d.unknown(s.config) {
		unknown[d.path(i)] = i
	}
	// The library does not find security.tls of 2.3.0 again, which it reads.
	r = slices.DeleteFunc(r, func(f report.Finding) bool {
		_, stranger := unknown[f.Path]
		return !stranger && strings.HasPrefix(f.Message, "Config has unrecognized key")
	})
	spans := map[string]string{}
	for j := range r {
		f := &r[j]
		i, ok := unknown[f.Path]
		if !ok || f.Severity != report.Warning || !strings.Contains(f.Message, " key") {
			continue
		}
		key := d.nodes[i].Key
		f.Line, f.Column = d.position(d.nodes[i].KeyStart)
		f.Message = "unused key " + clip(key)
		f.Hint = "spec " + s.name + " has no such key here, and Ignition does not read it"
		if s.pre != "" {
			f.Severity = report.Error
		}
		if !names[jsonscan.Fold(key)] {
			continue
		}
		shape := d.shape(i)
		if _, ok := spans[shape]; !ok {
			spans[shape] = versionsWith(shape)
		}
		if spans[shape] != "" {
			f.Severity = report.Error
			f.Message = fmt.Sprintf("spec %s has no field %s", s.name, clip(key))
			f.Hint = "it is a field of spec " + spans[shape]
		}
	}
	return r
}

// Excess counts the values of a JSON text, and returns the bound that it exceeds, so that
// the library must not read it. A text that is not JSON exceeds none.
func Excess(raw []byte) (values int, excess *report.Finding) {
	if !json.Valid(raw) {
		return 0, nil
	}
	d := &document{raw: raw}
	if excess = d.scan(); excess == nil {
		excess = boundJSON(d)
	}
	return len(d.nodes), excess
}

// Findings converts a report of the library.
func Findings(found vreport.Report) report.Report {
	var r report.Report
	for _, e := range found.Entries {
		line, column := e.Marker.Start()
		f := report.Finding{
			Severity: report.Warning, Path: e.Context.String(),
			Line: int(line), Column: int(column), Message: oneLine(e.Message),
		}
		if e.Kind.IsFatal() {
			f.Severity = report.Error
		}
		r = append(r, f)
	}
	return r
}

// oneLine joins the lines of a message.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// spec returns the spec that the config is written for.
func (d *document) spec() (*spec, *report.Finding) {
	at := d.find("ignition", "version")
	if at < 0 || d.kind(at) == 'n' {
		return nil, d.versionMissing()
	}
	if kind := d.kind(at); kind != '"' {
		return nil, d.fail(at, "expected a string, found "+describe(kind), `write the version as a string: "3.4.0"`)
	}
	text := jsonscan.Unquote(d.raw[d.nodes[at].Start:d.nodes[at].End])
	if s := specOf(text); s != nil {
		return s, nil
	}
	return nil, d.versionUnknown(at, text)
}

// versionMissing returns the error about a config that names no spec version.
func (d *document) versionMissing() *report.Finding {
	if old := d.find("ignitionversion"); old >= 0 {
		return d.fail(old, "the config is of Ignition spec 1", readsHint)
	}
	f := fail(d.raw, d.nodes[0].Start, "the spec version is missing",
		`say which spec the config is written for: "ignition": {"version": "3.4.0"}`)
	f.Path = "$.ignition.version"
	if section := d.find("ignition"); section >= 0 {
		f.Line, f.Column = report.Position(d.raw, d.nodes[section].Start)
		if kind := d.kind(section); kind != '{' && kind != 'n' {
			return d.fail(section, "expected an object, found "+describe(kind), f.Hint)
		}
	}
	return f
}

// versionUnknown returns the error about a version that this server does not read.
func (d *document) versionUnknown(at int, text string) *report.Finding {
	v, parts, ok := parseVersion(text)
	switch {
	case !ok || parts != 3:
		return d.fail(at, fmt.Sprintf("%q is not a spec version", clip(text)), `spec versions look like "3.4.0"`)
	case v.pre != "":
		return d.fail(at, fmt.Sprintf("spec version %s is experimental: only one release of Ignition reads it", clip(text)),
			readsHint)
	case v.major < 2:
		return d.fail(at, fmt.Sprintf("spec version %s is older than this server reads", text), readsHint)
	case v.patch != 0 && specOf(version{major: v.major, minor: v.minor}.String()) != nil:
		return d.fail(at, fmt.Sprintf("there is no spec version %s", text), fmt.Sprintf("the release is %d.%d.0", v.major,
			v.minor))
	case v.major == 2:
		return d.fail(at, fmt.Sprintf("there is no spec version %s", text), "the last of spec 2 is 2.4.0")
	}
	return d.fail(at, fmt.Sprintf("spec version %s is newer than this server reads", text), readsHint)
}

const readsHint = "this server reads spec 2.0.0 to 2.4.0 and 3.0.0 to " + Newest

// clip shortens a text of the source that is quoted in a message.
func clip(s string) string { return report.Clip(s, 40) }

// typeError says where a value is of a type that the spec does not have there.
func (d *document) typeError(err error) *report.Finding {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return d.misread(err)
	}
	at := d.at(int(wrong.Offset))
	found := describe(d.kind(at))
	if strings.HasPrefix(wrong.Value, "number ") {
		found = clip(wrong.Value)
	}
	return d.fail(at, "expected "+expected(wrong.Type)+", found "+found, "")
}

func expected(t reflect.Type) string {
	switch bare(t).Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
