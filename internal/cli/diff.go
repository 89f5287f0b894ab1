package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"glowplug/internal/client"
	"glowplug/internal/domain/impact"
)

// Exit codes of diff beside 0, 1 and 2.
const (
	exitChanges = 3
	exitWorse   = 4
)

// diffCommand has the flags of diff.
type diffCommand struct {
	clientOptions
	preparer preparer
	show     bool
	output   string
}

// changeSet is the body of a request for an impact.
type changeSet struct {
	Apply  []map[string]any `json:"apply,omitempty"`
	Delete []map[string]any `json:"delete,omitempty"`
}

func newDiffCommand() *cobra.Command {
	d := &diffCommand{}
	cmd := &cobra.Command{
		Use:   "diff -f PATH… | BOOT BOOT",
		Short: "Show which hosts a change concerns, before it is applied, or what differs between two boots",
		Long: `Show what applying manifests, or a config file, would change for the hosts: which of them
would receive another config or other contents of it, would be left without one, could
not read theirs, or would boot something else. All objects of the files are one change
set. Nothing is written.

The files are those of glowplug apply. With --delete it is shown what deleting their
objects would change.

Hosts with the same effects are one group. With --show the answer has the difference of
the bytes, and hosts with the same difference are one group; an element of a list is
named by its name, device or path, and the contents of a file are decoded.

With the names of two boots, as node-1.7 or rack-a/node-1.7, show what differs between them:
what the machines were given and why, and how the boots ended; of their configs the values
that differ, where the caller may read them (glowplug replay).

Where the disks of a host are known (status.hardware), its plan is compared as well: data
that Ignition would destroy after the change, and does not destroy before, is listed.

The exit code is 0 if nothing changes for any host, or differs, 3 if something does, 4 if something
changes for the worse (a host without a config, or one that cannot be served, read or
booted, that is stale or ambiguous, or data that would be destroyed), 1 if the impact cannot
be computed, and 2 for wrong usage.`,
		Example: `  glowplug diff -f base.yaml
  glowplug diff -f rack/ --show
  glowplug diff -f worker.yaml --delete
  glowplug diff -f node7.bu --mac 52:54:00:10:00:11 -o json
  glowplug diff rack-a/node-1.7 rack-a/node-1.8`,
		Args: arguments("[BOOT]", "[BOOT]"),
		RunE: d.run,
	}
	d.addFlags(cmd)
	d.preparer.addFlags(cmd)
	flags := cmd.Flags()
	d.addNamespace(cmd, "namespace of objects, or of boots, without one")
	flags.BoolVar(&d.preparer.deletes, "delete", false, "show what deleting the objects would change")
	flags.BoolVar(&d.show, "show", false, "show the difference of the bytes that hosts receive")
	addOutput(cmd, &d.output)
	return cmd
}

func (d *diffCommand) run(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return d.boots(cmd, args)
	}
	docs, err := d.preparer.prepare(cmd, &d.clientOptions)
	if err != nil {
		return err
	}
	c, err := d.connect(cmd.Context())
	if err != nil {
		return err
	}
	set, err := d.changes(cmd, c, docs)
	if err != nil {
		return err
	}
	answer := &impact.Report{}
	warnings, err := d.ask(cmd.Context(), c, set, answer)
	if err != nil {
		return err
	}
	printWarnings(cmd.ErrOrStderr(), warnings)
	err = writeAs(cmd.OutOrStdout(), d.output, answer, func(out io.Writer) error {
		return answer.Fprint(out, impact.Style{Color: colored(out)})
	})
	if err != nil {
		return err
	}
	switch {
	case answer.IsWorse():
		return exitError(exitWorse)
	case answer.Changed > 0 || answer.Strangers != nil:
		return exitError(exitChanges)
	}
	return nil
}

// changes returns the change set of the objects.
func (d *diffCommand) changes(cmd *cobra.Command, c *client.Client, docs []*prepared) (*changeSet, error) {
	a := applier{notes: cmd.ErrOrStderr(), client: c, selector: d.preparer.plain.selector}
	set := &changeSet{}
	for _, p := range docs {
		if p.spec != nil {
			if err := a.encodePlain(cmd.Context(), p); err != nil {
				return nil, err
			}
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(p.doc.YAML, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", p.doc.String(), err)
		}
		if p.doc.Namespace != "" {
			object.SetNamespace(p.doc.Namespace)
		}
		if d.preparer.deletes {
			set.Delete = append(set.Delete, object.Object)
		} else {
			set.Apply = append(set.Apply, object.Object)
		}
	}
	return set, nil
}

// ask asks the server for the impact of a change set.
func (d *diffCommand) ask(ctx context.Context, c *client.Client, set *changeSet, answer *impact.Report) (
	warnings []string, err error) {
	query := url.Values{"fieldManager": {applyManager}}
	if d.show {
		query.Set("show", "true")
	}
	request := client.Request{Method: http.MethodPost, Path: "/api/v1/impact", Query: query, Body: set}
	header, err := c.Do(ctx, &request, answer)
	if err != nil {
		return nil, remedied(err)
	}
	return client.Warnings(header), nil
}
