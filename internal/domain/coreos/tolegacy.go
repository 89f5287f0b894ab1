package coreos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/stream-metadata-go/stream"
)

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
