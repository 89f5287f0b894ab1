package console

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

const (
	// maxConfigForm bounds the body of the form of a config, as the API does its bodies.
	maxConfigForm = 8 << 20
	// maxRest bounds the fields beside the source.
	maxRest = 1 << 20
	// redacted stands for a source that the user may not read.
	redacted = "<redacted>"
)

// configForm is what a user has written of a config.
type configForm struct {
	Namespace, Name, Source string
	// Rest has labels and spec without the source, as YAML.
	Rest string
	// Base names the state of the config that the user began with; "": there was none.
	Base string
}

// readConfigForm reads the form in the body of a request, of a user who may list configs. It is large: a few are read
// at a time, and one of a user.
func (p *page) readConfigForm(w http.ResponseWriter, r *http.Request) (*configForm, error) {
	if !p.may(kinds.IgnitionConfigs, r.PathValue("ns")) {
		return nil, &client.Refused{Code: http.StatusForbidden, Message: fmt.Sprintf(
			"user %q cannot list ignitionconfigs in the namespace %q", p.User(), r.PathValue("ns"))}
	}
	end := p.server.forms.begin(p.User())
	if end == nil {
		return nil, &client.Refused{Code: http.StatusTooManyRequests, Message: "other forms are being read: try again"}
	}
	defer end()
	r.Body = http.MaxBytesReader(w, r.Body, maxConfigForm)
	err := r.ParseMultipartForm(maxConfigForm)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, &client.Refused{Code: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf(
			"the form has more than %s: spec.config may have %s", bytesText(maxConfigForm), bytesText(v1.MaxConfigBytes))}
	case err != nil:
		return nil, &client.Refused{Code: http.StatusBadRequest, Message: "the form cannot be read: " + err.Error()}
	}
	return &configForm{
		Namespace: r.PathValue("ns"), Name: r.PathValue("name"), Source: unixLines(r.PostFormValue("source")),
		Rest: unixLines(r.PostFormValue("rest")), Base: r.PostFormValue("base"),
	}, nil
}

// unixLines ends all lines with \n: browsers send those of a form with \r\n, whatever they were.
func unixLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// storedConfig is a config as the API has it for the user.
type storedConfig struct {
	v1.IgnitionConfig
	text []byte
}

// storedConfig reads a config; nil: there is none.
func (p *page) storedConfig(namespace, name string) (*storedConfig, error) {
	stored := &storedConfig{}
	if err := p.get(kinds.IgnitionConfigs, namespace, name, nil, &stored.text); err != nil {
		if client.Code(err) == http.StatusNotFound {
			return nil, nil
		}
		return nil, err
	}
	return stored, json.Unmarshal(stored.text, &stored.IgnitionConfig)
}

// Base names the state of what the form has. The resourceVersion would not do: each write of the status changes it.
func (c *storedConfig) Base() string {
	if c == nil {
		return ""
	}
	labels := sha256.Sum256([]byte(jsonText(c.Labels)))
	return fmt.Sprintf("%s.%d.%x", c.UID, c.Generation, labels[:8])
}

// fields returns the object as fields that can be changed; nil: those of a new one.
func (c *storedConfig) fields() map[string]any {
	object := map[string]any{}
	if c != nil {
		_ = json.Unmarshal(c.text, &object) // it has been read before
	}
	return object
}

// form returns the form of a config.
func (c *storedConfig) form() *configForm {
	return &configForm{
		Namespace: c.Namespace, Name: c.Name, Source: c.Spec.Config, Rest: restOf(c.fields()), Base: c.Base(),
	}
}

// restOf returns what can be changed in an object beside the source, as YAML.
func restOf(object map[string]any) string {
	rest := map[string]any{}
	if metadata, _ := object["metadata"].(map[string]any); metadata["labels"] != nil {
		rest["metadata"] = map[string]any{"labels": metadata["labels"]}
	}
	spec, _ := object["spec"].(map[string]any)
	rest["spec"] = maps.Clone(spec)
	delete(rest["spec"].(map[string]any), "config")
	text, _ := yaml.Marshal(rest) // what was JSON can be YAML
	return string(text)
}

// object returns the object that a stored one becomes with the form; stored is nil for a new one.
func (f *configForm) object(stored *storedConfig) (map[string]any, error) {
	if len(f.Rest) > maxRest {
		return nil, fmt.Errorf("the fields beside the source have more than %s", bytesText(maxRest))
	}
	var rest struct {
		Metadata struct{ Labels map[string]any }
		Spec     map[string]any
	}
	if err := yaml.UnmarshalStrict([]byte(f.Rest), &rest); err != nil {
		return nil, fmt.Errorf("the fields beside the source are not metadata.labels and spec in YAML: %w", err)
	}
	if rest.Spec == nil || rest.Spec["config"] != nil {
		return nil, errors.New("the fields beside the source need spec, without config, which is in the editor")
	}
	rest.Spec["config"] = f.source(stored)
	object := stored.fields()
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"namespace": f.Namespace, "name": f.Name}
	}
	if delete(metadata, "labels"); rest.Metadata.Labels != nil {
		metadata["labels"] = rest.Metadata.Labels
	}
	object["apiVersion"], object["kind"], object["metadata"], object["spec"] = "v1", "IgnitionConfig", metadata, rest.Spec
	return object, nil
}

// source returns the source. Where line ends alone differ from the stored one it is that: a form does not keep them.
func (f *configForm) source(stored *storedConfig) string {
	if stored != nil && unixLines(stored.Spec.Config) == f.Source {
		return stored.Spec.Config
	}
	return f.Source
}
