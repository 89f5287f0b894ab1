package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
)

// plainOptions say what becomes of a config file that is no manifest.
type plainOptions struct {
	name                 string
	labels               map[string]string
	macs, ips, hostnames []string
	isDefault            bool
}

func (o *plainOptions) addFlags(cmd *cobra.Command) {
	const plain = " (of a config file that is no manifest)"
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the object"+plain+"; the file's without it")
	flags.StringToStringVar(&o.labels, "label", nil, "select hosts with this label, key=value (repeatable)"+plain)
	flags.StringSliceVar(&o.macs, "mac", nil, "select the host with this hardware address (repeatable)"+plain)
	flags.StringSliceVar(&o.ips, "ip", nil, "select hosts by address or CIDR (repeatable)"+plain)
	flags.StringSliceVar(&o.hostnames, "hostname", nil, "select hosts by name (repeatable)"+plain)
	flags.BoolVar(&o.isDefault, "default", false, "select hosts that nothing else matches"+plain)
}

func (o *plainOptions) selector() v1.IgnitionConfigSelector {
	return v1.IgnitionConfigSelector{MatchLabels: o.labels, MatchMACs: o.macs, MatchIPs: o.ips,
		MatchHostnames: o.hostnames, Default: o.isDefault}
}

func (o *plainOptions) given() bool {
	selector := o.selector()
	return o.name != "" || !selector.IsEmpty()
}

// prepared is an object that is ready to be sent.
type prepared struct {
	doc *manifest.Document
	// plain tells that it was made of a config file, and selector of which machines.
	plain    bool
	selector v1.IgnitionConfigSelector
	// note is said of it when it is applied.
	note string
}

func (p *prepared) namespace() string {
	if p.doc.Namespace == "" {
		return v1.NamespaceDefault
	}
	return p.doc.Namespace
}

// preparer makes objects of files: local parts are resolved, and what a machine
// could never be given is refused before anything is sent.
type preparer struct {
	out       io.Writer
	stdin     io.Reader
	filesDir  string
	namespace string
	plain     plainOptions
}

func (p *preparer) prepare(paths []string) ([]*prepared, error) {
	var all []*prepared
	failed, plain := false, 0
	for _, path := range paths {
		found, err := p.path(path)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if one == nil {
				failed = true
				continue
			}
			if all = append(all, one); one.plain {
				plain++
			}
		}
	}
	switch {
	case failed:
		return nil, errSilent
	case len(all) == 0:
		return nil, withHint(fmt.Errorf("there is no object under %s", strings.Join(paths, ", ")),
			"manifests end in .yaml, .yml or .json")
	case p.plain.given() && (plain != 1 || len(all) != 1):
		return nil, withHint(usagef("--name and the flags that select machines are for one config file that is no manifest"),
			"a manifest says both itself: metadata.name and spec.selector")
	}
	return all, nil
}

// path reads one path of the command line; nil stands for what has been found bad and
// printed.
func (p *preparer) path(path string) ([]*prepared, error) {
	if info, err := os.Stat(path); path != "-" && err == nil && !info.IsDir() {
		switch format := formatOf(path); strings.ToLower(filepath.Ext(path)) {
		case ".bu", ".butane", ".ign", ".ks", ".cfg":
			one, err := p.config(path, format)
			return []*prepared{one}, err
		}
	}
	docs, err := documents(path, p.stdin)
	if err != nil {
		return nil, err
	}
	if len(docs) == 1 && docs[0].Err != nil && path != "-" {
		if format := plainConfig(docs[0].YAML); format != "" {
			one, err := p.config(path, format)
			return []*prepared{one}, err
		}
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

// document takes an object of a manifest.
func (p *preparer) document(doc *manifest.Document) (*prepared, error) {
	if doc.Err != nil {
		places := newPlaces(doc)
		return nil, p.print(doc.File, places.source, places.unreadable(doc.Err))
	}
	if doc.Namespace == "" && doc.Kind != "Namespace" {
		doc.Namespace = p.namespace
	}
	one := &prepared{doc: doc}
	var object map[string]any
	if err := sigsyaml.Unmarshal(doc.YAML, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.String(), err)
	}
	spec, _ := object["spec"].(map[string]any)
	source, _ := spec["config"].(string)
	// A template is rendered by the server, and so are its local parts refused there.
	if doc.Kind != "IgnitionConfig" || spec["template"] == true || spec["format"] != compile.FormatButane ||
		len(butane.Locals([]byte(source))) == 0 {
		return one, nil
	}
	artifact, found := p.compile(source)
	if artifact == nil {
		places := newPlaces(doc)
		return nil, p.print(doc.File, places.source, places.inConfig(found, source))
	}
	spec["format"], spec["config"] = compile.FormatIgnition, string(artifact.Bytes)
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	doc.YAML, one.note = text, resolved
	return one, nil
}

// resolved is said of a config that is not stored as it was written.
const resolved = ", with its local files, as Ignition"

// compile compiles a source with local parts.
func (p *preparer) compile(source string) (*compile.Artifact, report.Report) {
	src := compile.Source{Type: compile.TypeIgnition, Format: compile.FormatButane, Config: source}
	artifact, found := compileLocal(src, p.filesDir)
	if p.filesDir == "" {
		for i := range found {
			if strings.HasPrefix(found[i].Message, "local files") {
				found[i].Hint = "name the folder that they are under: --files-dir DIR"
			}
		}
	}
	return artifact, found
}

// config makes an object of a config file.
func (p *preparer) config(file, format string) (*prepared, error) {
	source, err := readSource(file, nil)
	if err != nil {
		return nil, err
	}
	spec := map[string]any{"type": typeOf[format], "format": format, "config": string(source)}
	name := p.plain.name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, withHint(usagef("%q is no name of an object", clipped(name)),
			"names have small letters, digits, - and . alone: give one with --name")
	}
	one := &prepared{plain: true, selector: p.plain.selector()}
	if format == compile.FormatButane && len(butane.Locals(source)) > 0 {
		artifact, found := p.compile(string(source))
		if artifact == nil {
			return nil, p.print(file, source, found)
		}
		spec["format"], spec["config"], one.note = compile.FormatIgnition, string(artifact.Bytes), resolved
	} else if artifact, found := compile.Compile(compile.Source{Type: typeOf[format], Format: format,
		Config: string(source)}); artifact == nil {
		return nil, p.print(file, source, found)
	}
	one.doc = &manifest.Document{File: file, Line: 1, APIVersion: v1.SchemeGroupVersion.String(), Kind: "IgnitionConfig",
		Namespace: p.namespace, Name: name}
	return one, one.write(spec)
}

// write puts the spec, with the selector, into the document.
func (p *prepared) write(spec map[string]any) error {
	if !p.selector.IsEmpty() {
		spec["selector"] = p.selector
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": p.doc.APIVersion, "kind": p.doc.Kind,
		"metadata": map[string]any{"name": p.doc.Name, "namespace": p.doc.Namespace}, "spec": spec,
	})
	p.doc.YAML = text
	return err
}

// keepSelector takes over the selector of the object that is there, where none was
// given: applying without it would take away the one that apply has set before.
func (p *prepared) keepSelector(ctx context.Context, options *clientOptions, notes io.Writer) error {
	if !p.selector.IsEmpty() {
		return nil
	}
	var there v1.IgnitionConfig
	err := options.get(ctx, client.Request{Resource: "ignitionconfigs", Namespace: p.doc.Namespace, Name: p.doc.Name},
		&there)
	if err != nil && client.Code(err) != http.StatusNotFound {
		return err
	}
	if there.Spec.Selector.IsEmpty() {
		fmt.Fprintf(notes, "note: no machine is selected, so that the config is served for ?role=%s alone; --mac, --ip, "+
			"--hostname, --label and --default select machines\n", p.doc.Name)
		return nil
	}
	p.selector = there.Spec.Selector
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(p.doc.YAML, &object); err != nil {
		return err
	}
	return p.write(object.Spec)
}

func (p *preparer) print(name string, source []byte, found report.Report) error {
	return report.Fprint(p.out, name, source, found, colored(p.out))
}
