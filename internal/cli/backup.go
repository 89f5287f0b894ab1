package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"glowplug/internal/backend"
	"glowplug/internal/client"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/backup"
)

func newBackupCommand() *cobra.Command {
	var (
		options    clientOptions
		store      backend.Options
		recipients []string
		stopped    bool
	)
	cmd := &cobra.Command{
		Use: "backup FILE|-", Short: "Save the whole store into a file",
		Long: `Save the store into a file, as it is at one moment, while the server runs: the objects of all
kinds with their states, the Secrets, roles and tokens, the newest boot of each machine, and the
CA and the token of the administrator. Not in it are events, Leases, the history of boots, images
and the key of an encrypted store. What was compiled of a config is compiled again.

The file is there once it is whole and was verified. It has all secrets: encrypt it with
--recipient for a key of age (https://age-encryption.org), or keep it as you keep them.

With --stopped the server need not run: the store in --data-dir is read, or with --nats-url that in
an external NATS.`,
		Example: `  glowplug backup glowplug.tar.gz
  glowplug backup --recipient age1… glowplug.tar.gz.age
  glowplug backup --stopped --data-dir /var/lib/glowplug glowplug.tar.gz`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := backup.ParseRecipients(recipients)
			if err != nil {
				return usageError{fmt.Errorf("--recipient: %w", err)}
			}
			write := func(w io.Writer) error { return fetchBackup(cmd.Context(), &options, w) }
			if stopped {
				if err := store.Check(); err != nil {
					return err
				}
				opened, err := backend.OpenStopped(cmd.Context(), &store, backend.Deps{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					return stopFirst(err)
				}
				defer opened.Close()
				write = func(w io.Writer) error { _, err := opened.Backup(cmd.Context(), w); return err }
			}
			return saveBackup(cmd, args[0], keys, write)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringArrayVar(&recipients, "recipient", nil,
		"encrypt for this recipient of age (age1…), or for those in this file (repeatable)")
	cmd.Flags().BoolVar(&stopped, "stopped", false, "the server is stopped: read its store itself")
	store.AddFlags(cmd.Flags())
	return cmd
}

// fetchBackup has the server write a backup.
func fetchBackup(ctx context.Context, o *clientOptions, w io.Writer) error {
	c, err := o.connect(ctx)
	if err != nil {
		return err
	}
	header, err := c.Do(ctx, &client.Request{Method: http.MethodGet, Path: "/api/v1/backup", Download: w}, nil)
	if reason := header.Get("Glowplug-Backup-Error"); reason != "" {
		return errors.New(reason)
	}
	return remedied(err)
}

// saveBackup writes a backup into a file, or to standard output.
func saveBackup(cmd *cobra.Command, path string, keys []age.Recipient, write func(io.Writer) error) error {
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	bar := newProgress(errs, path, 0)
	counted := func(w io.Writer) error { return write(io.MultiWriter(w, bar)) }
	var m backup.Manifest
	var err error
	if path == "-" {
		if isTerminal(out) {
			return usagef("a backup is not written to a terminal: name a file, or redirect the output")
		}
		m, err = backup.Copy(out, keys, counted)
	} else {
		name := func(backup.Manifest) string { return filepath.Base(path) }
		m, err = backup.Save(filepath.Dir(path), name, keys, counted)
	}
	bar.done()
	if err != nil {
		return fmt.Errorf("there is no backup: %w", err)
	}
	if !m.Settled {
		fmt.Fprintln(errs, "warning: other servers wrote all the time: the kinds of objects are not of the same moment\n"+
			"hint: take another backup when fewer machines boot")
	}
	if path != "-" {
		size := ""
		if info, err := os.Stat(path); err == nil {
			size = ", " + report.Size(info.Size())
		}
		_, err = fmt.Fprintf(out, "%s: %d objects of %s%s\n", path, m.Objects(), m.Created.Format("2006-01-02 15:04:05Z"), size)
	}
	return err
}
