package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/backend"
	"glowplug/internal/client"
	"glowplug/internal/domain/wording"
)

// exitProblems is the exit code of a check that has found something.
const exitProblems exitError = 3

func newFsckCommand() *cobra.Command {
	var (
		options clientOptions
		store   backend.Options
		stopped bool
		output  string
	)
	cmd := &cobra.Command{
		Use: "fsck", Short: "Read all that is stored, and name what is damaged or lost",
		Long: `Read all that is stored, at a server that runs or with --stopped in a store itself: whether each
object can be read, with its checksum and its encryption, whether an object is lost that the server
knows of, and whether the history of boots can be read. Nothing is changed.

Damaged and lost objects come back from a backup: glowplug restore FILE --only RESOURCE/NAMESPACE/NAME.
A bucket that is missing or damaged as a whole takes no objects: glowplug restore FILE --replace
restores the whole store. Both are for a server that is stopped.
The exit code is 3 if there is a problem.`,
		Example: `  glowplug fsck
  glowplug fsck --stopped --data-dir /var/lib/glowplug`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checked, err := fsck(cmd, &options, &store, stopped)
			if err != nil {
				return err
			}
			err = writeAs(cmd.OutOrStdout(), output, checked, func(out io.Writer) error {
				return printChecked(out, cmd.ErrOrStderr(), checked)
			})
			if err == nil && len(checked.Problems) > 0 {
				err = exitProblems
			}
			return err
		},
	}
	options.addFlags(cmd)
	cmd.Flags().BoolVar(&stopped, "stopped", false, "the server is stopped: read its store itself")
	addOutput(cmd, &output)
	store.AddFlags(cmd.Flags())
	return cmd
}

func fsck(cmd *cobra.Command, o *clientOptions, store *backend.Options, stopped bool) (*backend.Checked, error) {
	if stopped {
		if err := store.Check(); err != nil {
			return nil, err
		}
		checked, err := backend.FsckStopped(cmd.Context(), store, warner(cmd))
		return checked, stopFirst(err)
	}
	c, err := o.connect(cmd.Context())
	if err != nil {
		return nil, err
	}
	var answer bytes.Buffer // it may take longer than other requests
	request := client.Request{Method: http.MethodGet, Path: "/api/v1/fsck", Download: &answer}
	if _, err := c.Do(cmd.Context(), &request, nil); err != nil {
		return nil, remedied(err)
	}
	checked := &backend.Checked{}
	return checked, json.Unmarshal(answer.Bytes(), checked)
}

// printChecked prints the result for people.
func printChecked(out, notes io.Writer, c *backend.Checked) error {
	for _, p := range c.Problems {
		fmt.Fprintf(out, "%s: %s\n", p.Object, p.Reason)
	}
	objects := 0
	for _, n := range c.Objects {
		objects += n
	}
	if n := len(c.NotKept); n > 0 {
		fmt.Fprintf(out, "note: of %d boots it is not kept what the machine was given; no machine needs it\n", n)
	}
	fmt.Fprintf(out, "read: %s, %s of the history, %s that machines were given\n", wording.Count(objects, "object", "objects"),
		wording.Count(c.Boots, "boot", "boots"), wording.Count(c.Contents, "config or script", "configs and scripts"))
	problems := len(c.Problems) + c.More
	if problems == 0 {
		_, err := fmt.Fprintln(out, "no problem was found")
		return err
	}
	_, err := fmt.Fprintln(out, wording.Count(problems, "problem", "problems"))
	remedy := "stop the server; `glowplug restore FILE --only OBJECT` then puts objects back from a backup"
	if slices.ContainsFunc(c.Problems, func(p backend.Problem) bool { return !strings.Contains(p.Object, "/") }) {
		remedy = "this takes more than single objects: stop the server and put the whole store back from a backup " +
			"(`glowplug restore FILE --replace`), or see with `glowplug store accept-loss --dry-run` what is left of it"
	}
	fmt.Fprintln(notes, "hint: "+remedy)
	return err
}
