package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
)

// applyManager is the field manager of apply.
const applyManager = "glowplug-apply"

func newApplyCommand() *cobra.Command {
	var (
		options   clientOptions
		files     []string
		dryRun    bool
		namespace string
		filesDir  string
		plain     plainOptions
	)
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Write manifests, or a config file as an object, to the server",
		Long: `Write manifests to the server, as kubectl apply does, including the local files of
Butane configs: a config that names local files or trees is compiled here, with the
files below --files-dir, and stored as an Ignition config (format ignition). All other
configs are stored as they are. Everything is read and compiled before the first
object is sent.

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
			p := preparer{out: cmd.ErrOrStderr(), stdin: cmd.InOrStdin(), filesDir: filesDir, namespace: namespace, plain: plain}
			docs, err := p.prepare(files)
			if err != nil {
				return err
			}
			a := applier{
				out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(),
				options: &options, query: url.Values{"fieldValidation": {"Strict"}},
			}
			if a.client, err = options.connect(); err != nil {
				return err
			}
			if dryRun {
				a.query.Set("dryRun", "All")
			}
			return a.all(cmd.Context(), docs)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil,
		"manifest, config file or folder; - is standard input (repeatable)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", v1.NamespaceDefault, "namespace of objects without one")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the server check everything, and write nothing")
	addFilesDir(cmd, &filesDir)
	plain.addFlags(cmd)
	return cmd
}

// applier sends objects to a server.
type applier struct {
	out, notes io.Writer
	options    *clientOptions
	client     *client.Client
	query      url.Values
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
		return fmt.Errorf("%s of %d not applied", count(failed, "object", "objects"), len(docs))
	}
	return nil
}

func (a *applier) one(ctx context.Context, p *prepared) error {
	if p.spec != nil {
		if err := a.encodePlain(ctx, p); err != nil {
			return err
		}
	}
	var written struct{ Status v1.IgnitionConfigStatus }
	var out any
	if p.doc.Kind == "IgnitionConfig" { // the status of other kinds has other fields
		out = &written
	}
	warnings, err := a.client.Apply(ctx, p.doc, applyManager, a.query, out)
	if err != nil {
		return remedied(err)
	}
	for _, warning := range warnings {
		fmt.Fprintf(a.notes, "warning: %s\n", warning)
	}
	done := "applied"
	if a.query.Has("dryRun") {
		done += " (dry run)"
	}
	name := p.doc.Name
	if p.doc.Kind != "Namespace" {
		name = cmp.Or(p.doc.Namespace, v1.NamespaceDefault) + "/" + name
	}
	if _, err := fmt.Fprintf(a.out, "%s %s %s%s\n", strings.ToLower(p.doc.Kind), name, done, p.note); err != nil {
		return err
	}
	if written.Status.Phase == v1.PhaseError {
		return withHint(fmt.Errorf("%s %s is stored and does not compile", strings.ToLower(p.doc.Kind), name),
			"glowplug validate shows the place in the file")
	}
	return nil
}
