package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// maxRendered bounds what is shown of a rendered config.
const maxRendered = 1 << 20

// configRendered shows what machines receive in the end.
func (s *Server) configRendered(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	p.Title, p.Section = namespace+"/"+name+" rendered", "configs"
	query, command := url.Values{}, "glowplug render "+quoted(name)+" -n "+quoted(namespace)
	data := map[string]any{"Namespace": namespace, "Name": name}
	for _, key := range []string{"host", "spec"} {
		if value := strings.TrimSpace(r.FormValue(key)); value != "" {
			query.Set(key, value)
			command += " --" + key + " " + quoted(value)
			data[key] = value
		}
	}
	var text []byte
	header, err := s.opts.Client.Do(p.ctx, &client.Request{
		Resource: kinds.IgnitionConfigs, Namespace: namespace, Name: name, Subresource: "rendered", Query: query,
	}, &text)
	if err != nil {
		data["Problem"] = sentence(err)
	}
	data["Warnings"], data["IsOld"] = client.Warnings(header), header.Get("X-Glowplug-Stale") == "true"
	var indented bytes.Buffer
	size := len(text)
	if json.Indent(&indented, text, "", "  ") == nil {
		text = indented.Bytes()
	}
	data["Command"], data["Size"], data["IsCut"] = command, bytesText(int64(size)), len(text) > maxRendered
	data["Text"] = visibleLines(string(text[:min(len(text), maxRendered)]))
	p.show(w, "configrendered", data)
}
