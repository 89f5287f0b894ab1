package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/wording"
	"glowplug/internal/serve/console/live"
)

// imagePage is what the template of an image shows.
type imagePage struct {
	imageRow
	Arguments []explain.Argument
	Listed    []live.Cell // some of its hosts, those first that need attention
	Events    []v1.Event
}

// image shows one image.
func (s *Server) image(w http.ResponseWriter, r *http.Request, p *page) {
	cdrom := p.imageOf(w, r)
	if cdrom == nil {
		return
	}
	p.Title = cdrom.Namespace + "/" + cdrom.Name
	data := &imagePage{imageRow: rowOf(cdrom, hostsOf(p)), Arguments: explain.Arguments(model.ImageFrom(cdrom), nil)}
	data.Transfer = transferOf(p, cdrom)
	slices.SortStableFunc(data.Hosts, func(a, b live.Cell) int {
		switch {
		case a.Fails() == b.Fails():
			return 0
		case a.Fails():
			return -1
		}
		return 1
	})
	data.Listed = data.Hosts[:min(len(data.Hosts), 50)]
	events := &v1.EventList{}
	if p.get(kinds.Events, cdrom.Namespace, "", eventsOf("ISCSICdrom", cdrom.Name), events) == nil {
		data.Events = newestEvents(events.Items)
	}
	p.show(w, "image", data)
}

// imageOf reads the image of a request; nil: it is answered with the reason.
func (p *page) imageOf(w http.ResponseWriter, r *http.Request) *v1.ISCSICdrom {
	p.Section = "images"
	cdrom, namespace, name := &v1.ISCSICdrom{}, r.PathValue("ns"), r.PathValue("name")
	if err := p.get(kinds.ISCSICdroms, namespace, name, nil, cdrom); err != nil {
		p.fail(w, "ISCSICdrom "+namespace+"/"+name, err)
		return nil
	}
	return cdrom
}

// Facts are what is known of the image and how it is served. Those without a value are left out.
func (d *imagePage) Facts() [][2]string {
	spec, status := &d.Spec, &d.Status
	facts := [][2]string{
		{"source", d.Source()}, {"sha256", status.SHA256}, {"volume", status.VolumeID}, {"distribution", status.Distro},
		{"architectures", strings.Join(status.Architectures, ", ")}, {"release", status.ServedRelease},
		{"release wanted", status.Release}, {"reads Ignition up to", status.MaxIgnition}, {"target", status.TargetIQN},
		{"portal", status.PortalIP}, {"file", status.ISOPath}, {"transport", spec.Transport}, {"access", spec.Access},
		{"config", spec.IgnitionConfig}, {"version", spec.Version}, {"description", spec.Description},
		{"files served with changes", strings.Join(status.PatchedFiles, ", ")},
	}
	if status.ISOSize > 0 {
		facts = append(facts, [2]string{"size", bytesText(status.ISOSize)})
	}
	for _, file := range status.Files {
		facts = append(facts, [2]string{file.Role, bytesText(file.Size) + ", sha256 " + file.SHA256})
	}
	return slices.DeleteFunc(facts, func(fact [2]string) bool { return fact[1] == "" })
}

// imageNew shows the form of a new image and, once it is filled in, what it does. The server checks the fields, such
// as that there is one source.
func (s *Server) imageNew(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "New image", "images"
	fields := url.Values{} // once: a confirmation has them in its address and in its body
	for _, name := range []string{"namespace", "name", "url", "sha256", "isoFile", "kernelArgs"} {
		fields.Set(name, strings.TrimSpace(r.FormValue(name)))
	}
	if r.FormValue("review") == "" {
		p.show(w, "imagenew", map[string]any{"Fields": fields, "Namespaces": p.namespaceNames(kinds.ISCSICdroms)})
		return
	}
	image := &v1.ISCSICdrom{
		ObjectMeta: metav1.ObjectMeta{Name: fields.Get("name"), Namespace: fields.Get("namespace")},
		Spec: v1.ISCSICdromSpec{
			URL: fields.Get("url"), SHA256: fields.Get("sha256"), ISOFile: fields.Get("isoFile"),
			KernelArgs: strings.Fields(fields.Get("kernelArgs")),
		},
	}
	ref, object := image.Namespace+"/"+image.Name, applied("ISCSICdrom", image)
	c := &change{
		Title: "Make the image " + ref, Button: "Make it", What: "ISCSICdrom " + ref + " is made.",
		Apply: []any{object}, Command: "echo " + quoted(jsonText(object)) + " | kubectl apply -f -",
		Request: creation(kinds.ISCSICdroms, image.Namespace, image),
		Back:    Prefix + "images/new?" + fields.Encode(), Done: objectURL("images", image.Namespace, image.Name),
	}
	c.Notes = p.newNamespace(image.Namespace)
	if (&imageRow{ISCSICdrom: image}).TakesUploads() {
		c.What += " Its file is uploaded on the next page."
	}
	p.review(w, c)
}

// imageDelete shows and makes the deletion of an image and its file.
func (s *Server) imageDelete(w http.ResponseWriter, r *http.Request, p *page) {
	image := p.imageOf(w, r)
	if image == nil {
		return
	}
	ref, row := image.Namespace+"/"+image.Name, rowOf(image, hostsOf(p))
	c := &change{
		Title: "Delete the image " + ref, Button: "Delete",
		What:    "ISCSICdrom " + ref + " is deleted, with the file that was uploaded or downloaded for it.",
		Command: "kubectl delete iscsicdrom " + quoted(image.Name) + " -n " + quoted(image.Namespace),
		Delete:  []any{applied("ISCSICdrom", image)},
		Back:    objectURL("images", image.Namespace, image.Name), Done: Prefix + "images", Base: baseOf(image),
		Request: client.Request{
			Method: http.MethodDelete, Resource: kinds.ISCSICdroms, Namespace: image.Namespace, Name: image.Name,
			Body: map[string]any{"preconditions": map[string]any{"uid": image.UID}},
		},
	}
	if image.Spec.ISOFile != "" {
		c.What = "ISCSICdrom " + ref + " is deleted. The file " + image.Spec.ISOFile + " stays in the ISO directory."
	}
	for _, reader := range image.Status.Subscribers {
		c.Notes = append(c.Notes, strings.TrimSpace(reader.Name+" "+reader.InitiatorIQN)+" reads it now.")
	}
	if n := len(row.Hosts); n > 0 {
		c.Notes = append(c.Notes, "It is the image of "+wording.Count(n, "host", "hosts")+".")
	}
	p.review(w, c)
}
