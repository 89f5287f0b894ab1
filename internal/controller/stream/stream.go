// Package stream publishes which release of a CoreOS stream is current, for clients of
// the API: in the status of the releases, and with its document in a ConfigMap of the
// form that OpenShift's has. A replica that is behind publishes nothing old, and several
// publish the same once.
package stream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/controller"
	"glowplug/internal/store/streams"
)

// fieldManager owns the fields that are written.
const fieldManager = "glowplug"

// Recorder takes what happened to an object, for an Event.
type Recorder interface {
	Record(ref v1.ObjectReference, eventType, reason, message string)
}

// Options are the parts of a Controller.
type Options struct {
	// Library has the releases.
	Library *streams.Library
	// Client writes through the API of this server, which answers a list once the
	// Library has all that the list holds.
	Client *client.Client
	// Namespace and Name are the ConfigMap's; empty: there is none.
	Namespace, Name string
	// Stream is the stream that the ConfigMap shows; empty: the one that it showed
	// before, at first the one that was imported first.
	Stream string
	// Recorder takes the Event that the ConfigMap is immutable.
	Recorder Recorder
	// Metrics counts reconciles; nil: nothing does.
	Metrics *controller.Metrics
	// Logger takes what is published; nil discards it.
	Logger *slog.Logger
}

// key is the name of a stream, whose releases have a status, or configMap.
type key string

// configMap is no name that a stream can have.
const configMap key = "(ConfigMap)"

// Controller publishes while Run runs.
type Controller struct {
	opts  Options
	queue *controller.Controller[key]
	// refused is the version of the ConfigMap that was found to be immutable.
	refused string
	// rewrites bounds those of the ConfigMap.
	rewrites *rewrites
}

// New returns a Controller, and has the Library report changes to it.
func New(opts Options) *Controller {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controller{opts: opts, rewrites: newRewrites()}
	c.queue = controller.New(controller.Options[key]{
		Name: "stream", Reconcile: c.reconcile, List: c.list, Metrics: opts.Metrics, Logger: opts.Logger,
	})
	opts.Library.Changed(c.changed)
	return c
}

// Run publishes until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.opts.Name != "" {
		ctx, cancel := context.WithCancel(ctx)
		followed := make(chan struct{})
		go func() { defer close(followed); wait.UntilWithContext(ctx, c.follow, time.Second) }()
		defer func() { cancel(); <-followed }()
	}
	c.queue.Run(ctx)
}

// follow queues the ConfigMap after each change of it by others, until the watch ends.
func (c *Controller) follow(ctx context.Context) {
	source := c.opts.Client.Watcher("configmaps", c.opts.Namespace, c.opts.Name)
	watcher, err := source.WatchWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer watcher.Stop()
	c.queue.Enqueue(configMap) // it may have changed since the last watch
	for range watcher.ResultChan() {
		c.queue.Enqueue(configMap)
	}
}

// changed queues what shows a stream.
func (c *Controller) changed(stream string) {
	c.queue.Enqueue(key(stream))
	c.queue.Enqueue(configMap)
}

func (c *Controller) list(_ context.Context, enqueue func(key)) error {
	enqueue(configMap)
	for _, stream := range c.opts.Library.Streams() {
		enqueue(key(stream))
	}
	return nil
}

func (c *Controller) reconcile(ctx context.Context, k key) (time.Duration, error) {
	switch {
	case k != configMap:
		return 0, c.mark(ctx, string(k))
	case c.opts.Name != "":
		return c.publish(ctx)
	}
	return 0, nil
}

// catchUp returns once the Library has every release that was stored when it was called:
// a list without a version waits for the newest.
func (c *Controller) catchUp(ctx context.Context) error {
	_, err := c.opts.Client.Do(ctx, &client.Request{Resource: "streamreleases", Query: url.Values{"limit": {"1"}}}, nil)
	return err
}

// mark writes in the status of a stream's releases which one is current.
func (c *Controller) mark(ctx context.Context, stream string) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	releases := c.opts.Library.Releases(stream)
	for i, s := range releases {
		current := i == len(releases)-1
		if s.Marked == current {
			continue
		}
		_, err := c.opts.Client.Do(ctx, &client.Request{
			Method: http.MethodPatch, Resource: "streamreleases", Name: s.Name, Subresource: "status",
			Query:  url.Values{"fieldManager": {fieldManager}},
			Header: map[string]string{"Content-Type": "application/merge-patch+json"},
			Body:   fmt.Appendf(nil, `{"status":{"current":%t}}`, current),
		}, nil)
		if err != nil && client.Code(err) != http.StatusNotFound {
			return err
		}
		if current {
			c.opts.Logger.Info("a release has become current", "stream", stream, "release", s.Release)
		}
	}
	return nil
}
