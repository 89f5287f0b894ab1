package ignition

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"

	v2_0 "github.com/coreos/ignition/config/v2_0/types"
	validate2 "github.com/coreos/ignition/config/validate"
	"github.com/coreos/ignition/config/validate/astnode"
	report2 "github.com/coreos/ignition/config/validate/report"
	"github.com/coreos/ignition/v2/config/merge"
	validate3 "github.com/coreos/ignition/v2/config/validate"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

// spec3 is a version of spec 3: T is its config, and name writes the version into
// one.
func spec3[T any](version string, name func(*T)) spec {
	s := newSpec[T](version)
	s.check = func(d *document, places bool) report.Report {
		var config T
		if err := json.Unmarshal(d.raw, &config); err != nil {
			return report.Report{*d.typeError(err)}
		}
		name(&config)
		raw := d.raw
		if !places {
			raw = nil
		}
		return Findings(validate3.ValidateWithContext(config, raw))
	}
	return s
}

// spec2 is a version of spec 2, which appends configs with a function of its own.
func spec2[T any](version string, appended func(parent, child T) T, name func(*T)) spec {
	s := newSpec[T](version)
	s.merge = func(parent, child reflect.Value) reflect.Value {
		return reflect.ValueOf(appended(parent.Interface().(T), child.Interface().(T)))
	}
	s.check = func(d *document, places bool) report.Report {
		var config T
		if err := json.Unmarshal(d.raw, &config); err != nil {
			return report.Report{*d.typeError(err)}
		}
		name(&config)
		found := validate2.Validate(reflect.ValueOf(config), &place{tree: newTree(d)}, noSource{}, places)
		return d.findings2(found)
	}
	return s
}

func newSpec[T any](name string) spec {
	v, _, ok := parseVersion(name)
	if !ok {
		panic("no version: " + name)
	}
	return spec{version: v, name: name, config: reflect.TypeFor[T](), merge: mergeStructs}
}

// mergeStructs merges configs of spec 3.
func mergeStructs(parent, child reflect.Value) reflect.Value {
	merged, _ := merge.MergeStructTranscribe(parent.Interface(), child.Interface())
	return reflect.ValueOf(merged)
}

// findings2 converts a report of the library of spec 2. The line of an entry is the number
// of the node, see place.
func (d *document) findings2(found report2.Report) report.Report {
	var r report.Report
	for _, e := range found.Entries {
		at := min(max(e.Line-1, 0), len(d.nodes)-1)
		f := report.Finding{Severity: report.Warning, Path: d.path(at), Message: oneLine(e.Message)}
		if e.Kind == report2.EntryError {
			f.Severity = report.Error
		}
		if e.Kind == report2.EntryInfo {
			continue
		}
		f.Line, f.Column = d.position(d.nodes[at].Start)
		r = append(r, f)
	}
	return r
}

// misread finds the value that a type of 2.0.0 cannot read: its URLs and hashes
// are read as such, and the error does not say where.
func (d *document) misread(err error) *report.Finding {
	for i, n := range d.nodes {
		var into any
		switch {
		case strings.EqualFold(n.Key, "source"):
			into = new(v2_0.Url)
		case strings.EqualFold(n.Key, "hash"):
			into = new(v2_0.Hash)
		}
		if into != nil && d.kind(i) == '"' && json.Unmarshal(d.raw[n.Start:n.End], into) != nil {
			return d.fail(i, oneLine(err.Error()), "")
		}
	}
	return fail(d.raw, 0, oneLine(err.Error()), "")
}

// tree has the members of every object and list of a document.
type tree struct {
	d    *document
	kids [][]int32
}

func newTree(d *document) *tree {
	t := &tree{d: d, kids: make([][]int32, len(d.nodes))}
	for i, n := range d.nodes[1:] {
		t.kids[n.Parent] = append(t.kids[n.Parent], int32(i+1))
	}
	return t
}

// place shows a document's node to the library of spec 2, with its number, from 1, in
// place of its line: the library would search the text for each line, in quadratic time.
type place struct {
	*tree
	at int
}

func (p *place) ValueLineCol(io.ReadSeeker) (int, int, string) { return p.at + 1, 0, "" }
func (p *place) KeyLineCol(io.ReadSeeker) (int, int, string)   { return p.at + 1, 0, "" }
func (p *place) LiteralValue() any                             { return nil }
func (p *place) Tag() string                                   { return "json" }

func (p *place) SliceChild(i int) (astnode.AstNode, bool) {
	if p.d.kind(p.at) != '[' || i >= len(p.kids[p.at]) {
		return nil, false
	}
	return &place{p.tree, int(p.kids[p.at][i])}, true
}

func (p *place) KeyValueMap() (map[string]astnode.AstNode, bool) {
	if p.d.kind(p.at) != '{' {
		return nil, false
	}
	members := make(map[string]astnode.AstNode, len(p.kids[p.at]))
	for _, kid := range p.kids[p.at] {
		members[p.d.nodes[kid].Key] = &place{p.tree, int(kid)}
	}
	return members, true
}

// noSource is the text that a place does not need.
type noSource struct{}

func (noSource) Read([]byte) (int, error)       { return 0, io.EOF }
func (noSource) Seek(int64, int) (int64, error) { return 0, nil }

// Shape is the part of a config whose validation takes more than linear time. Its
// keys are the same in Butane and in Ignition, so that both can be decoded into it.
type Shape struct {
	Storage struct {
		Files       []struct{} `json:"files" yaml:"files"`
		Directories []struct{} `json:"directories" yaml:"directories"`
		Links       []struct{} `json:"links" yaml:"links"`
		Filesystems []struct{} `json:"filesystems" yaml:"filesystems"`
		Luks        []struct{} `json:"luks" yaml:"luks"`
		Disks       []struct {
			Partitions []struct{} `json:"partitions" yaml:"partitions"`
		} `json:"disks" yaml:"disks"`
	} `json:"storage" yaml:"storage"`
	Systemd struct {
		Units []struct {
			Name     string  `json:"name" yaml:"name"`
			Contents *string `json:"contents" yaml:"contents"`
		} `json:"units" yaml:"units"`
	} `json:"systemd" yaml:"systemd"`
	// BootDevice is Butane's alone.
	BootDevice struct {
		Mirror struct {
			Devices []string `yaml:"devices"`
		} `yaml:"mirror"`
	} `json:"-" yaml:"boot_device"`
}

// Bounds of the products that the library computes, each some 0.2 s of work.
const (
	maxLinkPairs      = 5_000_000
	maxPartitionPairs = 10_000_000
	maxLuksPairs      = 20_000_000
	maxTemplateBytes  = 16 << 20
	maxMirrors        = 256
)

// Excess says which part of a config is too large to validate; path is "" where
// all is within bounds.
func (s *Shape) Excess() (path, message string) { return s.excess(1) }

// excess is Excess for bounds that are so many times tighter.
func (s *Shape) excess(tighter int) (path, message string) {
	st := &s.Storage
	if links := len(st.Links); links*(links+len(st.Files)+len(st.Directories)) > maxLinkPairs/tighter {
		return "$.storage.links", "there are too many links beside so many files: each is compared with each"
	}
	partitions := 0
	for i := range st.Disks {
		n := len(st.Disks[i].Partitions)
		partitions += n * n
	}
	if partitions > maxPartitionPairs/tighter {
		return "$.storage.disks", "there are too many partitions: each is compared with each"
	}
	if len(st.Filesystems)*len(st.Luks) > maxLuksPairs/tighter {
		return "$.storage.luks", "there are too many LUKS devices beside so many filesystems: each is compared with each"
	}
	if len(s.BootDevice.Mirror.Devices) > maxMirrors {
		return "$.boot_device.mirror.devices", "there are too many mirrored devices: each is compared with each"
	}
	// The library reads a template's text again for each of its instances.
	templates := map[string]int{}
	for _, u := range s.Systemd.Units {
		if stem, ok := strings.CutSuffix(u.Name, "@.service"); ok && u.Contents != nil {
			templates[stem] = max(templates[stem], len(*u.Contents))
		}
	}
	total := 0
	for _, u := range s.Systemd.Units {
		// A name's stem is not empty, whatever it begins with.
		if at := strings.Index(u.Name[min(1, len(u.Name)):], "@"); at >= 0 {
			total += templates[u.Name[:at+1]]
		}
	}
	if total > maxTemplateBytes/tighter {
		return "$.systemd.units", "there are too many instances of so long a unit template"
	}
	return "", ""
}

// boundJSON applies Shape to a document. A value of a wrong type is left out here:
// the validation has a better word for it.
func boundJSON(d *document) *report.Finding {
	var shape Shape
	_ = json.Unmarshal(d.raw, &shape)
	path, message := shape.Excess()
	if path == "" {
		return nil
	}
	at := max(d.find(strings.Split(strings.TrimPrefix(path, "$."), ".")...), 0)
	return d.fail(at, message, "use fewer")
}

// isLight reports whether a document is validated in linear time, near enough, and
// unpacks nothing.
func (d *document) isLight() bool {
	var shape Shape
	_ = json.Unmarshal(d.raw, &shape)
	if path, _ := shape.excess(16); path != "" {
		return false
	}
	for _, n := range d.nodes {
		if strings.EqualFold(n.Key, "compression") &&
			strings.HasPrefix(jsonscan.Fold(d.path(n.Parent)), "$.ignition.config.") {
			return false
		}
	}
	return true
}
