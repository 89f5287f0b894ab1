package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

// partsHeader is the header in which a page asks for some of its own parts again, by their ids.
const partsHeader = "X-Glowplug-Parts"

// page is one request of a user for a page.
type page struct {
	server  *Server
	ctx     context.Context // of requests to the API for the user
	request *http.Request
	who     user.Info
	asked   *http.Request // the request with the user's credential
	until   time.Time
	now     time.Time

	// At is the position of the page in the stream of changes.
	At string
	// Title is that of the document, and Section the entry of the navigation.
	Title, Section string
}

// ask sends a request to the API as the user.
func (p *page) ask(ctx context.Context, r client.Request, out any) error {
	_, err := p.server.opts.Client.Do(ctx, &r, out)
	return err
}

// get reads an object, or a list.
func (p *page) get(resource, namespace, name string, query url.Values, out any) error {
	return p.ask(p.ctx, client.Request{Resource: resource, Namespace: namespace, Name: name, Query: query}, out)
}

// may reports whether the user may list a resource in a namespace.
func (p *page) may(resource, namespace string) bool {
	return p.server.opts.MayList(p.ctx, p.who, resource, namespace)
}

// Wants reports whether a part of the page is asked for: all are but for a page that asks for some again.
func (p *page) Wants(part string) bool {
	asked := p.request.Header.Get(partsHeader)
	return asked == "" || slices.Contains(strings.Split(asked, ","), part)
}

// User is the name of the user.
func (p *page) User() string { return p.who.GetName() }

// HasSession is true where the user can sign out.
func (p *page) HasSession() bool { return !p.until.IsZero() }

// Unknown is the number of unknown machines that the user may see; 0 where he may see none.
func (p *page) Unknown() int64 {
	if !p.may(kinds.UnknownMachines, "") {
		return 0
	}
	return objectCount(p, kinds.UnknownMachines, "")
}

// objectCount is the number of objects of a resource in a namespace; 0 where it cannot be read.
func objectCount(p *page, resource, namespace string) int64 {
	list := &metav1.PartialObjectMetadataList{}
	if p.get(resource, namespace, "", url.Values{"limit": {"1"}}, list) != nil {
		return 0
	}
	count := int64(len(list.Items))
	if list.RemainingItemCount != nil {
		count += *list.RemainingItemCount
	}
	return count
}

// show answers with a page.
func (p *page) show(w http.ResponseWriter, name string, data any) {
	p.server.render(w, http.StatusOK, name, view{p, data})
}

// view is what a template shows.
type view struct {
	*page
	Data any
}

// fail answers with the server's own sentence. what is what the user asked for.
func (p *page) fail(w http.ResponseWriter, what string, err error) {
	status := client.Code(err)
	var refusal *wording.Refusal
	switch {
	case status != 0:
	case errors.As(err, &refusal):
		status = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		status = http.StatusServiceUnavailable
	default: // the client refuses to send it, such as for a name that no object can have
		status = http.StatusBadRequest
	}
	p.Title = what
	p.server.render(w, status, "problem", view{p, map[string]any{"What": what, "Problem": sentence(err)}})
}

// sentence is the message of the API without the words of its client.
func sentence(err error) string {
	var refused *client.Refused
	var refusal *wording.Refusal
	switch {
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &refusal):
		return refusal.Reason + ": " + refusal.Remedy
	}
	return err.Error()
}

// render executes a template, and answers with its text once it is whole.
func (s *Server) render(w http.ResponseWriter, status int, name string, data any) {
	var text bytes.Buffer
	if err := templates[name].ExecuteTemplate(&text, "layout", data); err != nil {
		s.opts.Logger.Error("a page of the console cannot be made", "page", name, "error", err)
		http.Error(w, "this page cannot be made: the log of the server has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the client may have gone away
}

// templates has each page with the layout.
var templates = func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	pages, err := files.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, file := range pages {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "templates/"+file.Name()))
	}
	return all
}()

// functions are those of the templates.
var functions = template.FuncMap{
	"sign":      func(state string) string { return looks[state].sign },
	"class":     func(state string) string { return looks[state].class },
	"since":     since,
	"clock":     func(t *metav1.MicroTime) string { return t.UTC().Format("15:04:05") },
	"took":      took,
	"bytes":     bytesText,
	"short":     compile.ShortHash,
	"hostURL":   func(namespace, name string) string { return objectURL("hosts", namespace, name) },
	"configURL": func(namespace, name string) string { return objectURL("configs", namespace, name) },
	"refURL":    refURL,
	"count":     func(n any, one, many string) string { return wording.Count(number(n), one, many) },
	"dict":      dict,
	"visible":   visible,
	"join":      strings.Join,
}

// look is how a state is shown: by a sign and a class of the style sheet, beside its word.
type look struct{ sign, class string }

// looks has the look of states of hosts, outcomes of boots and phases.
var looks = map[string]look{
	v1.StateAvailable: {"·", "a"}, v1.StateBooting: {"▸", "b"}, v1.StateProvisioning: {"…", "p"},
	v1.StateProvisioned: {"✓", "d"}, v1.StateError: {"!", "e"},
	v1.OutcomeLocalBoot: {"✓", "d"}, v1.OutcomeFailed: {"!", "e"}, v1.OutcomeAbandoned: {"–", "a"},
	v1.MemberNotReady: {"!", "e"}, v1.MemberMissing: {"!", "e"}, v1.MemberStopped: {"–", "a"},
	v1.PhasePending: {"…", "p"}, v1.PhaseReady: {"✓", "d"}, v1.PhaseUploading: {"▸", "b"},
	v1.EventWarning: {"!", "e"}, v1.EventNormal: {"·", "a"},
}

// since shows a time as how long ago it was; the page counts on.
func since(t any) template.HTML {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *metav1.Time:
		if t != nil {
			at = t.Time
		}
	case metav1.Time:
		at = t.Time
	case *metav1.MicroTime:
		if t != nil {
			at = t.Time
		}
	}
	if at.IsZero() {
		return "never"
	}
	utc := at.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + utc + `" title="` + utc + `">` + took(time.Since(at)) + ` ago</time>`)
}

// took writes a duration, or seconds, with its two largest units.
func took(v any) string {
	var d time.Duration
	switch v := v.(type) {
	case time.Duration:
		d = v
	case *float64:
		if v == nil {
			return ""
		}
		d = time.Duration(*v * float64(time.Second))
	}
	switch d = max(0, d); {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// bytesText writes a number of bytes.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[prefix])
}

// objectURL is the address of the page of an object.
func objectURL(pages, namespace, name string) string {
	return Prefix + pages + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// refURL is objectURL for namespace/name.
func refURL(pages, ref string) string {
	namespace, name, _ := strings.Cut(ref, "/")
	return objectURL(pages, namespace, name)
}

// number is a number of any type.
func number(n any) int {
	if n, ok := n.(int64); ok {
		return int(n)
	}
	return n.(int)
}

// dict makes the argument of a template that is used in a template.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}
