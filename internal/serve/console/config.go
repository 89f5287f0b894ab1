package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// configPage is what the template of a config shows.
type configPage struct {
	// Stored is the config; nil: it is a new one.
	Stored *storedConfig
	Form   *configForm
	// IsGone is true for a page that is open without a stored config, since that was deleted for example.
	IsGone bool
	// ReadOnly says why nothing can be changed, and Fixed why the source cannot.
	ReadOnly, Fixed string
	// Problem says why the form is not saved.
	Problem string
	// Hosts is how many hosts the config is for, and Match says which machines, in the words of kubectl.
	Hosts, Match string
	Events       []v1.Event
}

// config shows one config and its form, which may come with what the user has written (POST).
func (s *Server) config(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	stored, err := p.storedConfig(namespace, name)
	d := &configPage{Stored: stored}
	switch {
	case err != nil:
	case r.Method == http.MethodPost:
		d.Form, err = p.readConfigForm(w, r)
	case stored != nil:
		d.Form = stored.form()
	case r.Header.Get(partsHeader) != "":
		d.IsGone, d.Form = true, &configForm{Namespace: namespace, Name: name}
	default:
		err = p.get(kinds.IgnitionConfigs, namespace, name, nil, nil) // which says that there is none
	}
	if err != nil {
		p.failConfig(w, err)
		return
	}
	p.showConfig(w, d)
}

// failConfig says why the API has refused what the user asked for.
func (p *page) failConfig(w http.ResponseWriter, err error) {
	p.Section = "configs"
	p.fail(w, "IgnitionConfig "+p.request.PathValue("ns")+"/"+p.request.PathValue("name"), err)
}

// showConfig shows the page of a config.
func (p *page) showConfig(w http.ResponseWriter, d *configPage) {
	namespace, name := d.Form.Namespace, d.Form.Name
	p.Title, p.Section = namespace+"/"+name, "configs"
	verb, object := "create", ""
	if d.Stored != nil {
		verb, object = "patch", name
		if d.Stored.Spec.Confidential && d.Stored.Spec.Config == redacted {
			d.Fixed = "The source is confidential: to read and to change it needs the verb get on ignitionconfigs/source."
		}
		if rows, _, err := p.rows(kinds.IgnitionConfigs, namespace, name, 1); err == nil && len(rows) > 0 {
			d.Hosts, d.Match = rows[0]["hosts"], rows[0]["match"]
		}
		events := &v1.EventList{}
		if p.Wants("events") && p.get(kinds.Events, namespace, "", eventsOf("IgnitionConfig", name), events) == nil {
			d.Events = newestEvents(events.Items)
		}
	}
	if !p.can(verb, namespace, object) {
		d.ReadOnly = fmt.Sprintf("You may not save it: that needs the verb %s on ignitionconfigs in the namespace %s.", verb,
			namespace)
	}
	p.show(w, "config", d)
}

// can reports whether the user has a verb on a config.
func (p *page) can(verb, namespace, name string) bool {
	var review struct {
		Status struct{ Allowed bool }
	}
	err := p.ask(p.ctx, client.Request{
		Method: http.MethodPost, Root: "/apis/authorization.k8s.io/v1", Resource: "selfsubjectaccessreviews",
		Body: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]string{
			"verb": verb, "resource": kinds.IgnitionConfigs, "namespace": namespace, "name": name,
		}}},
	}, &review)
	return err == nil && review.Status.Allowed
}

// newConfig asks for what a new config is, and shows its form.
func (s *Server) newConfig(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "New config", "configs"
	field := func(name string) string { return strings.TrimSpace(r.FormValue(name)) }
	form := &configForm{Namespace: field("namespace"), Name: field("name")}
	if form.Namespace == "" || form.Name == "" {
		p.show(w, "newconfig", map[string]any{"Namespaces": p.namespaceNames(kinds.IgnitionConfigs), "Form": form})
		return
	}
	if p.get(kinds.IgnitionConfigs, form.Namespace, form.Name, nil, nil) == nil { // there is one
		http.Redirect(w, r, objectURL("configs", form.Namespace, form.Name), http.StatusSeeOther)
		return
	}
	typ, format := v1.TypeIgnition, field("format")
	switch format {
	case v1.FormatKickstart:
		typ, form.Source = v1.TypeKickstart, "# A kickstart\n"
	case v1.FormatIgnition:
		form.Source = "{\"ignition\": {\"version\": \"3.4.0\"}}\n"
	default:
		format, form.Source = v1.FormatButane, "variant: fcos\nversion: 1.5.0\n"
	}
	form.Rest = "spec:\n  type: " + typ + "\n  format: " + format + "\n  selector: {}\n"
	p.showConfig(w, &configPage{Form: form})
}

// compileConfig answers what the API says of a form whose text is being written.
func (s *Server) compileConfig(w http.ResponseWriter, r *http.Request, p *page) {
	var object map[string]any
	var answer []byte
	form, err := p.readConfigForm(w, r)
	if err == nil {
		object, err = form.object(nil)
	}
	if err == nil {
		err = p.ask(p.ctx, client.Request{Method: http.MethodPost, Path: "/api/v1/compile", Body: object}, &answer)
	}
	status := http.StatusOK
	if err != nil {
		status = cmp.Or(client.Code(err), http.StatusBadRequest)
		answer = []byte(jsonText(map[string]string{"problem": sentence(err)}))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may have gone away
}

// maxRendered bounds what is shown of a rendered config.
const maxRendered = 1 << 20

// configRendered shows what machines receive in the end.
func (s *Server) configRendered(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	p.Title, p.Section = namespace+"/"+name+" rendered", "configs"
	var text []byte
	header, err := s.opts.Client.Do(p.ctx, &client.Request{
		Resource: kinds.IgnitionConfigs, Namespace: namespace, Name: name, Subresource: "rendered",
	}, &text)
	if err != nil {
		p.failConfig(w, err)
		return
	}
	size := bytesText(int64(len(text)))
	var indented bytes.Buffer
	if json.Indent(&indented, text, "", "  ") == nil {
		text = indented.Bytes()
	}
	p.show(w, "configrendered", map[string]any{
		"Namespace": namespace, "Name": name, "Size": size, "IsCut": len(text) > maxRendered,
		"Text":     visibleLines(string(text[:min(len(text), maxRendered)])),
		"Warnings": client.Warnings(header), "IsOld": header.Get("X-Glowplug-Stale") == "true",
		"Command": "glowplug render " + quoted(name) + " -n " + quoted(namespace),
	})
}
