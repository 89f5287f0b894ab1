package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"glowplug/internal/backend"
	"glowplug/internal/store/ledger"
)

// initCommand makes an embedded store where there is none, and lossCommand opens damaged buckets.
const (
	initCommand = "init"
	lossCommand = "accept-loss"
)

func newStoreCommand() *cobra.Command {
	return newGroup("store", "Say which store a server belongs to",
		`Say which store a server belongs to. Every store has an identity, and a server
uses only the store that its data directory knows. Where NATS is empty, holds another
store, lacks a bucket or is older than it was, the operator decides.

The commands need the data directory for themselves: stop the server first.`,
		newStoreDecision("adopt", "Accept what is stored now",
			`Accept what is stored now, whatever the data directory recorded: after the restore of
a backup, for example, or when a server moves to another NATS. What is lost compared
with the record is shown, and given up. A damaged bucket that was set aside stays
missing: restore it, or put what is left of it into service with accept-loss.

Every server has its own data directory: run the command for each.`,
			`  glowplug store adopt --data-dir /var/lib/glowplug
  glowplug store adopt --data-dir /var/lib/glowplug --nats-url nats://nats.example:4222`,
			"adopted", (*backend.Store).CheckAdopt, (*backend.Store).Adopt),
		newStoreDecision(lossCommand, "Accept that a damaged bucket has lost objects",
			`Accept that a damaged bucket has lost objects, where there is no backup to restore.
What NATS can still read of the buckets that were set aside is put into service, and the
rest is given up, as every other loss that the server knows of. The command names each
object that is lost or has an older value, and counts those that are left. An object that
was deleted and is readable again is deleted again. The damaged files stay in damaged/.

Run it with --dry-run first: that shows the same and changes nothing.`,
			`  glowplug store accept-loss --data-dir /var/lib/glowplug --dry-run
  glowplug store accept-loss --data-dir /var/lib/glowplug`,
			"accepted", (*backend.Store).CheckLoss, (*backend.Store).AcceptLoss),
		newStoreDecision(initCommand, "Begin a new, empty store",
			`Begin a new, empty store where nothing is stored, although the data directory knows
of one: for example after NATS was lost without a backup. A store with objects is
refused. Of several servers one begins the store, and the others adopt it.

The command is not needed where neither the data directory nor NATS know a store.`,
			`  glowplug store init --data-dir /var/lib/glowplug --nats-url nats://nats.example:4222`,
			"begun", (*backend.Store).CheckInit, (*backend.Store).Init),
		newForgetCredentials())
}

// withRemedy adds a remedy to an error of a store; a Mismatch has its own.
func withRemedy(err error, o backend.OperatorOptions) error {
	if errors.As(err, new(*ledger.Mismatch)) {
		return err
	}
	if o.NATSURL == "" {
		return withHint(err, "the store is embedded: look whether the disk works and has room; if it does, restore the data "+
			"directory from a backup")
	}
	return withHint(err, "is NATS running with JetStream, reachable from here, and are the credentials right?")
}

// newForgetCredentials returns the command that removes what the servers of a store share.
func newForgetCredentials() *cobra.Command {
	var o backend.OperatorOptions
	cmd := &cobra.Command{
		Use: "forget-credentials", Short: "Forget the CA and the admin tokens that the servers of a store share",
		Long: `Forget the CA and the admin tokens that the servers of an external store share. Every
server that runs records its own again within seconds, so this refuses the tokens of
servers that no longer run. To replace the CA of all servers, stop all of them first:
the first one that starts afterwards records its CA.`,
		Example: `  glowplug store forget-credentials --data-dir /var/lib/glowplug --nats-url nats://nats.example:4222`,
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Existing = true
			store, err := openStore(cmd, o)
			if err != nil {
				return err
			}
			defer store.Close()
			if o.NATSURL == "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(),
					"nothing to forget: only the servers of an external store share credentials")
				return err
			}
			if err := store.ForgetCredentials(cmd.Context()); err != nil {
				return withRemedy(err, o)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "forgotten: the credentials that the servers of %s share\n", store.Where())
			return err
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// newStoreDecision returns a command that shows what is stored and then executes a
// decision about it. check returns the reason why the decision is refused, for --dry-run too.
func newStoreDecision(name, short, long, example, done string,
	check func(*backend.Store, *ledger.Survey) error,
	decide func(*backend.Store, context.Context, *ledger.Survey) (string, error),
) *cobra.Command {
	var (
		o      backend.OperatorOptions
		dryRun bool
	)
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Example: example,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An external store may be adopted by a new server; an embedded one lies in the folder.
			o.Look, o.AcceptLoss = dryRun, name == lossCommand
			o.Existing = name != initCommand && o.NATSURL == ""
			dataDir, isNew := o.DataDir, false
			if _, err := os.Stat(dataDir); dryRun && !o.Existing && errors.Is(err, fs.ErrNotExist) {
				// An empty folder elsewhere stands for the one that the command would make.
				empty, err := os.MkdirTemp("", "glowplug-store-*")
				if err != nil {
					return err
				}
				defer os.RemoveAll(empty)
				o.DataDir, isNew = empty, true
			}
			store, err := openStore(cmd, o)
			if err != nil {
				return err
			}
			defer store.Close()
			where := store.Where()
			if isNew && o.NATSURL == "" {
				where = dataDir + ", which does not exist yet"
			}
			survey, err := store.Survey(cmd.Context())
			if err != nil {
				return withRemedy(err, o)
			}
			out := cmd.OutOrStdout()
			if err := writeSurvey(out, where, survey); err != nil {
				return err
			}
			if dryRun {
				if err := check(store, survey); err != nil {
					return err
				}
				identity := "a store with a new identity"
				if survey.Kept {
					identity = "store " + survey.Found
				}
				_, err := fmt.Fprintf(out, "would be %s: %s would belong to %s; nothing was changed\n", done, dataDir, identity)
				return err
			}
			id, err := decide(store, cmd.Context(), survey)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s: %s belongs to store %s from now on\n", done, dataDir, id)
			return err
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&dryRun, "dry-run", false,
		"show what is stored and whether the command would be refused, and change nothing")
	return cmd
}

func openStore(cmd *cobra.Command, o backend.OperatorOptions) (*backend.Store, error) {
	store, err := backend.OpenStore(cmd.Context(), o, warner(cmd))
	return store, stopFirst(err)
}

// writeSurvey writes what is stored and what was recorded.
func writeSurvey(w io.Writer, where string, s *ledger.Survey) error {
	fmt.Fprintf(w, "store: %s\nidentity found: %s\nidentity expected: %s\n", where, cmp.Or(s.Found, "none"),
		cmp.Or(s.Expected, "none"))
	if s.Mismatch != nil {
		fmt.Fprintf(w, "the server refuses this store: %s\n", s.Mismatch.Reason)
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
		reached := "-"
		if b.Reached > 0 {
			reached = strconv.FormatUint(b.Reached, 10)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", b.Name, objects, revision, reached)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, b := range s.Buckets {
		writeLost(w, "lost", b.Name, b.Lost)
		writeLost(w, "older than it was", b.Name, b.Older)
		writeLost(w, "back after it was deleted", b.Name, b.Back)
	}
	return nil
}

func writeLost(w io.Writer, what, bucket string, keys []string) {
	for _, key := range keys[:min(maxLost, len(keys))] {
		fmt.Fprintf(w, "%s: %s %s\n", what, bucket, key)
	}
	if more := len(keys) - maxLost; more > 0 {
		fmt.Fprintf(w, "%s: %d more of %s\n", what, more, bucket)
	}
}

// maxLost is how many lost objects of a bucket are named.
const maxLost = 50
