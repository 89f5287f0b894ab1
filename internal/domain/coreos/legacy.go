package coreos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/stream-metadata-go/stream"
)

// leftover is the member of an architecture that keeps what the older form says
// and stream metadata has no place for, so that it can be given back.
const leftover = "rhcos-json"

// legacyRole is the place of an image of the older form in stream metadata.
type legacyRole struct{ artifact, format, role string }

// legacyRoles are the images whose place their name alone tells. Those of the
// installer before 4.6 (iso, kernel, initramfs) take the place of the live ones
// where there are none.
var legacyRoles = map[string]legacyRole{
	"live-iso": {"metal", "iso", Disk}, "live-kernel": {"metal", "pxe", Kernel},
	"live-initramfs": {"metal", "pxe", Initramfs}, "live-rootfs": {"metal", "pxe", Rootfs},
}

// legacyImage is a file: of the older form, with a path below its baseURI, or of stream
// metadata, with a location. The members are in the order of their names.
type legacyImage struct {
	Location           string      `json:"location,omitempty"`
	Path               string      `json:"path,omitempty"`
	Name               string      `json:"rhcos-json-name,omitempty"`
	SHA256             string      `json:"sha256"`
	Size               json.Number `json:"size,omitempty"`
	UncompressedSHA256 string      `json:"uncompressed-sha256,omitempty"`
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
		stream = cmp.Or(stream, "rhcos-"+version[1]+"."+version[2])
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
	text, err := encode(struct {
		Stream        string         `json:"stream"`
		Metadata      any            `json:"metadata"`
		Architectures map[string]any `json:"architectures"`
	}{stream, metadata, architectures}, "  ")
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// legacy reads a document of the older form, and makes the member of its architecture
// of it.
func (r *reader) legacy(data []byte) (arch string, old legacyDocument, built map[string]any) {
	if len(data) > MaxDocument {
		r.bad("", "has %d bytes, more than the %d that a document may have", len(data), MaxDocument)
		return
	}
	tree, err := decode(data)
	if err != nil {
		r.bad("", "%v", err)
		return
	}
	top := member{value: tree, there: true}
	r.object(top)
	var all map[string]json.RawMessage
	r.typed("", data, &old)
	r.typed("", data, &all)
	r.text(top.member("buildid"), true, r.name)
	r.text(top.member("baseURI"), true, r.location)
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
	artifacts := map[string]any{}
	rest := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(old.Images)) {
		var image legacyImage
		r.typed(child("images", name), old.Images[name], &image)
		place, ok := old.place(name, image.Path, arch)
		if !ok {
			rest[name] = old.Images[name]
			continue
		}
		image.Location, image.Path, image.Name = old.BaseURI+image.Path, "", ""
		if _, live := legacyRoles["live-"+name]; live {
			image.Name = name
		}
		nested(artifacts, place.artifact)["release"] = old.BuildID
		nested(artifacts, place.artifact, "formats", place.format)[place.role] = image
	}
	built := map[string]any{"artifacts": artifacts}
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

// nested returns the object under keys. Missing ones are created.
func nested(object map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		next, ok := object[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	return object
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

// Legacy returns the older rhcos.json form of one architecture of a document, for
// clients that do not yet read stream metadata. The older form has one folder for
// all images: that of several servers cannot be written in it.
func (d *Document) Legacy(architecture string) ([]byte, error) {
	arch, ok := d.Stream.Architectures[architecture]
	if !ok {
		return nil, fmt.Errorf("the stream has no architecture %s, only %s", architecture, Few(d.Architectures()))
	}
	listed, err := d.List([]string{architecture}, nil)
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("the stream lists no image for %s", architecture)
	}
	base, err := commonFolder(listed)
	if err != nil {
		return nil, err
	}
	tree, err := decode(d.Raw)
	if err != nil {
		return nil, err
	}
	all, _ := tree.(map[string]any)
	members := nested(all, "architectures", architecture)
	out := nested(members, leftover)
	images := nested(out, "images")
	for _, file := range listed {
		// The library has no type for some members of a file.
		kept := nested(members, "artifacts", file.Artifact, "formats", file.Format, file.Role)
		name, named := kept["rhcos-json-name"].(string)
		if !named {
			name = legacyName(file)
		}
		if _, twice := images[name]; twice {
			continue // of several formats the older form has one
		}
		image := legacyImage{Path: strings.TrimPrefix(file.URLs[0], base), SHA256: file.SHA256,
			UncompressedSHA256: file.UncompressedSHA256}
		image.Size, _ = kept["size"].(json.Number)
		image.UncompressedSize, _ = kept["uncompressed-size"].(json.Number)
		images[name] = image
	}
	out["baseURI"], out["buildid"] = base, listed[0].Release
	if metal := arch.Artifacts["metal"].Release; metal != "" {
		out["buildid"] = metal
	}
	addClouds(out, &arch)
	return encode(out, "    ")
}

// addClouds adds the images that lie in clouds.
func addClouds(out map[string]any, arch *stream.Arch) {
	if aws := arch.Images.Aws; aws != nil {
		amis := map[string]any{}
		for region, image := range aws.Regions {
			amis[region] = map[string]string{"hvm": image.Image}
		}
		out["amis"] = amis
	}
	if gcp := arch.Images.Gcp; gcp != nil && out["gcp"] == nil {
		out["gcp"] = map[string]string{"image": gcp.Name, "project": gcp.Project}
	}
	if x := arch.RHELCoreOSExtensions; x != nil && x.AzureDisk != nil && out["azure"] == nil {
		out["azure"] = map[string]string{"image": x.AzureDisk.URL[strings.LastIndexByte(x.AzureDisk.URL, '/')+1:],
			"url": x.AzureDisk.URL}
	}
}

// legacyName is what an image is called in the older form.
func legacyName(file Listed) string {
	for name, place := range legacyRoles {
		if place == (legacyRole{file.Artifact, file.Format, file.Role}) {
			return name
		}
	}
	if file.Artifact == "metal" && strings.HasPrefix(file.Format, "4k.") {
		return "metal4k"
	}
	return file.Artifact
}

// commonFolder is the URL, with a slash at its end, that all files lie below.
func commonFolder(listed []Listed) (string, error) {
	base := listed[0].URLs[0]
	for _, file := range listed {
		for base != "" && !(strings.HasPrefix(file.URLs[0], base) && strings.HasSuffix(base, "/")) {
			cut := strings.LastIndexByte(strings.TrimSuffix(base, "/"), '/')
			base = base[:cut+1]
		}
	}
	if slices.Contains([]string{"", "http://", "https://"}, base) {
		return "", fmt.Errorf("the images of %s lie on several servers, which the older form has no way to say",
			listed[0].Architecture)
	}
	return base, nil
}
