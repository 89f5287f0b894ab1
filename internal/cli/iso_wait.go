package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/report"
)

func newISOWaitCommand() *cobra.Command {
	var (
		options clientOptions
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until an ISO image is ready",
		Long: `Wait until the image of the ISCSICdrom NAME is ready, and show the progress of its
download. An image of a stream is ready when the requested release is served.

The command fails as soon as the server reports an error of the image. The server
itself goes on trying.`,
		Example: `  glowplug iso wait coreos -n g10
  glowplug iso wait coreos --timeout 10m`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if timeout < 0 {
				return usagef("--timeout: %s is negative", timeout)
			}
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			c, err := options.connect(ctx)
			if err != nil {
				return err
			}
			w := waiter{client: c, namespace: options.namespace(), name: args[0], notes: cmd.ErrOrStderr(), bar: &progress{}}
			cdrom, err := w.run(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return w.late(timeout)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), readySentence(cdrom))
			return err
		},
	}
	options.addFlags(cmd)
	options.completeArgument(cmd, cdroms, cobra.ShellCompDirectiveNoFileComp)
	options.addNamespace(cmd, "namespace of the ISCSICdrom")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (default never)")
	return cmd
}

// waiter follows an image until it is ready.
type waiter struct {
	client          *client.Client
	namespace, name string
	notes           io.Writer
	// bar is of the download that label names.
	bar   *progress
	label string
	// last is the newest known state, in words.
	last string
	// idle is true while the server waits for an upload.
	idle bool
}

// late is the error for an image that is not ready in time.
func (w *waiter) late(timeout time.Duration) error {
	err := fmt.Errorf("ISCSICdrom %s is not ready after %s: %s", w.name, timeout, w.last)
	if w.idle {
		return err
	}
	return withHint(err, "the server itself goes on trying")
}

func (w *waiter) run(ctx context.Context) (*v1.ISCSICdrom, error) {
	w.last = "the server has not answered"
	defer func() { w.bar.done() }()
	cdrom := &v1.ISCSICdrom{}
	_, err := w.client.Do(ctx, &client.Request{Resource: cdroms, Namespace: w.namespace, Name: w.name}, cdrom)
	if err == nil {
		var ready bool
		if ready, err = w.show(cdrom); ready || err != nil {
			return cdrom, err
		}
		quiet := klog.NewContext(ctx, klog.Logger{}) // without log lines where a watch is repeated
		watcher := w.client.Watcher(cdroms, w.namespace, w.name)
		_, err = watchtools.Until(quiet, cdrom.ResourceVersion, watcher, func(event watch.Event) (bool, error) {
			var ok bool
			if cdrom, ok = event.Object.(*v1.ISCSICdrom); !ok {
				return false, apierrors.FromObject(event.Object)
			}
			if event.Type == watch.Deleted {
				return false, fmt.Errorf("ISCSICdrom %s was deleted", w.name)
			}
			return w.show(cdrom)
		})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return cdrom, inNamespace(remedied(err), w.namespace)
}

// show shows the state of the image, and reports whether it is ready.
func (w *waiter) show(cdrom *v1.ISCSICdrom) (bool, error) {
	done, err := isReady(cdrom)
	if done || err != nil {
		return done, err
	}
	w.last = strings.TrimSpace(cdrom.Status.Phase + " " + progressSentence(&cdrom.Status))
	if w.idle = cdrom.Status.Phase == v1.PhasePending; w.idle {
		w.last = cdrom.Status.Phase + prefixed(": ", cdrom.Status.ErrorMessage)
	}
	if d := cdrom.Status.Download; d != nil && d.Total > 0 {
		if label := strings.TrimSpace(d.Release + " " + d.File); label != w.label {
			w.bar.done()
			w.bar, w.label = newProgress(w.notes, label, d.Total), label
		}
		w.bar.add(d.Received - w.bar.now)
	}
	return false, nil
}

// isReady reports whether the requested image is served, or returns the reason why it
// cannot be.
func isReady(cdrom *v1.ISCSICdrom) (bool, error) {
	s := &cdrom.Status
	c := meta.FindStatusCondition(s.Conditions, v1.ConditionUpToDate)
	switch {
	case cdrom.Spec.Stream != nil && (c == nil || c.ObservedGeneration != cdrom.Generation):
		return false, nil // not reconciled yet
	case s.Phase == v1.PhaseError,
		c != nil && c.Status == metav1.ConditionFalse && s.ErrorMessage != "":
		hint := "`kubectl describe cdrom " + cdrom.Name + prefixed(" -n ", cdrom.Namespace) + "` has the details"
		if cdrom.Spec.Stream != nil {
			hint = "the server tries again by itself; " + hint
		}
		return false, withHint(fmt.Errorf("ISCSICdrom %s: %s", cdrom.Name, s.ErrorMessage), hint)
	case c != nil && c.Status != metav1.ConditionTrue:
		return false, nil
	}
	return s.Phase == v1.PhaseReady, nil
}

func readySentence(cdrom *v1.ISCSICdrom) string {
	sentence := cdrom.Name + " is ready"
	if release := cdrom.Status.ServedRelease; release != "" {
		sentence += ", release " + release
	}
	if size := report.Size(cdrom.Status.ISOSize); size != "" {
		sentence += ", " + size
	}
	return sentence
}

// progressSentence describes the download of an image; "" where there is none.
func progressSentence(s *v1.ISCSICdromStatus) string {
	d := s.Download
	if d == nil {
		return ""
	}
	sentence := strings.Join(strings.Fields("downloading "+d.Release+" "+d.File), " ")
	if d.Total > 0 {
		return fmt.Sprintf("%s: %d%% of %s", sentence, 100*min(d.Received, d.Total)/d.Total, report.Size(d.Total))
	}
	return sentence + prefixed(": ", report.Size(d.Received))
}
