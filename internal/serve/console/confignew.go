package console

import (
	"encoding/json"
	"net/http"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
)

// newConfig asks for what a new config is, and shows its form.
func (s *Server) newConfig(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "New config", "configs"
	field := func(name string) string { return strings.TrimSpace(r.FormValue(name)) }
	form := &configForm{Namespace: field("namespace"), Name: field("name")}
	if form.Namespace == "" || form.Name == "" {
		p.show(w, "newconfig", map[string]any{"Namespaces": s.opts.Live.Namespaces(), "Form": form})
		return
	}
	typ, format := v1.TypeIgnition, field("format")
	if starters[format] == "" {
		format = v1.FormatButane
	}
	if format == v1.FormatKickstart {
		typ = v1.TypeKickstart
	}
	form.Source = starters[format]
	form.Rest = "spec:\n  type: " + typ + "\n  format: " + format + "\n  selector: {}\n"
	p.showConfig(w, &configPage{Form: form})
}

// starters are the first sources of new configs, by their format.
var starters = map[string]string{
	v1.FormatButane: "variant: fcos\nversion: 1.5.0\n", v1.FormatIgnition: "{\"ignition\": {\"version\": \"3.4.0\"}}\n",
	v1.FormatKickstart: "# A kickstart\n",
}

// compileConfig answers what the API says of a form whose text is being written.
func (s *Server) compileConfig(w http.ResponseWriter, r *http.Request, p *page) {
	form, answer := &configForm{}, []byte(nil)
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxConfigForm)).Decode(form)
	status := http.StatusBadRequest
	if err == nil {
		var object map[string]any
		if object, err = form.object(nil); err == nil {
			status = http.StatusServiceUnavailable
			err = p.ask(p.ctx, client.Request{Method: http.MethodPost, Path: "/api/v1/compile", Body: object}, &answer)
		}
	}
	if err != nil {
		if code := client.Code(err); code != 0 {
			status = code
		}
		answer = []byte(jsonText(map[string]string{"problem": sentence(err)}))
	} else {
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may have gone away
}
