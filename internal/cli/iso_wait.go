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
)

func newISOWaitCommand() *cobra.Command {
	var (
		options   clientOptions
		namespace string
		timeout   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until an ISO image is ready",
		Long: `Wait until the image of the ISCSICdrom NAME is ready, and show how far its download
is. An image of a stream is ready when the release that it asks for is served.

It fails as soon as the server says why the image cannot be had. The server goes
on trying by itself.`,
		Example: `  glowplug iso wait coreos -n g10
  glowplug iso wait coreos --timeout 10m`,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if timeout < 0 {
				return usagef("--timeout: %s is less than nothing", timeout)
			}
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			c, err := options.connect()
			if err != nil {
				return err
			}
			w := waiter{client: c, namespace: namespace, name: args[0], notes: cmd.ErrOrStderr()}
			cdrom, err := w.run(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return withHint(fmt.Errorf("ISCSICdrom %s is not ready after %s: %s", args[0], timeout, w.last),
					"the server goes on by itself")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), readySentence(cdrom))
			return err
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", v1.NamespaceDefault, "namespace of the ISCSICdrom")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (default never)")
	return cmd
}

// waiter follows an image until it is ready.
type waiter struct {
	client          *client.Client
	namespace, name string
	notes           io.Writer
	bar             *progress
	label           string
	// last is the state that was seen last, in words.
	last string
}

func (w *waiter) run(ctx context.Context) (*v1.ISCSICdrom, error) {
	w.last = "the server has not answered"
	defer w.draw(nil)
	cdrom := &v1.ISCSICdrom{}
	_, err := w.client.Do(ctx, &client.Request{Resource: cdroms, Namespace: w.namespace, Name: w.name}, cdrom)
	if err == nil {
		var ready bool
		if ready, err = w.seen(cdrom); ready || err != nil {
			return cdrom, err
		}
		quiet := klog.NewContext(ctx, klog.Logger{}) // a watch is begun again without a line on the terminal
		watcher := w.client.Watcher(cdroms, w.namespace, w.name)
		_, err = watchtools.Until(quiet, cdrom.ResourceVersion, watcher, func(event watch.Event) (bool, error) {
			var ok bool
			if cdrom, ok = event.Object.(*v1.ISCSICdrom); !ok {
				return false, apierrors.FromObject(event.Object)
			}
			if event.Type == watch.Deleted {
				return false, fmt.Errorf("ISCSICdrom %s was deleted", w.name)
			}
			return w.seen(cdrom)
		})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return cdrom, remedied(err)
}

// seen shows the state of the image, and reports whether it is ready.
func (w *waiter) seen(cdrom *v1.ISCSICdrom) (bool, error) {
	done, err := settled(cdrom)
	if !done && err == nil {
		w.draw(cdrom)
	}
	return done, err
}

// draw shows how far the download is; nil: no longer.
func (w *waiter) draw(cdrom *v1.ISCSICdrom) {
	var d *v1.DownloadProgress
	if cdrom != nil {
		d = cdrom.Status.Download
		w.last = strings.TrimSpace(cdrom.Status.Phase + " " + progressSentence(&cdrom.Status))
	}
	label := ""
	if d != nil && d.Total > 0 {
		label = strings.TrimSpace(d.Release + " " + d.File)
	}
	if w.bar != nil && label != w.label {
		w.bar.done()
		w.bar = nil
	}
	if label == "" {
		return
	}
	if w.bar == nil {
		w.bar, w.label = newProgress(w.notes, label, d.Total), label
	}
	w.bar.add(d.Received - w.bar.now)
}

// settled reports whether an image is what it asks for, or the error why it cannot be.
func settled(cdrom *v1.ISCSICdrom) (bool, error) {
	s := &cdrom.Status
	failed := func(why string) (bool, error) {
		return false, withHint(fmt.Errorf("ISCSICdrom %s: %s", cdrom.Name, why),
			"the server tries again by itself; `kubectl describe cdrom "+cdrom.Name+"` tells more")
	}
	c := meta.FindStatusCondition(s.Conditions, v1.ConditionUpToDate)
	switch {
	case cdrom.Spec.Stream != nil && (c == nil || c.ObservedGeneration != cdrom.Generation):
		return false, nil // not looked at yet
	case s.Phase == v1.PhaseError:
		return failed(s.ErrorMessage)
	case c != nil && c.Status == metav1.ConditionFalse && s.ErrorMessage != "":
		return failed(s.ErrorMessage)
	case c != nil && c.Status != metav1.ConditionTrue:
		return false, nil
	}
	return s.Phase == v1.PhaseReady, nil
}

func readySentence(cdrom *v1.ISCSICdrom) string {
	parts := []string{cdrom.Name + " is ready"}
	if cdrom.Status.ServedRelease != "" {
		parts = append(parts, "release "+cdrom.Status.ServedRelease)
	}
	if cdrom.Status.ISOSize > 0 {
		parts = append(parts, byteCount(cdrom.Status.ISOSize))
	}
	return strings.Join(parts, ", ")
}

// progressSentence says how far the download of an image is; "" where there is none.
func progressSentence(s *v1.ISCSICdromStatus) string {
	d := s.Download
	if d == nil {
		return ""
	}
	what := "downloading"
	for _, word := range []string{d.Release, d.File} {
		if word != "" {
			what += " " + word
		}
	}
	if d.Total <= 0 {
		return what + fmt.Sprintf(": %s", byteCount(d.Received))
	}
	return what + fmt.Sprintf(": %d%% of %s", 100*min(d.Received, d.Total)/d.Total, byteCount(d.Total))
}
