package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/wording"
	"glowplug/internal/manifest"
)

// Values of --dry-run, as kubectl has them.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// How long, and how often, apply looks whether the server has ended the error or warning of a config
// in the background, after a change of a layer or a host.
const (
	mendTimeout  = 3 * time.Second
	mendInterval = 100 * time.Millisecond
)

// applyManager is the field manager of apply.
const applyManager = "glowplug-apply"

func newApplyCommand() *cobra.Command {
	var (
		options clientOptions
		p       preparer
		dryRun  string
	)
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Write manifests, or a config file as an object, to the server",
		Long: `Write manifests to the server, as kubectl apply does, including the local files of
Butane configs: a config that names local files or trees is compiled here, with the
files below --files-dir, and stored as an Ignition config (format ignition). All other
configs are stored as they are. Everything is read and compiled before the first
object is sent. A layer is sent before the configs that are merged over it, and an image
before the hosts that boot it.

A Butane, Ignition or kickstart file that is no manifest (.bu, .ign, .ks) is stored as
an IgnitionConfig with the name of the file, for the machines that the flags select.
Without such a flag an existing object keeps its selector.`,
		Example: `  glowplug apply -f rack/ --files-dir files
  glowplug apply -f builder.bu --files-dir files -n g10 --label role=builder
  glowplug apply -f node7.bu --mac 52:54:00:10:00:11 --dry-run`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkChoice("dry-run", dryRun, dryRunNone, dryRunServer); err != nil {
				return withHint(err, "glowplug validate checks files without a server")
			}
			docs, err := p.prepare(cmd, &options)
			if err != nil {
				return err
			}
			c, err := options.connect(cmd.Context())
			if err != nil {
				return err
			}
			a := applier{
				out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), client: c, selector: p.plain.selector,
				query: url.Values{"fieldValidation": {"Strict"}},
			}
			if dryRun == dryRunServer {
				a.query.Set("dryRun", "All")
			}
			return a.all(cmd.Context(), docs)
		},
	}
	options.addFlags(cmd)
	options.addNamespace(cmd, "namespace of objects without one")
	cmd.Flags().StringVar(&dryRun, "dry-run", dryRunNone,
		"none; server, also without a value: let the server check everything, and write nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	completeChoices(cmd, "dry-run", dryRunNone, dryRunServer)
	p.addFlags(cmd)
	return cmd
}

// applier sends objects to a server.
type applier struct {
	out, notes io.Writer
	client     *client.Client
	// selector is for an object made of a config file.
	selector v1.IgnitionConfigSelector
	query    url.Values
	// late are configs that are judged after all objects were sent.
	late []*lateConfig
}

// lateConfig is a config that is judged after all objects were sent: another one of them may end
// its error or warning, or the server has not followed an earlier write yet.
type lateConfig struct {
	*prepared
	verdict
	// name has the namespace. warnings are those of the answer.
	name     string
	warnings []string
	// unchanged reports that the answer has the stored status, which may be of an earlier time.
	unchanged bool
}

// mayMend reports whether a change of one of the objects may end the error or warning.
func (l *lateConfig) mayMend(docs []*prepared) bool {
	return slices.ContainsFunc(docs, func(p *prepared) bool {
		return p.changed && (slices.Contains(l.below, p) || p.doc.Kind == "BareMetalHost" && !l.ofLayers)
	})
}

// all applies every object, also after the failure of another one.
func (a *applier) all(ctx context.Context, docs []*prepared) error {
	failed, alone := 0, len(docs) == 1
	var failure error
	tell := func(p *prepared, err error) {
		if err == nil {
			return
		}
		failed++
		if failure = err; !alone {
			fmt.Fprintf(a.notes, "error: %s: %s %s: %v\n", p.doc.String(), p.doc.Kind, p.doc.Name, err)
		}
	}
	for _, p := range docs {
		if err := ctx.Err(); err != nil {
			return err
		}
		tell(p, a.one(ctx, p))
	}
	a.awaitMended(ctx, docs)
	for _, l := range a.late {
		tell(l.prepared, a.judge(ctx, l, docs))
	}
	switch {
	case failed == 0:
		return nil
	case alone:
		return failure
	}
	return fmt.Errorf("errors in %s of %d", wording.Count(failed, "object", "objects"), len(docs))
}

// one applies an object. A config whose error or warning may end is judged later.
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
	v, done := verdictOf(&after), doneTo(before, &after)
	if !v.mendable {
		printWarnings(a.notes, warnings)
	}
	isChanged := func(lower *prepared) bool { return lower.changed }
	isUnchanged := done == unchanged
	p.changed = !isUnchanged || slices.ContainsFunc(p.below, isChanged)
	name := p.doc.Name
	if namespace := after.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	if a.isDryRun() {
		done += " (dry run)"
		if p.bootsOther && len(warnings) > 0 {
			fmt.Fprintf(a.notes, "note: the warning is about %s with the image that is stored, and a dry run does not store "+
				"that of these objects; glowplug diff looks at all of them together\n", name)
		}
	}
	if _, err := fmt.Fprintf(a.out, "%s %s %s%s\n", strings.ToLower(p.doc.Kind), name, done, p.note); err != nil {
		return err
	}
	switch {
	case v.mendable:
		a.late = append(a.late, &lateConfig{p, v, name, warnings, isUnchanged})
		return nil
	case v.failure == nil:
		return nil
	}
	return v.failure.error(name, a.isDryRun())
}

func (a *applier) isDryRun() bool { return a.query.Has("dryRun") }

// isAwaited reports whether the server may end the error or warning of a config in the background.
func (a *applier) isAwaited(l *lateConfig, docs []*prepared) bool {
	if l.mayMend(docs) {
		return !a.isDryRun()
	}
	return l.unchanged
}

// judge returns the error of a config after all objects were sent.
func (a *applier) judge(ctx context.Context, l *lateConfig, docs []*prepared) error {
	if a.isAwaited(l, docs) {
		// A dry run is answered with the warnings of what the server has now.
		query := maps.Clone(a.query)
		query.Set("dryRun", "All")
		var now unstructured.Unstructured
		var err error
		if l.warnings, err = a.client.Apply(ctx, l.doc, applyManager, query, &now.Object); err != nil {
			return remedied(err)
		}
		l.failure = verdictOf(&now).failure
	}
	printWarnings(a.notes, l.warnings)
	switch {
	case l.mayMend(docs) && a.isDryRun():
		fmt.Fprintf(a.notes, "note: the warning is about %s over the hosts and layers that are stored, and a dry run does "+
			"not store those of these objects; glowplug validate checks the files together\n", l.name)
		return nil
	case l.failure == nil:
		return nil
	}
	return l.failure.error(l.name, a.isDryRun())
}

// printWarnings prints the warnings of an answer of the server.
func printWarnings(w io.Writer, warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// failure is what is wrong with a config in phase Error.
type failure struct {
	// predicate is that of a sentence about the config, and hint what to do.
	predicate, hint string
}

// error is the failure of a config that was sent.
func (f *failure) error(name string, dryRun bool) error {
	predicate := f.predicate
	if !dryRun {
		predicate = "is stored, and " + predicate
	}
	return withHint(fmt.Errorf("ignitionconfig %s %s", name, predicate), f.hint)
}

// verdict is what the status of an object says of it.
type verdict struct {
	failure *failure // nil: there is none
	// mendable reports that a change of another object may end the failure, or the warning of a
	// layer with an error; ofLayers reports that the layers are the cause.
	mendable, ofLayers bool
}

func verdictOf(object *unstructured.Unstructured) verdict {
	var config v1.IgnitionConfig
	if object.GetKind() != "IgnitionConfig" ||
		runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &config) != nil {
		return verdict{}
	}
	switch status := &config.Status; {
	case status.Phase != v1.PhaseError && status.ErrorMessage == "":
		stale := slices.ContainsFunc(status.Layers, func(l v1.LayerStatus) bool { return l.Stale })
		return verdict{mendable: stale, ofLayers: stale}
	case compile.IsOfLayers(status.ErrorMessage):
		return verdict{&failure{
			predicate: "cannot be merged over its layers",
			hint:      "the warning above names the layer to correct",
		}, true, true}
	case status.Hosts != nil && status.Hosts.Failed > 0:
		return verdict{&failure{
			predicate: "fails for " + wording.Count(int(status.Hosts.Failed), "host", "hosts"),
			hint:      "its status.hosts.failures has the reasons",
		}, true, false}
	}
	return verdict{failure: &failure{
		predicate: "does not compile",
		hint:      "the warning above has the reason; glowplug validate shows the place in the file",
	}}
}

// awaitMended waits until the server has ended the errors and warnings that may end.
func (a *applier) awaitMended(ctx context.Context, docs []*prepared) {
	isOver := func(l *lateConfig) bool { return !a.isAwaited(l, docs) }
	isMended := func(l *lateConfig) bool {
		object, err := a.stored(ctx, l.doc)
		return err == nil && object != nil && !verdictOf(object).mendable
	}
	left := slices.DeleteFunc(slices.Clone(a.late), isOver)
	_ = wait.PollUntilContextTimeout(ctx, mendInterval, mendTimeout, true, func(context.Context) (bool, error) {
		left = slices.DeleteFunc(left, isMended)
		return len(left) == 0, nil
	})
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
	flags.BoolVar(&s.Default, "default", false,
		"select machines that no other config of its type and namespace matches"+plain)
}

func (o *plainOptions) given() bool { return o.name != "" || !o.selector.IsEmpty() }

// encodePlain encodes an object made of a config file. Without a selector of the flags it
// keeps that of the stored object: applying without it would remove the selector that
// apply has set before.
func (a *applier) encodePlain(ctx context.Context, p *prepared) error {
	selector := a.selector
	var stored v1.IgnitionConfig
	if selector.IsEmpty() {
		request := client.Request{Resource: kinds.IgnitionConfigs, Namespace: p.doc.Namespace, Name: p.doc.Name}
		_, err := a.client.Do(ctx, &request, &stored)
		if err != nil && client.Code(err) != http.StatusNotFound {
			return remedied(err)
		}
		selector = stored.Spec.Selector
	}
	if selector.IsEmpty() {
		fmt.Fprintf(a.notes, "note: no machine is selected, so the config is served only to hosts that ask with %s and "+
			"may (a label role of their own has this value), and to hosts whose image names it; --mac, --ip, --hostname, "+
			"--label and --default select machines\n", askedRoles(p.doc.Name, stored.Labels[match.RoleLabel]))
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

// askedRoles returns the parameters with which hosts ask for a config without a selector, by its
// name and by the value of its label role, which may be empty (docs/reference/matching.md, rule 0).
func askedRoles(name, label string) string {
	var roles []string
	if role, found := strings.CutSuffix(name, "-target"); found {
		roles = append(roles, "?role="+role)
	}
	roles = append(roles, "?role="+name)
	if asked := "?role=" + label; label != "" && !slices.Contains(roles, asked) {
		roles = append(roles, asked)
	}
	return strings.Join(roles, " or ")
}
