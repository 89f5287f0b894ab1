package console

import (
	"fmt"
	"net/http"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

const (
	// maxReceivers is how many hosts of a config are named.
	maxReceivers = 100
	// largeSource is the size in bytes from which on a textarea is slow: the editor takes its place at once.
	largeSource = 50 << 10
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
	// Receivers are hosts that receive the config, and Cut is true where there are more.
	Receivers []string
	Cut       bool
	Events    []v1.Event
}

// config shows one config and its form, which may come with what the user has written (POST).
func (s *Server) config(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	stored, err := p.storedConfig(namespace, name)
	if err != nil {
		p.failConfig(w, err)
		return
	}
	if r.Method == http.MethodPost {
		form, err := readConfigForm(w, r)
		if err != nil {
			p.failConfig(w, err)
			return
		}
		p.showConfig(w, &configPage{Stored: stored, Form: form})
		return
	}
	if stored == nil {
		p.missingConfig(w)
		return
	}
	p.showConfig(w, &configPage{Stored: stored, Form: stored.form()})
}

// failConfig says why the API has refused what the user asked for.
func (p *page) failConfig(w http.ResponseWriter, err error) {
	p.Section = "configs"
	p.fail(w, "IgnitionConfig "+p.request.PathValue("ns")+"/"+p.request.PathValue("name"), err)
}

// missingConfig says that there is no such config. A page that is open shows it in one of its parts.
func (p *page) missingConfig(w http.ResponseWriter) {
	namespace, name := p.request.PathValue("ns"), p.request.PathValue("name")
	if p.request.Header.Get(partsHeader) != "" {
		p.show(w, "config", &configPage{IsGone: true, Form: &configForm{Namespace: namespace, Name: name}})
		return
	}
	p.failConfig(w, p.get(kinds.IgnitionConfigs, namespace, name, nil, nil))
}

// showConfig shows the page of a config.
func (p *page) showConfig(w http.ResponseWriter, d *configPage) {
	namespace, name := d.Form.Namespace, d.Form.Name
	p.Title, p.Section = namespace+"/"+name, "configs"
	verb, object := "create", ""
	if d.Stored != nil {
		verb, object = "patch", name
		if d.Stored.isHidden() {
			d.Fixed = "The source is confidential: to read and to change it needs the verb get on ignitionconfigs/source."
		}
		p.describeConfig(d)
	}
	if !p.can(verb, namespace, object) {
		d.ReadOnly = fmt.Sprintf("You may not save it: that needs the verb %s on ignitionconfigs in the namespace %s.", verb,
			namespace)
	}
	p.show(w, "config", d)
}

// describeConfig adds what is known beside the object.
func (p *page) describeConfig(d *configPage) {
	namespace, name := d.Form.Namespace, d.Form.Name
	if rows, _, err := p.rows(kinds.IgnitionConfigs, namespace, name, 1); err == nil && len(rows) > 0 {
		d.Hosts, d.Match = rows[0]["hosts"], rows[0]["match"]
	}
	if p.Wants("hosts") && d.Hosts != "0" && d.Hosts != "0/0" {
		p.receivers(d)
	}
	events := &v1.EventList{}
	if p.Wants("events") && p.get(kinds.Events, namespace, "", eventsOf("IgnitionConfig", name), events) == nil {
		d.Events = newestEvents(events.Items)
	}
}

// receivers names the hosts that receive the config now, as far as the user may list them.
func (p *page) receivers(d *configPage) {
	names := p.namespaces(kinds.BareMetalHosts)
	if len(names) == 1 && names[0] == "" {
		names = p.server.opts.Live.Namespaces()
	}
	ref := d.Form.Namespace + "/" + d.Form.Name
	for _, namespace := range names[:min(len(names), maxNamespacesRead)] {
		rows, _, _ := p.rows(kinds.BareMetalHosts, namespace, "", maxRows) // the count says how many there are
		for _, row := range rows {
			if row["config"] != ref {
				continue
			}
			if len(d.Receivers) >= maxReceivers {
				d.Cut = true
				return
			}
			d.Receivers = append(d.Receivers, namespace+"/"+row["name"])
		}
	}
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

// IsNew is true for a config that is not stored.
func (d *configPage) IsNew() bool { return d.Stored == nil }

// IsLarge is true for a source that a textarea is slow with.
func (d *configPage) IsLarge() bool { return len(d.Form.Source) > largeSource }

// IsOld is true where machines are served the result of an older source.
func (d *configPage) IsOld() bool {
	status := &d.Stored.Status
	return status.CompiledGeneration != 0 && status.CompiledGeneration < status.ObservedGeneration
}
