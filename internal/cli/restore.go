package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glowplug/internal/backend"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/ledger"
)

func newRestoreCommand() *cobra.Command {
	var (
		o      backend.RestoreOptions
		dryRun bool
		only   []string
	)
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Put a backup into the store of a server that is stopped",
		Long: `Put the content of a backup into the store of a server that is stopped: into --data-dir, or with
--nats-url into an external NATS. The file is verified before anything is written. Objects keep
their UIDs, generations and states, so a machine that was provisioned is not installed again, and
kubeconfigs and tokens stay valid; resourceVersions go on.

A store with objects is refused. --replace first writes a backup of them into the folder backups of
--data-dir. If the command is broken off, the store is the former one or the restored one; in an
external NATS no server uses it until the command was run again.

--only restores single objects, or all of a kind, into a store that has others: those that are
missing there, and with --replace those that are there as well.`,
		Example: `  glowplug restore glowplug.tar.gz --data-dir /var/lib/glowplug
  glowplug restore glowplug.tar.gz --data-dir /var/lib/glowplug --dry-run
  glowplug restore glowplug.tar.gz --data-dir /var/lib/glowplug-2 --nats-url nats://nats.example:4222
  glowplug restore glowplug.tar.gz --data-dir /var/lib/glowplug --only ignitionconfigs/rack-a/worker`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source.File = args[0]
			if err := o.Check(); err != nil {
				return err
			}
			o.Warn = warner(cmd)
			o.Save = func(_ context.Context, write func(io.Writer) error) (string, error) {
				return saveFormer(o.DataDir, time.Now(), write)
			}
			switch {
			case len(only) > 0:
				return restoreOnly(cmd, &o, only, dryRun)
			case dryRun:
				return restoreDry(cmd, &o)
			}
			return restoreAll(cmd, &o)
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.Source.Identity, "identity", "", "file with the key of age that decrypts the backup")
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "replace the objects that the store has, after a backup of them")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "verify the backup, show what it has and what the store has, and change nothing")
	cmd.Flags().StringArrayVar(&only, "only", nil, "restore RESOURCE, RESOURCE/NAME or RESOURCE/NAMESPACE/NAME alone (repeatable)")
	return cmd
}

// saveFormer writes a backup of the present store.
func saveFormer(dataDir string, now time.Time, write func(io.Writer) error) (path string, err error) {
	folder := filepath.Join(dataDir, "backups")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	name := "before-restore-" + now.UTC().Format("20060102T150405Z") + ".tar.gz"
	_, err = backup.Save(folder, func(backup.Manifest) string { return name }, nil, write)
	return filepath.Join(folder, name), err
}

// restoreAll restores a whole store.
func restoreAll(cmd *cobra.Command, o *backend.RestoreOptions) error {
	bar := newCountProgress(cmd.ErrOrStderr(), "restoring", 0)
	if m, err := o.Source.Verify(); err == nil {
		bar.total = int64(m.Objects())
	}
	o.Restoring = func() { bar.add(1) }
	done, err := backend.Restore(cmd.Context(), *o)
	bar.done()
	if err != nil {
		return restoreError(err, o)
	}
	out := cmd.OutOrStdout()
	if done.Saved != "" {
		fmt.Fprintf(out, "the former store is saved: %s\n", done.Saved)
	}
	_, err = fmt.Fprintf(out, "restored: %d objects of %s; start the server\n", done.Manifest.Objects(),
		done.Manifest.Created.Format("2006-01-02 15:04:05Z"))
	if o.NATSURL != "" && done.Saved != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "hint: other servers of this NATS refuse the restored store: stop each, run "+
			"`glowplug store adopt` with its --data-dir and --nats-url, and start it")
	}
	return err
}

// restoreDry shows what a restore would do.
func restoreDry(cmd *cobra.Command, o *backend.RestoreOptions) error {
	o.Restoring = func() {}
	p, err := backend.PreviewRestore(cmd.Context(), *o)
	if err != nil {
		return restoreError(err, o)
	}
	out := cmd.OutOrStdout()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tIN THE BACKUP\tIN THE STORE")
	for _, kind := range p.Manifest.Kinds {
		fmt.Fprintf(table, "%s\t%d\t%d\n", kind.Resource, kind.Objects, p.Present[kind.Resource])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the backup of %s is whole; nothing was changed\n",
		p.Manifest.Created.Format("2006-01-02 15:04:05Z"))
	if p.IsRefused {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: the store has objects: a restore of all needs --replace, which backs them up first")
	}
	return err
}

// restoreOnly restores some objects.
func restoreOnly(cmd *cobra.Command, o *backend.RestoreOptions, only []string, dryRun bool) error {
	results, err := backend.RestoreOnly(cmd.Context(), *o, only, dryRun)
	for _, r := range results {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", r.Object, r.Did)
	}
	return restoreError(err, o)
}

// restoreError adds a remedy to the error of a restore.
func restoreError(err error, o *backend.RestoreOptions) error {
	if errors.Is(err, backup.ErrSealed) {
		return usageError{err}
	}
	isOfFile := errors.As(err, new(*fs.PathError))
	if err != nil && o.NATSURL != "" && !isOfFile && !errors.As(err, new(interface{ Hint() string })) {
		return withHint(err, "is NATS running with JetStream, reachable from here, and are the credentials right?")
	}
	return stopFirst(fileError(err))
}

// stopFirst adds to the error of a data directory that is in use what to do.
func stopFirst(err error) error {
	if errors.As(err, new(*ledger.LockedError)) {
		return withHint(err, "stop the server first: this command needs its data directory for itself")
	}
	return err
}
