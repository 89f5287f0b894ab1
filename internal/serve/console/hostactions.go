package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// hostChange shows and makes one of the changes of a host: rearm, disk, labels or image.
func (s *Server) hostChange(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	host := &v1.BareMetalHost{}
	p.Section = "fleet"
	if err := p.get(kinds.BareMetalHosts, namespace, name, nil, host); err != nil {
		p.fail(w, "BareMetalHost "+namespace+"/"+name, err)
		return
	}
	build := hostChanges[r.PathValue("change")]
	if build == nil {
		http.NotFound(w, r)
		return
	}
	c := build(host, r.FormValue)
	c.Back, c.Base = objectURL("hosts", namespace, name), baseOf(host)
	p.review(w, c)
}

// hostChanges makes the changes of a host from the fields of a form.
var hostChanges = map[string]func(host *v1.BareMetalHost, field func(string) string) *change{
	"rearm": rearmChange, "disk": diskChange, "labels": labelsChange, "image": imageChange,
}

// rearmChange has the host boot its image once more.
func rearmChange(host *v1.BareMetalHost, _ func(string) string) *change {
	value := time.Now().UTC().Format(time.RFC3339)
	name := host.Namespace + "/" + host.Name
	c := &change{
		Title: "Arm " + name + " again", Button: "Arm it",
		What: fmt.Sprintf("%s boots %s at its next boot, and then its disk again. Restart the machine yourself. "+
			"That may erase its disks.", name, bootText(host)),
		Request: mergePatch(kinds.BareMetalHosts, host.Namespace, host.Name, map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1.AnnotationRearm: value}},
		}),
		Command: "glowplug reinstall " + quoted(name),
	}
	if host.Spec.BootMode == v1.BootForever {
		c.Notes = append(c.Notes, "Its bootMode is forever: it boots its image at every boot, and nothing has to be armed.")
	}
	if device := host.Spec.RootDeviceHints.Device(); device != "" {
		c.Notes = append(c.Notes, "It installs on "+device+".")
	}
	return c
}

func bootText(host *v1.BareMetalHost) string {
	switch host.Spec.Image {
	case "":
		return "its disk, or a script that it or its namespace has"
	case v1.ImageLocalBoot:
		return "its disk (spec.image is " + v1.ImageLocalBoot + ")"
	}
	return "image " + host.Spec.Image
}

// diskChange has the host boot its disk from now on.
func diskChange(host *v1.BareMetalHost, _ func(string) string) *change {
	c := imageChange(host, func(string) string { return v1.ImageLocalBoot })
	c.Title, c.Button = "Have "+host.Namespace+"/"+host.Name+" boot its disk", "Boot the disk"
	return c
}

// imageChange sets the image of the host.
func imageChange(host *v1.BareMetalHost, field func(string) string) *change {
	image := strings.TrimSpace(field("image"))
	next := host.DeepCopy()
	next.Spec.Image = image
	var value any = image
	if image == "" {
		value = nil
	}
	name := host.Namespace + "/" + host.Name
	return &change{
		Title: "Change the image of " + name, Button: "Change the image",
		What: fmt.Sprintf("%s boots %s; now it boots %s.", name, bootText(next), bootText(host)),
		Request: mergePatch(kinds.BareMetalHosts, host.Namespace, host.Name, map[string]any{
			"spec": map[string]any{"image": value}, "metadata": map[string]any{"resourceVersion": host.ResourceVersion},
		}),
		Command: fmt.Sprintf(`kubectl patch bmh %s -n %s --type merge -p %s`, quoted(host.Name), quoted(host.Namespace),
			quoted(fmt.Sprintf(`{"spec":{"image":%q}}`, image))),
		Apply: []any{applied("BareMetalHost", next)}, Fields: url.Values{"image": {image}},
	}
}

// labelsChange sets the labels of the host, of which each line is one: key=value.
func labelsChange(host *v1.BareMetalHost, field func(string) string) *change {
	next, patch := host.DeepCopy(), map[string]any{}
	next.Spec.Labels = map[string]string{}
	text := field("labels")
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "" {
			next.Spec.Labels[key] = value
			patch[key] = value
		}
	}
	for key := range host.Spec.Labels {
		if _, ok := next.Spec.Labels[key]; !ok {
			patch[key] = nil
		}
	}
	name := host.Namespace + "/" + host.Name
	return &change{
		Title: "Change the labels of " + name, Button: "Change the labels",
		What: fmt.Sprintf("spec.labels of %s become: %s.", name, labelsText(next.Spec.Labels)),
		Request: mergePatch(kinds.BareMetalHosts, host.Namespace, host.Name, map[string]any{
			"spec": map[string]any{"labels": patch}, "metadata": map[string]any{"resourceVersion": host.ResourceVersion},
		}),
		Command: fmt.Sprintf(`kubectl patch bmh %s -n %s --type merge -p %s`, quoted(host.Name), quoted(host.Namespace),
			quoted(fmt.Sprintf(`{"spec":{"labels":%s}}`, jsonText(patch)))),
		Apply: []any{applied("BareMetalHost", next)}, Fields: url.Values{"labels": {text}},
		Prediction: url.Values{"replace": {"true"}},
	}
}

// labelsText writes labels in the order of their keys.
func labelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return "none"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ", ")
}
