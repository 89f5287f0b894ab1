package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/serve/api"
	"glowplug/internal/store/snapshot"
)

// checker checks files and counts what it finds.
type checker struct {
	// out takes the findings, forms what configs can be given as.
	out, forms io.Writer
	color      bool
	// installer is what kickstarts are checked for that do not say it themselves.
	installer string
	// filesDir is where local parts are, "" for a check as the server does it.
	filesDir string
	// seen is where each object stands, by kind, namespace and name.
	seen map[string]string
	// templates are the configs that are to be rendered.
	templates map[snapshot.Ref]*checkedTemplate

	// configs are those of the files, by namespace and name, and in their order.
	configs map[string]*checkedConfig
	order   []*checkedConfig

	objects, errors, warnings int
}

func (c *checker) file(name string) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".bu", ".butane", ".ign", ".ks":
		return c.config(name, formatOf(name))
	}
	docs, err := manifest.Read(name)
	if err != nil {
		return fileError(err)
	}
	if len(docs) == 1 && docs[0].Err != nil {
		if format := plainConfig(docs[0].YAML); format != "" {
			return c.config(name, format)
		}
	}
	for i := range docs {
		if err := c.document(&docs[i]); err != nil {
			return err
		}
	}
	return nil
}

// plainConfig returns the format of a document that is no object but a config.
func plainConfig(text []byte) string {
	var top map[string]any
	if sigsyaml.Unmarshal(text, &top) != nil {
		return ""
	}
	if _, ok := top["variant"]; ok {
		return compile.FormatButane
	}
	if _, ok := top["ignition"]; ok {
		return compile.FormatIgnition
	}
	return ""
}

// config checks a file that holds one config.
func (c *checker) config(name, format string) error {
	source, err := readSource(name, nil)
	if err != nil {
		return err
	}
	c.objects++
	artifact, found := compileLocal(compile.Source{Type: typeOf[format], Format: format, Config: string(source),
		KickstartVersion: c.installer}, c.filesDir)
	if err := c.servable(name, artifact); err != nil {
		return err
	}
	return c.print(name, source, found)
}

func (c *checker) print(name string, source []byte, found report.Report) error {
	if len(found) == 0 {
		return nil
	}
	if c.errors+c.warnings > 0 {
		fmt.Fprintln(c.out)
	}
	c.errors += len(found.Errors())
	c.warnings += len(found.Warnings())
	return report.Fprint(c.out, name, source, found, c.color)
}

// servable says what a config can be given as.
func (c *checker) servable(name string, artifact *compile.Artifact) error {
	if text := describeForms(artifact); text != "" {
		_, err := fmt.Fprintf(c.forms, "%s: %s", name, text)
		return err
	}
	return nil
}

// document checks an object of a manifest.
func (c *checker) document(doc *manifest.Document) error {
	c.objects++
	p := newPlaces(doc)
	if doc.Err != nil {
		return c.print(doc.File, p.source, p.unreadable(doc.Err))
	}
	var found report.Report
	if doc.APIVersion != "v1" {
		found = append(found, p.finding("apiVersion", fmt.Sprintf("apiVersion is %q and has to be \"v1\"", doc.APIVersion)))
	}
	switch doc.Kind {
	case "IgnitionConfig":
		config := &v1.IgnitionConfig{}
		found = append(found, object(p, doc, config,
			func() field.ErrorList { return v1.ValidateIgnitionConfig(named(config)) })...)
		if !found.HasError() {
			spec := &config.Spec
			source := compile.SourceOf(config)
			source.KickstartVersion = cmp.Or(source.KickstartVersion, c.installer)
			artifact, compiled := compileLocal(source, c.filesDir)
			if artifact != nil && artifact.Template {
				c.templates[snapshot.Ref{Namespace: config.Namespace, Name: config.Name}] = &checkedTemplate{doc: doc, places: p,
					config: spec.Config}
			}
			if len(spec.Layers) == 0 {
				if err := c.servable(doc.String(), artifact); err != nil {
					return err
				}
			}
			c.keep(doc, p, config, artifact, compiled)
			found = append(found, p.inConfig(compiled, spec.Config)...)
		}
	case "BareMetalHost":
		host := &v1.BareMetalHost{}
		found = append(found, object(p, doc, host,
			func() field.ErrorList { return v1.ValidateBareMetalHost(named(host)) })...)
	case "ISCSICdrom":
		cdrom := &v1.ISCSICdrom{}
		found = append(found, object(p, doc, cdrom, func() field.ErrorList { return v1.ValidateISCSICdrom(named(cdrom)) })...)
	case "StreamRelease":
		release := &v1.StreamRelease{}
		found = append(found, object(p, doc, release,
			func() field.ErrorList { return api.ValidateStreamRelease(release) })...)
	case "ConfigMap":
		cm := &v1.ConfigMap{}
		found = append(found, object(p, doc, cm, func() field.ErrorList { return v1.ValidateConfigMap(named(cm)) })...)
	case "Namespace":
		found = append(found, object(p, doc, &v1.Namespace{}, func() field.ErrorList { return nil })...)
	default:
		f := p.finding("kind", fmt.Sprintf("kind %q is not served", doc.Kind))
		f.Hint = "kinds are IgnitionConfig, BareMetalHost, ISCSICdrom, StreamRelease, ConfigMap and Namespace"
		found = append(found, f)
	}
	key := doc.Kind + " " + doc.Namespace + "/" + doc.Name
	if earlier, twice := c.seen[key]; twice {
		f := p.finding("metadata.name", fmt.Sprintf("%s %s stands already at %s", doc.Kind, doc.Name, earlier))
		f.Hint = "the later one would replace the earlier; rename one of them"
		found = append(found, f)
	} else {
		c.seen[key] = doc.String()
	}
	return c.print(doc.File, p.source, found.Tidy())
}

// named puts an object where it would be stored if it names no namespace.
func named[T metav1.Object](object T) T {
	if object.GetNamespace() == "" {
		object.SetNamespace(v1.NamespaceDefault)
	}
	return object
}

// structField finds the field in a decoder's message.
var structField = regexp.MustCompile(`json: cannot unmarshal (.+) into Go struct field \w+\.(\S+) of type (\S+)`)

// quoted finds the field in a strict decoder's message.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// object decodes a document as strictly as the API does, and checks it.
func object(p *places, doc *manifest.Document, into any, check func() field.ErrorList) report.Report {
	text, err := sigsyaml.YAMLToJSONStrict(doc.YAML)
	if err != nil {
		return p.unreadable(err)
	}
	strict, err := json.UnmarshalStrict(text, into)
	if err != nil {
		if m := structField.FindStringSubmatch(err.Error()); m != nil {
			return report.Report{p.finding(m[2], fmt.Sprintf("expected %s, found a value of type %s", wanted(m[3]),
				strings.Fields(m[1])[0]))}
		}
		return report.Report{p.finding("", err.Error())}
	}
	var found report.Report
	for _, err := range strict {
		path := ""
		if m := quoted.FindStringSubmatch(err.Error()); m != nil {
			path = m[1]
		}
		f := p.finding(path, err.Error())
		f.Hint = "the field is not part of the kind; check the spelling and the indentation"
		found = append(found, f)
	}
	for _, err := range check() {
		f := p.finding(err.Field, err.ErrorBody())
		f.Path = err.Field
		found = append(found, f)
	}
	return found
}

// wanted puts words for the Go type of a field.
func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	}
	return "a mapping"
}

// yamlPosition finds the line in a YAML library's message.
var yamlPosition = regexp.MustCompile(`line (\d+)(?:, column \d+)?: `)

// rootNode parses a document for its positions; nil where it cannot be parsed.
func rootNode(text []byte) *yaml.Node {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}
