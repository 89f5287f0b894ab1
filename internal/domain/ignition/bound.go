package ignition

import (
	"encoding/json"
	"strings"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

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
		if strings.EqualFold(n.Key, "compression") && strings.HasPrefix(jsonscan.Fold(d.path(n.Parent)), "$.ignition.config.") {
			return false
		}
	}
	return true
}
