package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/serve/console/live"
)

// maxCommand bounds a command that has the change itself, in bytes.
const maxCommand = 2000

// saveConfig shows what a form does and, once that is confirmed, saves it.
func (s *Server) saveConfig(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "configs"
	form, err := p.readConfigForm(w, r)
	var stored *storedConfig
	if err == nil {
		stored, err = p.storedConfig(form.Namespace, form.Name)
	}
	if err != nil {
		p.failConfig(w, err)
		return
	}
	if form.Base != stored.Base() {
		p.showConflict(w, form, stored)
		return
	}
	c, err := configSaving(form, stored)
	if err == nil && r.PostFormValue("confirmed") == "" {
		c.Unconfirmed = true
		err = p.rehearse(c)
	}
	if err != nil {
		p.showConfig(w, &configPage{Stored: stored, Form: form, Problem: p.whyRefused(form, err)})
		return
	}
	c.Why = func(err error) string { return p.whyRefused(form, err) }
	p.review(w, c)
}

// whyRefused says why the API has not saved a form.
func (p *page) whyRefused(form *configForm, err error) string {
	if now, failure := p.storedConfig(form.Namespace, form.Name); failure == nil && now.Base() != form.Base {
		return "it has been changed at this moment, by somebody else. Save it once more to see both."
	}
	return sentence(err)
}

// rehearse adds to a change of a config what the API says of it in a dry run.
func (p *page) rehearse(c *change) error {
	request, becomes := c.Request, &v1.IgnitionConfig{}
	request.Query = maps.Clone(request.Query)
	request.Query.Set("dryRun", "All")
	header, err := p.server.opts.Client.Do(p.ctx, &request, becomes)
	c.Notes = client.Warnings(header)
	if becomes.Status.Phase == v1.PhaseError {
		c.What += " It does not compile: it is stored with phase " + v1.PhaseError + "."
	}
	return err
}

// configSaving returns the change that a form makes.
func configSaving(form *configForm, stored *storedConfig) (*change, error) {
	next, err := form.object(stored)
	if err != nil {
		return nil, err
	}
	ref, address := form.Namespace+"/"+form.Name, objectURL("configs", form.Namespace, form.Name)
	c := &change{
		Title: "Make the config " + ref, What: "IgnitionConfig " + ref + " is made.", Button: "Save", Edit: address,
		Back: Prefix + "configs", Done: address,
		Fields:     url.Values{"source": {form.Source}, "rest": {form.Rest}, "base": {form.Base}, "confirmed": {"yes"}},
		Apply:      []any{applied("IgnitionConfig", &unstructured.Unstructured{Object: next})},
		Prediction: url.Values{"show": {"true"}},
		Command:    "echo " + quoted(jsonText(next)) + " | kubectl create -f -",
		Request:    creation(kinds.IgnitionConfigs, form.Namespace, next),
	}
	if stored != nil {
		c.Title, c.What, c.Back = "Change the config "+ref, "IgnitionConfig "+ref+" changes.", address
		c.Prediction.Set("replace", "true")
		err = c.patchConfig(form, stored, next)
	}
	if len(c.Command) > maxCommand { // nobody copies it
		c.Command = "kubectl apply -f " + form.Name + ".yaml"
	}
	c.Request.Query = url.Values{"fieldManager": {fieldManager}, "fieldValidation": {"Strict"}}
	return c, err
}

// patchConfig makes c write next over the stored config, if nobody has changed that by then. The resourceVersion does
// not say so: each write of the status changes it.
func (c *change) patchConfig(form *configForm, stored *storedConfig, next map[string]any) error {
	patch, err := jsonpatch.CreateMergePatch(stored.text, []byte(jsonText(next)))
	if err != nil {
		return err
	}
	if string(patch) == "{}" {
		return fmt.Errorf("nothing is changed: %s/%s is stored like that", form.Namespace, form.Name)
	}
	at := quoted(form.Name) + " -n " + quoted(form.Namespace)
	c.Command = "kubectl patch ign " + at + " --type merge -p " + quoted(string(patch))
	was := stored.form()
	c.Differences = append(differenceOf("Changes in the source", was.Source, form.source(stored)),
		differenceOf("Changes in the other fields", was.Rest, restOf(next))...)
	c.Request = mergePatch(kinds.IgnitionConfigs, form.Namespace, form.Name, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": stored.UID},
		{"op": "test", "path": "/metadata/generation", "value": stored.Generation},
		{"op": "replace", "path": "/spec", "value": next["spec"]},
		{"op": "add", "path": "/metadata/labels", "value": next["metadata"].(map[string]any)["labels"]},
	})
	c.Request.Header = map[string]string{"Content-Type": "application/json-patch+json"}
	return nil
}

// showConflict shows that a config is another one than that with which its user began.
func (p *page) showConflict(w http.ResponseWriter, form *configForm, stored *storedConfig) {
	p.Title = form.Namespace + "/" + form.Name
	data := map[string]any{"Form": form}
	writes := p.server.opts.Live.Writes() // the newest first
	last := slices.IndexFunc(writes, func(w live.Write) bool {
		return w.Resource == kinds.IgnitionConfigs && w.Namespace == form.Namespace && w.Name == form.Name
	})
	if last >= 0 && p.may(kinds.IgnitionConfigs, form.Namespace) {
		data["Last"] = writes[last]
	}
	if stored != nil { // else the config has been deleted
		theirs := stored.form()
		data["Theirs"], data["Generation"] = theirs, stored.Generation
		data["Differences"] = append(differenceOf("Source: - theirs, + yours", unixLines(theirs.Source), form.Source),
			differenceOf("Other fields: - theirs, + yours", theirs.Rest, form.Rest)...)
	}
	p.show(w, "conflict", data)
}

// deleteConfig shows and makes the deletion of a config.
func (s *Server) deleteConfig(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "configs"
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	stored, err := p.storedConfig(namespace, name)
	if err == nil && stored == nil {
		err = p.get(kinds.IgnitionConfigs, namespace, name, nil, nil) // which says that there is none
	}
	if err != nil {
		p.failConfig(w, err)
		return
	}
	ref, base := namespace+"/"+name, stored.Base()
	c := &change{
		Title: "Delete the config " + ref, Button: "Delete", Back: objectURL("configs", namespace, name),
		What: "IgnitionConfig " + ref + " is deleted.", Done: Prefix + "configs",
		Command: "kubectl delete ign " + quoted(name) + " -n " + quoted(namespace),
		Delete:  []any{applied("IgnitionConfig", &stored.IgnitionConfig)}, Fields: url.Values{"base": {base}},
		Request: client.Request{
			Method: http.MethodDelete, Resource: kinds.IgnitionConfigs, Namespace: namespace, Name: name,
			Body: map[string]any{"preconditions": map[string]any{"uid": stored.UID}},
		},
	}
	if r.Method != http.MethodPost || r.PostFormValue("base") != base {
		rehearsal := c.Request
		rehearsal.Body = map[string]any{"dryRun": []string{"All"}}
		header, err := s.opts.Client.Do(p.ctx, &rehearsal, nil)
		if err != nil {
			p.failConfig(w, err)
			return
		}
		c.Notes = client.Warnings(header)
		if c.Unconfirmed = r.Method == http.MethodPost; c.Unconfirmed {
			c.Notes = append(c.Notes, "It has been changed since you were asked. This is what its deletion does now.")
		}
	}
	p.review(w, c)
}
