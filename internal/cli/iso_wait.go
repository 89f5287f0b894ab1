package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// waitPause is the time between two looks at an image.
const waitPause = time.Second

func newISOWaitCommand() *cobra.Command {
	var (
		client    clientOptions
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
			w := waiter{client: &client, path: cdromsPath(namespace) + "/" + url.PathEscape(args[0]), notes: cmd.ErrOrStderr()}
			cdrom, err := w.run(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return withHint(fmt.Errorf("ISCSICdrom %s is not ready after %s: %s", args[0], timeout, w.last), "the server goes on by itself")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), readySentence(cdrom))
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", v1.NamespaceDefault, "namespace of the ISCSICdrom")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (default never)")
	return cmd
}

// waiter looks at an image again and again.
type waiter struct {
	client *clientOptions
	path   string
	notes  io.Writer
	bar    *progress
	label  string
	// last is what it was at the last look, in words.
	last string
}

func (w *waiter) run(ctx context.Context) (*v1.ISCSICdrom, error) {
	w.last = "the server has not answered"
	defer w.draw(nil)
	for {
		body, err := w.client.get(ctx, w.path, nil)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		cdrom := &v1.ISCSICdrom{}
		if err := json.Unmarshal(body, cdrom); err != nil {
			return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		done, err := settled(cdrom)
		if done || err != nil {
			return cdrom, err
		}
		w.draw(cdrom)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(waitPause):
		}
	}
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

// settled tells whether an image is what it asks for, or the error why it cannot be.
func settled(cdrom *v1.ISCSICdrom) (bool, error) {
	s := &cdrom.Status
	failed := func(why string) (bool, error) {
		return false, withHint(fmt.Errorf("ISCSICdrom %s: %s", cdrom.Name, why), "the server tries again by itself; `kubectl describe cdrom "+cdrom.Name+"` tells more")
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
