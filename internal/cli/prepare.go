package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
)

// prepared is an object that is ready to be sent.
type prepared struct {
	doc *manifest.Document
	// spec is that of an object made of a config file, which is encoded when its selector
	// is known; nil: doc has the object.
	spec map[string]any
	// note is printed when it is applied.
	note string
	// layers are the names of a config's layers, and image is the namespace/name of a host's image.
	layers []string
	image  string
	// bootsOther is true for a host whose image is among the objects.
	bootsOther bool
	// below are the objects that are its layers.
	below []*prepared
	// changed says that this apply has changed it, or one of those below it. In a dry run the
	// server then merges over other layers than those of the files.
	changed bool
}

// preparer makes objects of files. It resolves local parts, and refuses configs that do
// not compile before anything is sent.
type preparer struct {
	files     []string
	filesDir  string
	plain     plainOptions
	out       io.Writer
	stdin     io.Reader
	namespace string
	// deletes is true for a deletion of the objects, which needs their kinds and names alone.
	deletes bool
}

func (p *preparer) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&p.files, "filename", "f", nil,
		"manifest, config file, or folder with manifests; - is a manifest from standard input (repeatable)")
	addFilesDir(cmd, &p.filesDir)
	p.plain.addFlags(cmd)
}

// prepare returns the objects of the files, each after those that it needs.
func (p *preparer) prepare(cmd *cobra.Command, options *clientOptions) ([]*prepared, error) {
	if len(p.files) == 0 {
		return nil, withHint(usagef("missing flag -f"),
			"name the manifests or config files: "+cmd.CommandPath()+" -f PATH; - is standard input")
	}
	p.out, p.stdin, p.namespace = cmd.ErrOrStderr(), cmd.InOrStdin(), options.namespace()
	var all []*prepared
	for _, path := range p.files {
		found, err := p.path(path)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	switch {
	case slices.Contains(all, nil):
		fmt.Fprintln(p.out, "nothing was sent to the server")
		return nil, errSilent
	case len(all) == 0:
		return nil, withHint(fmt.Errorf("there is no object under %s", strings.Join(p.files, ", ")),
			"manifests end in .yaml, .yml or .json")
	case p.plain.given() && (len(all) != 1 || all[0].spec == nil):
		return nil, withHint(usagef("--name and the flags that select machines are for one config file that is no manifest"),
			"a manifest has both itself: metadata.name and spec.selector")
	}
	return lowestFirst(all), nil
}

// path reads one path of the command line; nil stands for an object with errors, which
// are printed.
func (p *preparer) path(path string) ([]*prepared, error) {
	format, docs, err := readFile(path, p.stdin)
	if err != nil {
		return nil, err
	}
	if format != "" {
		one, err := p.config(path, format)
		return []*prepared{one}, err
	}
	if err := p.noteLeftOut(path); err != nil {
		return nil, err
	}
	var all []*prepared
	for i := range docs {
		one, err := p.document(&docs[i])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// noteLeftOut names the config files of a folder, of which only the manifests are applied.
func (p *preparer) noteLeftOut(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	files, err := sourceFiles([]string{path})
	if err != nil {
		return err
	}
	for _, name := range files {
		if !hasExtension(name, manifestFiles...) {
			fmt.Fprintf(p.out, "note: %s is no manifest and is left out; apply -f with the file itself stores it\n", name)
		}
	}
	return nil
}

// document prepares an object of a manifest.
func (p *preparer) document(doc *manifest.Document) (*prepared, error) {
	if doc.Err != nil {
		places := newPlaces(doc)
		return nil, printReport(p.out, doc.File, places.source, places.unreadable(doc.Err))
	}
	if doc.Namespace == "" && doc.Kind != "Namespace" {
		doc.Namespace = p.namespace
	}
	if p.deletes {
		return &prepared{doc: doc}, nil
	}
	if p.isBroken(doc) {
		return nil, nil
	}
	one := &prepared{doc: doc}
	if doc.Kind != "IgnitionConfig" && doc.Kind != "BareMetalHost" {
		return one, nil
	}
	var object map[string]any
	if err := sigsyaml.Unmarshal(doc.YAML, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.String(), err)
	}
	spec, _ := object["spec"].(map[string]any)
	if doc.Kind == "BareMetalHost" {
		one.image = imageOf(spec, doc.Namespace)
		return one, nil
	}
	source, _ := spec["config"].(string)
	one.layers = layersOf(spec)
	// A template is rendered by the server, which refuses its local parts.
	if spec["template"] == true || spec["format"] != compile.FormatButane || len(butane.Locals([]byte(source))) == 0 {
		return one, nil
	}
	artifact, found := p.compile(compile.FormatButane, source)
	if artifact == nil {
		places := newPlaces(doc)
		return nil, printReport(p.out, doc.File, places.source, places.inConfig(found, source))
	}
	spec["format"], spec["config"] = compile.FormatIgnition, string(artifact.Bytes)
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	doc.YAML, one.note = text, resolved
	return one, nil
}

// layersOf returns the names of the layers of a config.
func layersOf(spec map[string]any) (names []string) {
	layers, _ := spec["layers"].([]any)
	for _, layer := range layers {
		named, _ := layer.(map[string]any)
		if name, _ := named["name"].(string); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// imageOf returns namespace/name of the image in the spec of a host of a namespace; "": it has none.
func imageOf(spec map[string]any, namespace string) string {
	image, _ := spec["image"].(string)
	if image == "" || image == v1.ImageLocalBoot || strings.Contains(image, "/") {
		return image
	}
	return namespace + "/" + image
}

// isBroken reports whether an object of a manifest has errors, which it prints as validate
// does. Layers may be stored on the server, so they are not merged here.
func (p *preparer) isBroken(doc *manifest.Document) bool {
	var found bytes.Buffer
	c := newChecker(&found, io.Discard, "", p.filesDir)
	if err := c.document(doc); err != nil || c.errors > 0 {
		_, _ = found.WriteTo(p.out)
		return true
	}
	return false
}

// resolved is the note of a config that is stored compiled.
const resolved = ", with its local files, as Ignition"

// compile compiles a source with its local parts.
func (p *preparer) compile(format, source string) (*compile.Artifact, report.Report) {
	artifact, found := compileLocal(compile.Source{Type: typeOf(format), Format: format, Config: source}, p.filesDir)
	if p.filesDir == "" {
		for i := range found {
			if strings.HasPrefix(found[i].Message, "local files") {
				found[i].Hint = "name the folder that they are under: --files-dir DIR"
			}
		}
	}
	return artifact, found
}

// config prepares a config file.
func (p *preparer) config(file, format string) (*prepared, error) {
	source, err := readInput(file, nil, compile.MaxSource)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(p.plain.name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, withHint(usagef("%q is no name of an object", clipped(name)),
			"names have only small letters, digits, - and .: give such a name with --name")
	}
	artifact, found := p.compile(format, string(source))
	if artifact == nil {
		return nil, printReport(p.out, file, source, found)
	}
	one := &prepared{
		doc: &manifest.Document{File: file, Line: 1, APIVersion: v1.SchemeGroupVersion.String(), Kind: "IgnitionConfig",
			Namespace: p.namespace, Name: name},
		spec: map[string]any{"type": typeOf(format), "format": format, "config": string(source)},
	}
	if format == compile.FormatButane && len(butane.Locals(source)) > 0 {
		one.spec["format"], one.spec["config"], one.note = compile.FormatIgnition, string(artifact.Bytes), resolved
	}
	return one, nil
}
