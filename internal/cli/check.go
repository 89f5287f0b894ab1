package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	sigsyaml "sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/offline"
)

// checker checks files and counts its findings.
type checker struct {
	// out is for findings, stdout for the versions in which configs can be served.
	out, stdout io.Writer
	// installer is for kickstarts that do not name theirs.
	installer string
	// filesDir is the folder of local parts, "" for a check as the server does it.
	filesDir string
	// disks are those that configs are planned on; nil: none are planned.
	disks *disk.Facts
	// seen has the place of each object, by kind, namespace and name.
	seen map[string]string
	// docs are the valid hosts and configs, by kind, namespace and name; related has them in the
	// order of the files.
	docs    map[string]*manifest.Document
	related []*manifest.Document
	// broken has the kinds of objects with an error: what the other objects lack can be
	// among these.
	broken map[string]bool
	// offline has the objects that are checked together; nil: each is checked alone.
	offline *offline.Objects
	// configs are those of the files; order has them in the order of the files.
	configs map[model.Ref]*checkedConfig
	order   []*checkedConfig

	objects, errors, warnings int
}

func newChecker(out, stdout io.Writer, installer, filesDir string) *checker {
	return &checker{
		out: out, stdout: stdout, installer: installer, filesDir: filesDir,
		seen: map[string]string{}, docs: map[string]*manifest.Document{}, broken: map[string]bool{},
		configs: map[model.Ref]*checkedConfig{},
	}
}

func (c *checker) file(name string) error {
	format, docs, err := readFile(name, nil)
	if err != nil {
		return err
	}
	if format != "" {
		return c.config(name, format)
	}
	for i := range docs {
		if err := c.document(&docs[i]); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads the documents of a manifest, or returns the format of a file that holds
// a config and no object. "-" is standard input. The files of a folder have to be manifests.
func readFile(path string, stdin io.Reader) (format string, docs []manifest.Document, err error) {
	if path == "-" {
		text, err := readInput(path, stdin, maxManifest)
		if len(text) > maxManifest {
			return "", nil, fmt.Errorf("the manifest on standard input has more than %d MiB: name its file, or divide it",
				maxManifest>>20)
		}
		return "", manifest.Split("<stdin>", text), err
	}
	info, err := os.Stat(path)
	isFolder := err == nil && info.IsDir()
	if err == nil && !isFolder && hasExtension(path, ".bu", ".butane", ".ign", ".ks", ".cfg") {
		return formatOf(path), nil, nil
	}
	docs, err = manifest.Read(path)
	if len(docs) == 1 && docs[0].Err != nil && !isFolder {
		format = plainConfig(docs[0].YAML)
	}
	return format, docs, fileError(err)
}

// maxManifest bounds a manifest from standard input, in bytes.
const maxManifest = 64 << 20

// plainConfig returns the format of a document that is a config; "" where it is none.
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
	src := compile.Source{Type: typeOf(format), Format: format, KickstartVersion: c.installer}
	if _, err := readSource(&src, name, nil); err != nil {
		return err
	}
	c.objects++
	artifact, found := compileLocal(src, c.filesDir)
	if err := c.printVersions(name, artifact); err != nil {
		return err
	}
	if artifact != nil && src.Type == compile.TypeIgnition {
		found = append(found, c.planned(artifact.Bytes)...)
	}
	return c.print(name, []byte(src.Config), found)
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
	return printReport(c.out, name, source, found)
}

// printVersions prints the Ignition versions in which a config can be served.
func (c *checker) printVersions(name string, artifact *compile.Artifact) error {
	if text := describeForms(artifact); text != "" {
		_, err := fmt.Fprintf(c.stdout, "%s: %s", name, text)
		return err
	}
	return nil
}

// document checks an object of a manifest.
func (c *checker) document(doc *manifest.Document) error {
	c.objects++
	p := newPlaces(doc)
	if doc.Err != nil {
		// It can be of any kind.
		c.broken["BareMetalHost"], c.broken["ISCSICdrom"] = true, true
		return c.print(doc.File, p.source, p.unreadable(doc.Err))
	}
	var found report.Report
	kind := kinds.InManifests(doc.Kind)
	version := v1.SchemeGroupVersion
	if kind != nil {
		version = kind.GroupVersion
	}
	if doc.APIVersion != version.String() {
		found = append(found, p.finding(report.Error, "apiVersion",
			fmt.Sprintf("apiVersion is %q and has to be %q", doc.APIVersion, version)))
	}
	if kind == nil {
		f := p.finding(report.Error, "kind", fmt.Sprintf("kind %q cannot be in a manifest", doc.Kind))
		f.Hint = "kinds are " + strings.Join(kinds.NamesInManifests(), ", ")
		found = append(found, f)
	} else {
		obj, decoded := decode(p, doc, kind)
		found = append(found, decoded...)
		if !found.HasError() {
			compiled, err := c.object(doc, p, kind, obj)
			if err != nil {
				return err
			}
			found = append(found, compiled...)
		}
	}
	if found.HasError() {
		c.broken[doc.Kind] = true
	}
	key := doc.Kind + " " + cmp.Or(doc.Namespace, v1.NamespaceDefault) + "/" + doc.Name
	if earlier, twice := c.seen[key]; twice {
		f := p.finding(report.Error, "metadata.name",
			fmt.Sprintf("%s %s is already defined at %s", doc.Kind, doc.Name, earlier))
		f.Hint = "the later object would replace the earlier one; rename one of them"
		found = append(found, f)
	} else {
		c.seen[key] = doc.String()
		if isRelated := doc.Kind == "BareMetalHost" || doc.Kind == "IgnitionConfig"; isRelated && !found.HasError() {
			c.docs[key] = doc
			c.related = append(c.related, doc)
		}
	}
	return c.print(doc.File, p.source, found.Tidy())
}

// object compiles the config of a valid object that has one, and keeps the object.
func (c *checker) object(doc *manifest.Document, p *places, kind *kinds.Kind, obj runtime.Object) (
	compiled report.Report, err error) {
	config, ok := obj.(*v1.IgnitionConfig)
	if !ok {
		c.keep(doc, p, kind, obj)
		return nil, nil
	}
	source := compile.SourceOf(config)
	source.KickstartVersion = cmp.Or(source.KickstartVersion, c.installer)
	artifact, found := compileLocal(source, c.filesDir)
	if len(config.Spec.Layers) == 0 {
		if err := c.printVersions(doc.String(), artifact); err != nil {
			return nil, err
		}
	}
	compiled = p.inConfig(found, config.Spec.Config)
	if c.filesDir != "" && artifact != nil && config.Spec.Format == compile.FormatButane && !config.Spec.Template {
		config.Spec.Format, config.Spec.Config = compile.FormatIgnition, string(artifact.Bytes) // a server has no local files
	}
	c.keep(doc, p, kind, obj)
	return compiled, nil
}

// structField finds the field in a decoder's message.
var structField = regexp.MustCompile(`json: cannot unmarshal (.+) into Go struct field \w+\.(\S+) of type (\S+)`)

// quoted finds the field in a strict decoder's message.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// decode decodes a document as strictly as the API does, and validates the object in
// the namespace in which it would be stored.
func decode(p *places, doc *manifest.Document, kind *kinds.Kind) (into runtime.Object, found report.Report) {
	into = kind.New()
	strict, err := doc.Decode(into)
	if err != nil {
		return into, p.unreadable(err)
	}
	for _, err := range strict {
		path := ""
		if m := quoted.FindStringSubmatch(err.Error()); m != nil {
			path = m[1]
		}
		found = append(found, p.unknownField(path, err.Error()))
	}
	meta := into.(metav1.Object)
	if kind.Namespaced {
		meta.SetNamespace(cmp.Or(meta.GetNamespace(), v1.NamespaceDefault))
	}
	for _, err := range kind.Check(into) {
		f := p.finding(report.Error, err.Field, err.ErrorBody())
		f.Path = err.Field
		found = append(found, f)
	}
	for _, key := range v1.UnknownAnnotations(meta.GetAnnotations()) {
		f := p.finding(report.Warning, "metadata.annotations", key+" has no effect")
		f.Path, f.Hint = "metadata.annotations", v1.AnnotationsHint
		found = append(found, f)
	}
	return into, found
}

// nameOfType returns the name of a Go type for messages.
func nameOfType(goType string) string {
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
