package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/manifest"
)

// Values of --dry-run, as kubectl has them.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// How long, and how often, apply looks whether a config is merged over a new layer.
const (
	mergeTimeout  = 3 * time.Second
	mergeInterval = 100 * time.Millisecond
)

// applyManager is the field manager of apply.
const applyManager = "glowplug-apply"

func newApplyCommand() *cobra.Command {
	var (
		options  clientOptions
		files    []string
		dryRun   string
		filesDir string
		plain    plainOptions
	)
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Write manifests, or a config file as an object, to the server",
		Long: `Write manifests to the server, as kubectl apply does, including the local files of
Butane configs: a config that names local files or trees is compiled here, with the
files below --files-dir, and stored as an Ignition config (format ignition). All other
configs are stored as they are. Everything is read and compiled before the first
object is sent, and a layer is sent before the configs that are merged over it.

A Butane, Ignition or kickstart file that is no manifest (.bu, .ign, .ks) is stored as
an IgnitionConfig with the name of the file, for the machines that the flags select.
Without such a flag an existing object keeps its selector.`,
		Example: `  glowplug apply -f rack/ --files-dir files
  glowplug apply -f builder.bu --files-dir files -n g10 --label role=builder
  glowplug apply -f node7.bu --mac 52:54:00:10:00:11 --dry-run`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return withHint(usagef("missing flag -f"),
					"name the manifests or config files: glowplug apply -f PATH; - is standard input")
			}
			if err := checkChoice("dry-run", dryRun, dryRunNone, dryRunServer); err != nil {
				return withHint(err, "glowplug validate checks files without a server")
			}
			p := preparer{
				out: cmd.ErrOrStderr(), stdin: cmd.InOrStdin(), filesDir: filesDir, namespace: options.namespace(), plain: plain,
			}
			docs, err := p.prepare(files)
			if err != nil {
				return err
			}
			c, err := options.connect(cmd.Context())
			if err != nil {
				return err
			}
			a := applier{
				out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), client: c, selector: plain.selector,
				query: url.Values{"fieldValidation": {"Strict"}},
			}
			if dryRun == dryRunServer {
				a.query.Set("dryRun", "All")
			}
			return a.all(cmd.Context(), lowestFirst(docs))
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil,
		"manifest, config file, or folder with manifests; - is a manifest from standard input (repeatable)")
	options.addNamespace(cmd, "namespace of objects without one")
	cmd.Flags().StringVar(&dryRun, "dry-run", dryRunNone,
		"none; server, also without a value: let the server check everything, and write nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	completeChoices(cmd, "dry-run", dryRunNone, dryRunServer)
	addFilesDir(cmd, &filesDir)
	plain.addFlags(cmd)
	return cmd
}

// lowestFirst orders objects so that each layer goes before the configs that are merged
// over it, which do not compile without it. All others keep their order.
func lowestFirst(docs []*prepared) []*prepared {
	configs := map[string]*prepared{}
	for _, p := range docs {
		if p.doc.Kind == "IgnitionConfig" {
			configs[p.doc.Namespace+"/"+p.doc.Name] = p
		}
	}
	ordered := make([]*prepared, 0, len(docs))
	seen := map[*prepared]bool{}
	var add func(p *prepared)
	add = func(p *prepared) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, name := range p.layers {
			if lower := configs[p.doc.Namespace+"/"+name]; lower != nil {
				p.below = append(p.below, lower)
				add(lower)
			}
		}
		ordered = append(ordered, p)
	}
	for _, p := range docs {
		add(p)
	}
	return ordered
}

// applier sends objects to a server.
type applier struct {
	out, notes io.Writer
	client     *client.Client
	// selector is for an object made of a config file.
	selector v1.IgnitionConfigSelector
	query    url.Values
}

// all applies every object, also after the failure of another one.
func (a *applier) all(ctx context.Context, docs []*prepared) error {
	failed := 0
	for _, doc := range docs {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := a.one(ctx, doc)
		switch {
		case err == nil:
		case len(docs) == 1:
			return err
		default:
			failed++
			fmt.Fprintf(a.notes, "error: %s: %s %s: %v\n", doc.doc.String(), doc.doc.Kind, doc.doc.Name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("errors in %s of %d", count(failed, "object", "objects"), len(docs))
	}
	return nil
}

func (a *applier) one(ctx context.Context, p *prepared) error {
	if p.spec != nil {
		if err := a.encodePlain(ctx, p); err != nil {
			return err
		}
	}
	before, err := a.stored(ctx, p.doc)
	if err != nil {
		return err
	}
	var after unstructured.Unstructured
	warnings, err := a.client.Apply(ctx, p.doc, applyManager, a.query, &after.Object)
	if err != nil {
		return remedied(err)
	}
	dryRun := a.query.Has("dryRun")
	phase := phaseOf(&after)
	failure, hint, ofLayers := failureOf(&after)
	if len(p.below) > 0 && phase == v1.PhaseError && !dryRun && a.isMended(ctx, p.doc) {
		phase = v1.PhaseReady
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, layersPrefix) })
	}
	for _, warning := range warnings {
		fmt.Fprintf(a.notes, "warning: %s\n", warning)
	}
	done := doneTo(before, &after)
	isChanged := func(lower *prepared) bool { return lower.changed }
	overChanged := slices.ContainsFunc(p.below, isChanged)
	p.changed = done != unchanged || overChanged
	if dryRun {
		done += " (dry run)"
	}
	name := p.doc.Name
	if namespace := after.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	if _, err := fmt.Fprintf(a.out, "%s %s %s%s\n", strings.ToLower(p.doc.Kind), name, done, p.note); err != nil {
		return err
	}
	if p.doc.Kind != "IgnitionConfig" || phase != v1.PhaseError {
		return nil
	}
	if ofLayers && dryRun && overChanged {
		fmt.Fprintf(a.notes, "note: a dry run does not store the layers of %s that these objects change, and the warning is "+
			"about the stored ones; glowplug validate merges those that are among the files\n", name)
		return nil
	}
	if !dryRun {
		failure = "is stored, and " + failure
	}
	return withHint(fmt.Errorf("%s %s %s", strings.ToLower(p.doc.Kind), name, failure), hint)
}

// layersPrefix begins what the server says about the layers of a config.
const layersPrefix = "spec.layers: "

// failureOf says in the words of a predicate what is wrong with a config in phase Error, and what
// to do. ofLayers reports that its source is good.
func failureOf(object *unstructured.Unstructured) (failure, hint string, ofLayers bool) {
	var config v1.IgnitionConfig
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &config)
	status := &config.Status
	switch {
	case strings.HasPrefix(status.ErrorMessage, layersPrefix):
		return "cannot be merged over its layers", "the warning above names the layer to correct", true
	case status.Hosts != nil && status.Hosts.Failed > 0:
		return "fails for " + count(int(status.Hosts.Failed), "host", "hosts"), "its status.hosts.failures has the reasons", false
	}
	return "does not compile", "the warning above has the reason; glowplug validate shows the place in the file", false
}

func phaseOf(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

// isMended reports whether a stored config in error compiles after all, because its layer
// was written a moment ago: the server merges it again in the background.
func (a *applier) isMended(ctx context.Context, doc *manifest.Document) bool {
	err := wait.PollUntilContextTimeout(ctx, mergeInterval, mergeTimeout, true, func(ctx context.Context) (bool, error) {
		object, err := a.stored(ctx, doc)
		return object != nil && phaseOf(object) != v1.PhaseError, err
	})
	return err == nil
}

// stored returns the object of a document as the server has it; nil: it has none.
func (a *applier) stored(ctx context.Context, doc *manifest.Document) (*unstructured.Unstructured, error) {
	request, err := client.RequestFor(doc)
	if err != nil {
		return nil, err
	}
	var found unstructured.Unstructured
	_, err = a.client.Do(ctx, request, &found.Object)
	if client.Code(err) == http.StatusNotFound {
		return nil, nil
	}
	return &found, remedied(err)
}

// unchanged is what a write has done that has changed nothing.
const unchanged = "unchanged"

// doneTo returns what a write has done to an object, in the words of kubectl.
func doneTo(before, after *unstructured.Unstructured) string {
	if before == nil {
		return "created"
	}
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		delete(object.Object, "status")
	}
	if apiequality.Semantic.DeepEqual(before.Object, after.Object) {
		return unchanged
	}
	return "configured"
}

// plainOptions are the name and the selector for a config file that is no manifest.
type plainOptions struct {
	name     string
	selector v1.IgnitionConfigSelector
}

func (o *plainOptions) addFlags(cmd *cobra.Command) {
	const plain = " (for a config file that is no manifest)"
	flags, s := cmd.Flags(), &o.selector
	flags.StringVar(&o.name, "name", "", "name of the object"+plain+" (default: that of the file)")
	flags.StringToStringVar(&s.MatchLabels, "label", nil, "select hosts with this label, key=value (repeatable)"+plain)
	flags.StringSliceVar(&s.MatchMACs, "mac", nil, "select the host with this hardware address (repeatable)"+plain)
	flags.StringSliceVar(&s.MatchIPs, "ip", nil, "select hosts by address or CIDR (repeatable)"+plain)
	flags.StringSliceVar(&s.MatchHostnames, "hostname", nil, "select hosts by name (repeatable)"+plain)
	flags.BoolVar(&s.Default, "default", false, "select hosts that no other config matches"+plain)
}

func (o *plainOptions) given() bool { return o.name != "" || !o.selector.IsEmpty() }

// encodePlain encodes an object made of a config file. Without a selector of the flags it
// keeps that of the stored object: applying without it would remove the selector that
// apply has set before.
func (a *applier) encodePlain(ctx context.Context, p *prepared) error {
	selector := a.selector
	if selector.IsEmpty() {
		var stored v1.IgnitionConfig
		_, err := a.client.Do(ctx, &client.Request{Resource: "ignitionconfigs", Namespace: p.doc.Namespace, Name: p.doc.Name},
			&stored)
		if err != nil && client.Code(err) != http.StatusNotFound {
			return remedied(err)
		}
		selector = stored.Spec.Selector
	}
	if selector.IsEmpty() {
		fmt.Fprintf(a.notes, "note: no machine is selected, so the config is served only to hosts that ask with ?role=%s and may "+
			"(a label role of their own has this value), and to hosts whose image names it; --mac, --ip, --hostname, --label and --default select machines\n", p.doc.Name)
	} else {
		p.spec["selector"] = selector
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": p.doc.APIVersion, "kind": p.doc.Kind,
		"metadata": map[string]any{"name": p.doc.Name, "namespace": p.doc.Namespace}, "spec": p.spec,
	})
	p.doc.YAML = text
	return err
}
