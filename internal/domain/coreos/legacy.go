package coreos

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leftover is the member of an architecture that keeps what the older form says
// and stream metadata has no place for, so that it can be given back.
const leftover = "rhcos-json"

// legacyMember is the member of a file that keeps what the older form calls it, where
// that is not what it would be called again.
const legacyMember = "rhcos-json-name"

// legacyRole is the place of an image of the older form in stream metadata.
type legacyRole struct{ artifact, format, role string }

// legacyRoles are the images whose place their name alone tells. Those of the
// installer before 4.6 (iso, kernel, initramfs) take the place of the live ones
// where there are none.
var legacyRoles = map[string]legacyRole{
	"live-iso": {"metal", "iso", Disk}, "live-kernel": {"metal", "pxe", Kernel},
	"live-initramfs": {"metal", "pxe", Initramfs}, "live-rootfs": {"metal", "pxe", Rootfs},
}

// legacyImage is an image of the older form, as its baseURI and path locate it.
type legacyImage struct {
	Path               string      `json:"path"`
	SHA256             string      `json:"sha256"`
	UncompressedSHA256 string      `json:"uncompressed-sha256,omitempty"`
	Size               json.Number `json:"size,omitempty"`
	UncompressedSize   json.Number `json:"uncompressed-size,omitempty"`
}

type legacyDocument struct {
	BaseURI string                     `json:"baseURI"`
	BuildID string                     `json:"buildid"`
	Images  map[string]json.RawMessage `json:"images"`
	AMIs    map[string]struct {
		HVM string `json:"hvm"`
	} `json:"amis"`
	Azure struct {
		URL string `json:"url"`
	} `json:"azure"`
	GCP struct {
		Image   string `json:"image"`
		Project string `json:"project"`
	} `json:"gcp"`
}

var (
	// buildTime is in every version of RHEL CoreOS: 43.81.202003111353.0.
	buildTime = regexp.MustCompile(`^([0-9])([0-9]+)\..*?([0-9]{12})`)
	// afterArch finds the architecture and the format in the name of an image.
	afterArch = regexp.MustCompile(`[.-](x86_64|aarch64|ppc64le|s390x)(?:\.(.+))?$`)
)

// FromLegacy makes stream metadata of documents of the older form (rhcos.json, as the
// OpenShift installer had it up to 4.7), each of which is of one architecture. What the
// new form has no place for is kept beside it. The stream is named after the version
// where stream is "".
func FromLegacy(stream string, documents ...[]byte) (*Document, error) {
	r := &reader{}
	architectures := map[string]any{}
	var modified time.Time
	for _, data := range documents {
		arch, old, built := r.legacy(data)
		if len(r.problems) > 0 {
			return nil, r.problems
		}
		if architectures[arch] != nil {
			return nil, Problems{{"", "is of " + arch + ", and so is another"}}
		}
		architectures[arch] = built
		version := buildTime.FindStringSubmatch(old.BuildID)
		if version == nil {
			continue
		}
		if stream == "" {
			stream = "rhcos-" + version[1] + "." + version[2]
		}
		if at, err := time.Parse("200601021504", version[3]); err == nil && at.After(modified) {
			modified = at
		}
	}
	if stream == "" {
		return nil, Problems{{"buildid", "tells no stream: name it"}}
	}
	metadata := map[string]string{"generator": "glowplug, from rhcos.json"}
	if !modified.IsZero() {
		metadata["last-modified"] = modified.Format(time.RFC3339)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(struct {
		Stream        string         `json:"stream"`
		Metadata      any            `json:"metadata"`
		Architectures map[string]any `json:"architectures"`
	}{stream, metadata, architectures})
	if err != nil {
		return nil, err
	}
	return Parse(buf.Bytes())
}

// legacy reads a document of the older form, and makes the member of its architecture
// of it.
func (r *reader) legacy(data []byte) (arch string, old legacyDocument, built map[string]any) {
	if len(data) > MaxDocument {
		r.bad("", "has %d bytes, more than the %d that a document may have", len(data), MaxDocument)
		return
	}
	tree, err := walk(data, nil)
	if err != nil {
		r.bad("", "%v", err)
		return
	}
	top := r.object("", member{tree, true})
	var all map[string]json.RawMessage
	r.typed("", data, &old)
	r.typed("", data, &all)
	r.name("buildid", r.text("buildid", of(top, "buildid"), true))
	r.location("baseURI", r.text("baseURI", of(top, "baseURI"), true))
	if arch = old.architecture(); arch == "" && len(r.problems) == 0 {
		r.bad("images", "no image is named after an architecture")
	}
	return arch, old, r.fromLegacy(&old, arch, all)
}

// architecture is the one that the images are named after.
func (old *legacyDocument) architecture() string {
	for _, name := range slices.Sorted(maps.Keys(old.Images)) {
		var image legacyImage
		if json.Unmarshal(old.Images[name], &image) == nil {
			if m := afterArch.FindStringSubmatch(image.Path); m != nil {
				return m[1]
			}
		}
	}
	return ""
}

// fromLegacy makes the architecture's member of stream metadata.
func (r *reader) fromLegacy(old *legacyDocument, arch string, all map[string]json.RawMessage) map[string]any {
	artifacts := map[string]map[string]any{} // artifact -> format -> roles
	rest := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(old.Images)) {
		var image legacyImage
		r.typed(child("images", name), old.Images[name], &image)
		place, ok := old.place(name, image.Path, arch)
		if !ok {
			rest[name] = old.Images[name]
			continue
		}
		if artifacts[place.artifact] == nil {
			artifacts[place.artifact] = map[string]any{}
		}
		roles, _ := artifacts[place.artifact][place.format].(map[string]any)
		if roles == nil {
			roles = map[string]any{}
		}
		file := map[string]any{"location": old.BaseURI + image.Path, "sha256": image.SHA256}
		for key, value := range map[string]string{
			"uncompressed-sha256": image.UncompressedSHA256, "size": string(image.Size),
			"uncompressed-size": string(image.UncompressedSize),
		} {
			if value != "" && strings.HasSuffix(key, "size") {
				file[key] = json.Number(value)
			} else if value != "" {
				file[key] = value
			}
		}
		if _, live := legacyRoles["live-"+name]; live {
			file[legacyMember] = name
		}
		roles[place.role] = file
		artifacts[place.artifact][place.format] = roles
	}
	built := map[string]any{}
	listed := map[string]any{}
	for name, formats := range artifacts {
		listed[name] = map[string]any{"release": old.BuildID, "formats": formats}
	}
	built["artifacts"] = listed
	if images := old.cloudImages(); len(images) > 0 {
		built["images"] = images
	}
	if old.Azure.URL != "" {
		built["rhel-coreos-extensions"] = map[string]any{"azure-disk": map[string]string{"release": old.BuildID,
			"url": old.Azure.URL}}
	}
	kept := map[string]any{}
	for key, value := range all {
		if !slices.Contains([]string{"baseURI", "buildid", "images", "amis"}, key) {
			kept[key] = value
		}
	}
	if len(rest) > 0 {
		kept["images"] = rest
	}
	if len(kept) > 0 {
		built[leftover] = kept
	}
	return built
}

// place is where an image of the older form belongs; ok is false where that is
// nowhere.
func (old *legacyDocument) place(name, path, arch string) (place legacyRole, ok bool) {
	if place, ok = legacyRoles[name]; ok {
		return place, true
	}
	if place, ok = legacyRoles["live-"+name]; ok {
		_, live := old.Images["live-"+name]
		return place, !live
	}
	m := afterArch.FindStringSubmatch(path)
	switch {
	case name == "ostree" || m == nil || m[1] != arch || m[2] == "":
		return legacyRole{}, false
	case name == "metal4k":
		return legacyRole{"metal", "4k." + m[2], Disk}, true
	}
	return legacyRole{name, m[2], Disk}, true
}

// cloudImages are the images that lie in clouds.
func (old *legacyDocument) cloudImages() map[string]any {
	images := map[string]any{}
	if len(old.AMIs) > 0 {
		regions := map[string]any{}
		for region, ami := range old.AMIs {
			regions[region] = map[string]string{"release": old.BuildID, "image": ami.HVM}
		}
		images["aws"] = map[string]any{"regions": regions}
	}
	if old.GCP.Image != "" {
		project := old.GCP.Project
		if project == "" {
			project = "rhcos-cloud" // where they all were
		}
		images["gcp"] = map[string]string{"release": old.BuildID, "project": project, "name": old.GCP.Image}
	}
	return images
}
