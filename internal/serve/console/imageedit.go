package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/wording"
)

// imageFields are the text fields of the form of an image. The one of kernelArgs has an argument on each line.
var imageFields = map[string]func(*v1.ISCSICdromSpec) *string{
	"url":            func(s *v1.ISCSICdromSpec) *string { return &s.URL },
	"sha256":         func(s *v1.ISCSICdromSpec) *string { return &s.SHA256 },
	"isoFile":        func(s *v1.ISCSICdromSpec) *string { return &s.ISOFile },
	"stream":         func(s *v1.ISCSICdromSpec) *string { return &s.Stream.Name },
	"release":        func(s *v1.ISCSICdromSpec) *string { return &s.Stream.Release },
	"architecture":   func(s *v1.ISCSICdromSpec) *string { return &s.Stream.Architecture },
	"format":         func(s *v1.ISCSICdromSpec) *string { return &s.Stream.Format },
	"update":         func(s *v1.ISCSICdromSpec) *string { return &s.Stream.Update },
	"description":    func(s *v1.ISCSICdromSpec) *string { return &s.Description },
	"version":        func(s *v1.ISCSICdromSpec) *string { return &s.Version },
	"ignitionConfig": func(s *v1.ISCSICdromSpec) *string { return &s.IgnitionConfig },
	"access":         func(s *v1.ISCSICdromSpec) *string { return &s.Access },
	"transport":      func(s *v1.ISCSICdromSpec) *string { return &s.Transport },
}

// imageForm is what the template of the form of an image shows.
type imageForm struct {
	Title, Action, Back string
	IsNew               bool
	Fields              map[string]string
	Namespaces          []string
	Streams             []streamRow
}

// imageNew shows the form of a new image and, once it is filled in, what it does.
func (s *Server) imageNew(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "images"
	form := &imageForm{Title: "New image", Action: Prefix + "images/new", Back: Prefix + "images", IsNew: true}
	if r.FormValue("review") == "" {
		form.show(w, p, &v1.ISCSICdromSpec{})
		return
	}
	image := &v1.ISCSICdrom{
		TypeMeta: metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: strings.TrimSpace(r.FormValue("name")), Namespace: strings.TrimSpace(r.FormValue("namespace")),
		},
	}
	setImageSpec(&image.Spec, r.FormValue)
	ref := image.Namespace + "/" + image.Name
	c := &change{
		Title: "Make the image " + ref, Button: "Make it", Back: form.again(r), Fields: sent(r),
		What: "ISCSICdrom " + ref + " is made.", Done: objectURL("images", image.Namespace, image.Name),
		Apply:   []any{applied("ISCSICdrom", image)},
		Command: "echo " + quoted(jsonText(applied("ISCSICdrom", image))) + " | kubectl apply -f -",
		Request: client.Request{
			Method: http.MethodPost, Resource: kinds.ISCSICdroms, Namespace: image.Namespace, Body: image,
			Query: url.Values{"fieldManager": {fieldManager}, "fieldValidation": {"Strict"}},
		},
	}
	if takesUploads(&image.Spec) {
		c.What += " Its file is uploaded on the next page."
	}
	p.review(w, c)
}

// imageChange shows and makes a change of an image: edit or delete.
func (s *Server) imageChange(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	ref, image := namespace+"/"+name, &v1.ISCSICdrom{}
	p.Section = "images"
	if err := p.get(kinds.ISCSICdroms, namespace, name, nil, image); err != nil {
		p.fail(w, "ISCSICdrom "+ref, err)
		return
	}
	at := objectURL("images", namespace, name)
	form := &imageForm{Title: "Change the image " + ref, Action: at + "/edit", Back: at}
	switch change := r.PathValue("change"); {
	case change == "delete":
		c := imageDeletion(image)
		if n := hostsOf(p)[model.Ref{Namespace: namespace, Name: name}].Hosts; n > 0 {
			c.Notes = append(c.Notes, "It is the image of "+wording.Count(n, "host", "hosts")+".")
		}
		c.Back = at
		p.review(w, c)
	case change != "edit":
		http.NotFound(w, r)
	case r.FormValue("review") == "":
		form.show(w, p, &image.Spec)
	default:
		c := imageEdit(image, r.FormValue)
		c.Back, c.Done, c.Fields = form.again(r), at, sent(r)
		p.review(w, c)
	}
}

// imageEdit changes the fields of the form, and no other one.
func imageEdit(image *v1.ISCSICdrom, field func(string) string) *change {
	next := image.DeepCopy()
	setImageSpec(&next.Spec, field)
	patch, err := jsonpatch.CreateMergePatch([]byte(jsonText(image.Spec)), []byte(jsonText(next.Spec)))
	if err != nil {
		panic(err) // of two objects
	}
	ref := image.Namespace + "/" + image.Name
	return &change{
		Title: "Change the image " + ref, Button: "Change it", What: "spec of ISCSICdrom " + ref + " is changed.",
		Request: mergePatch(kinds.ISCSICdroms, image.Namespace, image.Name, map[string]any{
			"spec": json.RawMessage(patch), "metadata": map[string]any{"resourceVersion": image.ResourceVersion},
		}),
		Command: fmt.Sprintf("kubectl patch iscsicdrom %s -n %s --type merge -p %s", quoted(image.Name),
			quoted(image.Namespace), quoted(`{"spec":`+string(patch)+`}`)),
		Apply: []any{applied("ISCSICdrom", next)},
	}
}

// imageDeletion deletes an image and its file.
func imageDeletion(image *v1.ISCSICdrom) *change {
	ref := image.Namespace + "/" + image.Name
	c := &change{
		Title: "Delete the image " + ref, Button: "Delete", Done: Prefix + "images",
		What:    "ISCSICdrom " + ref + " is deleted, with the file that was uploaded or downloaded for it.",
		Command: "kubectl delete iscsicdrom " + quoted(image.Name) + " -n " + quoted(image.Namespace),
		Delete:  []any{applied("ISCSICdrom", image)},
		Request: client.Request{
			Method: http.MethodDelete, Resource: kinds.ISCSICdroms, Namespace: image.Namespace, Name: image.Name,
		},
	}
	if image.Spec.ISOFile != "" {
		c.What = "ISCSICdrom " + ref + " is deleted. The file " + image.Spec.ISOFile + " stays in the ISO directory."
	}
	for _, reader := range image.Status.Subscribers {
		c.Notes = append(c.Notes, strings.TrimSpace(reader.Name+" "+reader.InitiatorIQN)+" reads it now.")
	}
	return c
}

// setImageSpec sets the fields of a form. The server checks them, such as that there is one source.
func setImageSpec(spec *v1.ISCSICdromSpec, field func(string) string) {
	if spec.Stream == nil {
		spec.Stream = &v1.StreamImage{}
	}
	for name, of := range imageFields {
		*of(spec) = strings.TrimSpace(field(name))
	}
	if spec.Stream.Name == "" {
		spec.Stream = nil
	}
	spec.KernelArgs = strings.FieldsFunc(field("kernelArgs"), func(c rune) bool { return c == '\n' || c == '\r' })
	if wants := field("noDefaultKernelArgs") == ""; wants != spec.WantsDefaultKernelArgs() {
		spec.DefaultKernelArgs = &wants
	}
}

// fieldsOfImage fills the form in.
func fieldsOfImage(spec v1.ISCSICdromSpec) map[string]string {
	fields := map[string]string{"kernelArgs": strings.Join(spec.KernelArgs, "\n")}
	if !spec.WantsDefaultKernelArgs() {
		fields["noDefaultKernelArgs"] = "yes"
	}
	if spec.Stream == nil {
		spec.Stream = &v1.StreamImage{}
	}
	for name, of := range imageFields {
		fields[name] = *of(&spec)
	}
	return fields
}

// show shows the form with the fields of an image, or those that were sent before.
func (f *imageForm) show(w http.ResponseWriter, p *page, spec *v1.ISCSICdromSpec) {
	p.Title, f.Fields = f.Title, fieldsOfImage(*spec)
	for name := range p.request.Form {
		f.Fields[name] = p.request.FormValue(name)
	}
	f.Namespaces = p.server.opts.Live.Namespaces()
	f.Streams, _ = streamsOf(p, nil)
	p.show(w, "imageedit", f)
}

// again is the address of the form with what was filled in.
func (f *imageForm) again(r *http.Request) string {
	fields := sent(r)
	fields.Del("review")
	return f.Action + "?" + fields.Encode()
}

// sent has the fields of a form once: a confirmation has those of its address as well.
func sent(r *http.Request) url.Values {
	fields := url.Values{}
	for name := range r.Form {
		fields.Set(name, r.Form.Get(name))
	}
	return fields
}
