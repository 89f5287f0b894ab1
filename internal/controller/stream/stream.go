// Package stream publishes which release of a CoreOS stream is current, for clients of
// the API: in the status of the releases, and with its document in a ConfigMap of the
// form that OpenShift's has. A replica that is behind publishes nothing old, and several
// publish the same once.
package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/controller"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
	"glowplug/internal/store/streams"
)

// fieldManager owns the fields that are written.
const fieldManager = "glowplug"

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
	Recorder controller.Recorder
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
	opts    Options
	queue   *controller.Controller[key]
	changes *feed.Subscription[string]
	// refused is the version of the ConfigMap that was found to be immutable.
	refused string
	// rewrites bounds those of the ConfigMap.
	rewrites *rewrites
}

// New returns a Controller, which publishes nothing before Run.
func New(opts Options) *Controller {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Controller{opts: opts, rewrites: newRewrites()}
	c.queue = controller.New(controller.Options[key]{
		Name: "stream", Reconcile: c.reconcile, Metrics: opts.Metrics, Logger: opts.Logger,
		List: func(context.Context) ([]key, error) { return c.all(), nil },
	})
	c.changes = opts.Library.Subscribe()
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
	defer c.changes.Follow(ctx, c.changed)()
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

// changed queues what shows a stream, or all.
func (c *Controller) changed(stream string) {
	keys := []key{key(stream), configMap}
	if stream == "" {
		keys = c.all()
	}
	for _, k := range keys {
		c.queue.Enqueue(k)
	}
}

func (c *Controller) all() []key {
	keys := []key{configMap}
	for _, stream := range c.opts.Library.Streams() {
		keys = append(keys, key(stream))
	}
	return keys
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

// Keys of the ConfigMap.
const (
	KeyStream  = "stream"
	KeyRelease = "releaseVersion"
)

// conflictPause is the time before a ConfigMap is read again that somebody else wrote at
// the same time.
const conflictPause = 50 * time.Millisecond

// publish writes the current release into the ConfigMap, where it is another than the
// one there.
//
// The order of the reads is what keeps a replica that is behind from publishing an old
// release: the releases are read after the ConfigMap that is replaced, so that what
// they say is no older than what it says.
func (c *Controller) publish(ctx context.Context) (requeueAfter time.Duration, err error) {
	request := client.Request{Resource: "configmaps", Namespace: c.opts.Namespace, Name: c.opts.Name}
	cm := v1.ConfigMap{}
	_, err = c.opts.Client.Do(ctx, &request, &cm)
	missing := client.Code(err) == http.StatusNotFound
	if err != nil && !missing {
		return 0, err
	}
	if err := c.catchUp(ctx); err != nil {
		return 0, err
	}
	current := c.opts.Library.Current(c.shown(&cm))
	if current == nil || cm.Data[KeyStream] == string(current.Document.Raw) && cm.Data[KeyRelease] == current.Release &&
		cm.Annotations[v1.AnnotationStream] == current.Stream {
		return 0, nil // a ConfigMap outlives the releases of its stream: better old than none
	}
	if cm.Immutable != nil && *cm.Immutable {
		c.immutable(&cm)
		return 0, nil
	}
	if pause := c.rewrites.pause(written{current.Document.Hash, current.Release}, time.Now()); pause > 0 {
		return pause, nil
	}
	fill(&cm, current)
	request.Method, request.Query, request.Body = http.MethodPut, url.Values{"fieldManager": {fieldManager}}, &cm
	done := "replaced"
	if missing {
		cm.Name, cm.Namespace = c.opts.Name, c.opts.Namespace
		request.Method, request.Name, done = http.MethodPost, "", "created"
	}
	_, err = c.opts.Client.Do(ctx, &request, nil)
	switch client.Code(err) {
	case http.StatusConflict, http.StatusNotFound: // written, or deleted, since it was read
		return conflictPause, nil
	}
	if err != nil {
		return 0, err
	}
	c.opts.Logger.Info("the ConfigMap of CoreOS boot images was "+done, "configmap", c.opts.Namespace+"/"+c.opts.Name,
		"stream", current.Stream, "release", current.Release)
	if pause := c.rewrites.wrote(time.Now()); pause >= time.Second {
		c.opts.Logger.Warn("somebody else writes the ConfigMap of CoreOS boot images too: "+
			"a server with another --coreos-configmap-stream, or another program",
			"configmap", c.opts.Namespace+"/"+c.opts.Name, "pause", pause)
	}
	return 0, nil
}

// shown returns the stream that the ConfigMap is to show. It never turns to another by
// itself: who acts on it would take that for a release.
func (c *Controller) shown(cm *v1.ConfigMap) string {
	if c.opts.Stream != "" {
		return c.opts.Stream
	}
	if before := cm.Annotations[v1.AnnotationStream]; before != "" {
		return before
	}
	return c.opts.Library.First()
}

// fill puts a release into a ConfigMap. Keys of others stay.
func fill(cm *v1.ConfigMap, current *streams.Stored) {
	cm.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: v1.SchemeGroupVersion.String()}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Data[KeyStream] = string(current.Document.Raw)
	cm.Data[KeyRelease] = current.Release
	cm.Annotations[v1.AnnotationStream] = current.Stream
	delete(cm.BinaryData, KeyStream)
	delete(cm.BinaryData, KeyRelease)
}

// immutable says, once for each version, that the ConfigMap cannot be kept in step.
func (c *Controller) immutable(cm *v1.ConfigMap) {
	version := string(cm.UID) + cm.ResourceVersion
	if c.refused == version {
		return
	}
	c.refused = version
	const sentence = "it is immutable and shows an old release: delete it, and it is made anew"
	c.opts.Logger.Warn("the ConfigMap of CoreOS boot images is not kept in step",
		"configmap", c.opts.Namespace+"/"+c.opts.Name, "error", sentence)
	object := controller.Reference("ConfigMap", model.Ref{Namespace: cm.Namespace, Name: cm.Name}, cm.UID)
	c.opts.Recorder.Record(object, v1.EventWarning, "NotInStep", sentence)
}

const (
	// rewritePauseMin and rewritePauseMax bound the pause before the same release is
	// written again, which doubles; after rewriteCalm without one it begins at the minimum again.
	rewritePauseMin = 50 * time.Millisecond
	rewritePauseMax = 30 * time.Second
	rewriteCalm     = 2 * rewritePauseMax
)

// written is a release that was written into the ConfigMap.
type written struct{ document, release string }

// rewrites bounds how often the same release is written, because somebody else writes
// another in between: a replica with other flags, or another program. Neither is to keep
// the store busy.
type rewrites struct {
	backOff workqueue.TypedRateLimiter[written]
	last    written
	next    time.Time
}

func newRewrites() *rewrites {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[written](rewritePauseMin, rewritePauseMax)
	return &rewrites{backOff: limiter}
}

// pause returns the time to wait before a release is written.
func (r *rewrites) pause(release written, now time.Time) time.Duration {
	if release != r.last || now.Sub(r.next) > rewriteCalm {
		r.backOff.Forget(r.last)
		r.last, r.next = release, now
	}
	return r.next.Sub(now)
}

// wrote notes that the release was written, and returns the time before the next write.
func (r *rewrites) wrote(now time.Time) time.Duration {
	pause := r.backOff.When(r.last)
	r.next = now.Add(pause)
	return pause
}
