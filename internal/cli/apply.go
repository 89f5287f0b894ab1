package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/manifest"
)

// applyManager owns the fields that apply sets.
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
		Long: `Write manifests to the server, as kubectl apply does, and Butane's local files with
them: a config that names local files or trees is compiled here, with the files under
--files-dir, and stored as the Ignition config that it becomes (format ignition); any
other is stored as it is written. Everything is read and compiled before the first
object is sent.

A Butane, Ignition or kickstart file that is no manifest (.bu, .ign, .ks) is stored as
an IgnitionConfig of its name, for the machines that the flags name. Without one of
these an object that is there keeps its selector.`,
		Example: `  glowplug apply -f rack/ --files-dir files
  glowplug apply -f builder.bu --files-dir files -n g10 --label role=builder
  glowplug apply -f node7.bu --mac 52:54:00:10:00:11 --dry-run`,
		Args: exactArgs(),
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
	cmd.Flags().StringVarP(&namespace, "namespace", "n", v1.NamespaceDefault, "namespace of objects that name none")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the server check everything and write nothing")
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

// all applies every object, whatever becomes of the others.
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
	if p.plain {
		if err := p.keepSelector(ctx, a.options, a.notes); err != nil {
			return err
		}
	}
	var written struct{ Status v1.IgnitionConfigStatus }
	var out any
	if p.doc.Kind == "IgnitionConfig" { // of another kind the status has other fields
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
		name = p.namespace() + "/" + name
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

// documents reads the manifests of a path, "-" being standard input.
func documents(path string, stdin io.Reader) ([]manifest.Document, error) {
	if path != "-" {
		docs, err := manifest.Read(path)
		return docs, fileError(err)
	}
	text, err := io.ReadAll(io.LimitReader(stdin, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("standard input cannot be read: %w", err)
	}
	return manifest.Split("<stdin>", text), nil
}
