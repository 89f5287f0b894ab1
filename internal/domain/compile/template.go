package compile

import (
	"fmt"
	"strings"

	"glowplug/internal/domain/report"
	"glowplug/internal/domain/template"
)

// Template is a source that is rendered for each host, and then compiled. It is
// safe for concurrent use.
type Template struct {
	src    Source
	parsed *template.Template
}

// ParseTemplate reads the template of a source. It is nil exactly where the report
// holds an error.
func ParseTemplate(src Source) (*Template, report.Report) {
	src.Config = strings.TrimPrefix(src.Config, byteOrderMark)
	if found := check(src); found != nil {
		return nil, found
	}
	parsed, found := template.Parse(src.Config)
	if parsed == nil {
		return nil, found
	}
	// The rendered text is no template. Its forms are computed when a machine asks for one.
	src.Template, src.WithoutForms = false, true
	return &Template{src: src, parsed: parsed}, found
}

// checkTemplate is Compile for a template: it is compiled for each host later.
func checkTemplate(src Source) (*Artifact, report.Report) {
	t, found := ParseTemplate(src)
	if t == nil {
		return nil, found
	}
	return &Artifact{Bytes: []byte(src.Config), Hash: hashOf([]byte(src.Config)), Template: true}, found
}

// MayNameSecret reports whether a rendering of the template may ask for a value of a Secret.
func (t *Template) MayNameSecret(name string) bool { return t.parsed.MayNameSecret(name) }

// Rendering is the result of a template for one host.
type Rendering struct {
	// Text is the rendered source; nil where rendering fails.
	Text []byte
	// Artifact is what Text compiles to, without its Forms; nil where there is an
	// error.
	Artifact *Artifact
	// Found has places in Text or, where that is nil, in the template.
	Found report.Report
}

// Render renders and compiles a template for a host. The compilation, of some seconds at most, is not begun where
// nobody waits for the result any more.
func (t *Template) Render(facts *template.Facts) (r Rendering) {
	if r.Text, r.Found = t.parsed.Render(facts); r.Text == nil {
		return r
	}
	if facts.IsOver() {
		r.Text, r.Found = nil, report.Errorf("the time for the rendering is over")
		return r
	}
	src := t.src
	src.Config = string(r.Text)
	var found report.Report
	r.Artifact, found = Compile(src)
	r.Found = append(r.Found, found...)
	return r
}

// LayOver merges the rendered config over layers, as Stack finds them.
func (r *Rendering) LayOver(name string, layers []string, find func(name string) *Layer) {
	if r.Artifact == nil || len(layers) == 0 {
		return
	}
	own := r.Artifact.Bytes
	r.Artifact = nil
	stack, _, found := Stack(name, layers, find)
	r.Found = append(r.Found, found...)
	if found.HasError() {
		return
	}
	laid, found := Lay(name, own, stack)
	if r.Found = append(r.Found, found...); laid != nil {
		r.Artifact = laid.Artifact
	}
}

// maxRendered bounds the errors that are named of one rendering.
const maxRendered = 3

// Message says in one sentence why there is no artifact, and where; "" where there
// is one. Lines of the rendered text are not those of the template.
func (r *Rendering) Message() string {
	if r.Artifact != nil {
		return ""
	}
	return r.sentence(r.Found.Errors())
}

// Warnings returns the findings that do not stop the config from being served.
func (r *Rendering) Warnings() []string {
	var out []string
	for _, f := range r.Found.Warnings() {
		out = append(out, r.sentence(report.Report{f}))
	}
	return out
}

func (r *Rendering) sentence(found report.Report) string {
	var parts []string
	for i, f := range found {
		if i == maxRendered {
			parts = append(parts, fmt.Sprintf("and %d more errors", len(found)-i))
			break
		}
		switch {
		case r.Text == nil, f.Path == layersPath:
			parts = append(parts, f.String())
		case f.Line > 0:
			parts = append(parts, "in the rendered text, "+f.String())
		default:
			parts = append(parts, "in the rendered text: "+f.String())
		}
	}
	return report.Clip(strings.Join(parts, "; "), 700)
}
