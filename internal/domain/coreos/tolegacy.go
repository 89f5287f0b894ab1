package coreos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	out, members := d.leftovers(architecture)
	images := map[string]any{}
	if kept, ok := out["images"].(map[string]any); ok {
		images = kept
	}
	for _, file := range listed {
		kept := members(file)
		name, named := kept[legacyMember].(string)
		if !named {
			name = legacyName(file)
		}
		if _, twice := images[name]; twice {
			continue // of several formats the older form has one
		}
		image := map[string]any{"path": strings.TrimPrefix(file.URLs[0], base), "sha256": file.SHA256}
		if file.UncompressedSHA256 != "" {
			image["uncompressed-sha256"] = file.UncompressedSHA256
		}
		for _, key := range []string{"size", "uncompressed-size"} {
			if size, ok := kept[key].(json.Number); ok {
				image[key] = size
			}
		}
		images[name] = image
	}
	out["images"], out["baseURI"], out["buildid"] = images, base, listed[0].Release
	if metal := arch.Artifacts["metal"].Release; metal != "" {
		out["buildid"] = metal
	}
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
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// leftovers are what FromLegacy has kept of an architecture, and the way to the
// members of a file that the library has no type for.
func (d *Document) leftovers(architecture string) (kept map[string]any, file func(Listed) map[string]any) {
	var all map[string]any
	dec := json.NewDecoder(bytes.NewReader(d.Raw))
	dec.UseNumber()
	_ = dec.Decode(&all) // it was parsed before
	down := func(at map[string]any, path ...string) map[string]any {
		for _, key := range path {
			at, _ = at[key].(map[string]any)
		}
		return at
	}
	kept = down(all, "architectures", architecture, leftover)
	if kept == nil {
		kept = map[string]any{}
	}
	return kept, func(l Listed) map[string]any {
		return down(all, "architectures", architecture, "artifacts", l.Artifact, "formats", l.Format, l.Role)
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
