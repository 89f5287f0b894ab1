package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/client"
	"glowplug/internal/domain/impact"
)

// fieldManager is the manager of the fields that the console writes.
const fieldManager = "glowplug-console"

// change is a write of an object. A user sees what it does before it is made.
type change struct {
	// Title is what is done, as a heading, and What a sentence about it.
	Title, What string
	// Notes are what else has to be known.
	Notes []string
	// Request makes the change.
	Request client.Request
	// Command does the same in a terminal.
	Command string
	// Apply and Delete are the objects as they would be, or that would be gone: their impact is shown.
	Apply, Delete []any
	// Prediction has more parameters of the prediction of the impact.
	Prediction url.Values
	// Differences are the texts that change.
	Differences []difference
	// Unconfirmed is true for a POST that only brings the fields: the change is shown, and not made.
	Unconfirmed bool
	// Why says why the request was refused; nil: the API does.
	Why func(error) string
	// Base names the state of the object that was shown: the change is made while it is that. "": it may be any.
	Base string
	// Edit is the page at which the fields can be changed again; "": there is none.
	Edit string
	// Back is the page to go on to, and Done that after the change; "": Back.
	Back, Done string
	// Button is the text of the button.
	Button string
	// Fields are sent again with the confirmation.
	Fields url.Values
}

// changePage is what the template of a change shows.
type changePage struct {
	*change
	Impact   string // in the words of glowplug diff
	IsWorse  bool
	NoImpact string // why the impact is not known
	Problem  string
	// IsRefused is true where the API would refuse the write: there is nothing to confirm.
	IsRefused bool
	Warnings  []string
	Written   bool
}

// review shows a change before it is made, and makes it once it is confirmed (POST).
func (p *page) review(w http.ResponseWriter, c *change) {
	p.Title = c.Title
	data := &changePage{change: c}
	if p.request.Method == http.MethodPost && c.Base != "" && c.Base != p.request.PostFormValue("base") {
		c.Unconfirmed, data.Problem = true, "It has been changed since it was shown. This is what the change does now."
	}
	if c.Base != "" {
		c.Fields = maps.Clone(c.Fields)
		if c.Fields == nil {
			c.Fields = url.Values{}
		}
		c.Fields.Set("base", c.Base)
	}
	if p.request.Method == http.MethodPost && !c.Unconfirmed {
		header, err := p.server.opts.Client.Do(p.ctx, &c.Request, nil)
		if err == nil {
			data.Written, data.Warnings = true, withoutImpact(client.Warnings(header)) // that was shown before
			if len(data.Warnings) == 0 {
				http.Redirect(w, p.request, c.done(), http.StatusSeeOther)
				return
			}
			p.show(w, "change", data)
			return
		}
		if data.Problem = sentence(err); c.Why != nil {
			data.Problem = c.Why(err)
		}
	}
	p.predict(data)
	p.show(w, "change", data)
}

func (c *change) done() string {
	if c.Done != "" {
		return c.Done
	}
	return c.Back
}

// predict adds the impact of a change.
func (p *page) predict(data *changePage) {
	if len(data.Apply)+len(data.Delete) == 0 {
		return
	}
	report, _, err := p.impact(p.ctx, data.Apply, data.Delete, data.Prediction)
	switch {
	case client.Code(err) == http.StatusUnprocessableEntity:
		data.Problem, data.IsRefused = sentence(err), true
		return
	case err != nil:
		data.NoImpact = sentence(err)
		return
	}
	var text strings.Builder
	_ = report.Fprint(&text, impact.Style{}) // a Builder never fails
	data.Impact, data.IsWorse = text.String(), report.IsWorse()
	data.Notes = withoutImpact(data.Notes)
}

// withoutImpact returns warnings of the API without those about the impact of a write.
func withoutImpact(warnings []string) []string {
	return slices.DeleteFunc(warnings, func(text string) bool { return strings.Contains(text, "impact on ") })
}

// impact asks what changes do to the hosts, with more parameters.
func (p *page) impact(ctx context.Context, apply, remove []any, more url.Values) (
	report *impact.Report, warnings []string, err error,
) {
	query := url.Values{"fieldManager": {fieldManager}}
	maps.Copy(query, more)
	report = &impact.Report{}
	header, err := p.server.opts.Client.Do(ctx, &client.Request{
		Method: http.MethodPost, Path: "/api/v1/impact", Query: query,
		Body: map[string]any{"apply": apply, "delete": remove},
	}, report)
	return report, client.Warnings(header), err
}

// applied returns an object as it is applied: without what the server sets.
func applied(kind string, object metav1.Object) any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // an object of the API
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	out["apiVersion"], out["kind"] = "v1", kind
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	for _, set := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		delete(metadata, set)
	}
	return out
}

// baseOf names the state of an object: a write of its spec, and another object of its name, make it another one.
func baseOf(object metav1.Object) string {
	return fmt.Sprintf("%s.%d", object.GetUID(), object.GetGeneration())
}

// mergePatch is a request that changes some fields of an object.
func mergePatch(resource, namespace, name string, patch any) client.Request {
	return client.Request{
		Method: http.MethodPatch, Resource: resource, Namespace: namespace, Name: name, Body: patch,
		Header: map[string]string{"Content-Type": "application/merge-patch+json"},
		Query:  url.Values{"fieldManager": {fieldManager}},
	}
}

// creation is a request that makes an object.
func creation(resource, namespace string, object any) client.Request {
	return client.Request{Method: http.MethodPost, Resource: resource, Namespace: namespace, Body: object,
		Query: url.Values{"fieldManager": {fieldManager}, "fieldValidation": {"Strict"}}}
}

// quoted is a text as a word of a shell.
func quoted(s string) string {
	if s != "" && strings.IndexFunc(s, isSpecial) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// isSpecial reports whether a shell may read a character as more than itself.
func isSpecial(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_./:=,@+", c))
}
