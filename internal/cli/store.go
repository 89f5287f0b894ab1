package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"glowplug/internal/app"
	"glowplug/internal/store/ledger"
)

func newStoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Say which store a server belongs to",
		Long: `Say which store a server belongs to. Every store has an identity, and a server
follows and writes only the one that its data directory knows. Where NATS is empty,
holds another store, lacks a bucket or is older than it was, an operator decides.

Both commands need the data directory for themselves: stop the server first.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", "store "+args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(
		newStoreDecision("adopt", "Take what is stored now for the truth",
			`Take what is stored now for the truth, whatever the data directory knew: after a
backup was restored, say, or when a server moves to another NATS. What is lost
compared with what was recorded is shown, and from then on given up.

Every server has a data directory of its own: run it for one after the other.`,
			`  glowplug store adopt --data-dir /var/lib/glowplug
  glowplug store adopt --data-dir /var/lib/glowplug --nats-url nats://nats.example:4222`,
			"adopted", (*app.Store).Adopt),
		newStoreDecision("init", "Begin a new, empty store",
			`Begin a new, empty store where nothing is stored, although the data directory knows
of one: when NATS was lost without a backup, say. A store that has objects is
refused. Of several servers one begins the store, and the others adopt it.

Where neither the data directory nor NATS know of a store it is not needed.`,
			`  glowplug store init --data-dir /var/lib/glowplug --nats-url nats://nats.example:4222`,
			"begun", (*app.Store).Init),
	)
	return cmd
}

// newStoreDecision is a command that surveys a store and then carries a decision
// about it out.
func newStoreDecision(name, short, long, example, done string,
	decide func(*app.Store, context.Context, *ledger.Survey) (string, error)) *cobra.Command {
	var (
		o      app.StoreOptions
		dryRun bool
	)
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Example: example,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openStore(cmd, o)
			if err != nil {
				return err
			}
			defer store.Close()
			survey, err := store.Survey(cmd.Context())
			switch {
			case errors.As(err, new(*ledger.Mismatch)):
				return err
			case err != nil:
				return withHint(err, "is NATS running with JetStream, reachable from here, and are the credentials right?")
			}
			out := cmd.OutOrStdout()
			if err := writeSurvey(out, store.Where(), survey); err != nil || dryRun {
				return err
			}
			id, err := decide(store, cmd.Context(), survey)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s: %s belongs to store %s from now on\n", done, o.DataDir, id)
			return err
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is stored, and change nothing")
	return cmd
}

func openStore(cmd *cobra.Command, o app.StoreOptions) (*app.Store, error) {
	store, err := app.OpenStore(cmd.Context(), o, func(message, remedy string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\nhint: %s\n", message, remedy)
	})
	var option *app.OptionError
	var locked *ledger.LockedError
	switch {
	case errors.As(err, &option):
		return nil, usageError{err: err}
	case errors.As(err, &locked):
		return nil, withHint(err, "stop the server first: this command needs its data directory for itself")
	}
	return store, err
}

// writeSurvey shows what is stored beside what was recorded.
func writeSurvey(w io.Writer, where string, s *ledger.Survey) error {
	orNone := func(id string) string {
		if id == "" {
			return "none"
		}
		return id
	}
	fmt.Fprintf(w, "store: %s\nidentity found: %s\nidentity expected: %s\n", where, orNone(s.Found), orNone(s.Expected))
	if s.Mismatch != nil {
		fmt.Fprintf(w, "refused by the server: %s\n", s.Mismatch.Reason)
	}
	if len(s.Buckets) == 0 {
		_, err := fmt.Fprintln(w, "buckets: none")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BUCKET\tOBJECTS\tREVISION\tREACHED")
	for _, b := range s.Buckets {
		objects, revision := strconv.Itoa(b.Objects), strconv.FormatUint(b.Revision, 10)
		if !b.Exists {
			objects, revision = "missing", "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", b.Name, objects, revision, b.Reached)
	}
	return table.Flush()
}
