// Package stream posts which release of a CoreOS stream is current, for clients of
// the API: in the status of the releases, and whole in a ConfigMap, as seed 3 has
// it. A replica that is behind posts nothing old, and several post the same once.
package stream

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/streams"
)

// Keys of the ConfigMap, and the annotation with the name of the stream in it.
const (
	KeyStream        = "stream"
	KeyRelease       = "releaseVersion"
	AnnotationStream = "glowplug.dev/stream"
)

const (
	// requestTimeout bounds one request to the API.
	requestTimeout = 30 * time.Second
	// retryLeast and retryMost bound the pause after a failure, which doubles.
	retryLeast = 250 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Recorder takes what happened to an object, for an Event.
type Recorder interface {
	Record(ref v1.ObjectReference, eventType, reason, message string)
}

// Options are what a Bulletin stands on.
type Options struct {
	// Library knows the releases.
	Library *streams.Library
	// API is a client of the API at Base, a URL without a slash at its end.
	API  *http.Client
	Base string
	// Fresh returns once the Library knows every release that was stored when it was
	// called.
	Fresh func(context.Context) error
	// Namespace and Name are the ConfigMap's; empty: there is none.
	Namespace, Name string
	// Stream is the stream that the ConfigMap shows; empty: the one that it showed
	// before, at first the one that was imported first.
	Stream string
	// Recorder takes what stands in the way; nil: nobody.
	Recorder Recorder
	// Logger takes what is posted; nil discards it.
	Logger *slog.Logger
}

// Bulletin posts, from Run on, until that ends.
type Bulletin struct {
	opts Options
	// wake holds at most one token: something has changed since it was taken.
	wake chan struct{}
	// refused is the version of the ConfigMap that was found to be immutable.
	refused string
	// dispute is about what was written into the ConfigMap last.
	dispute dispute
}

// dispute counts how often the same has had to be written again, for somebody else
// writes another thing: a replica with other flags, or another program. Neither is to
// keep the store busy.
type dispute struct {
	document, release string
	at                time.Time
	times             int
}

const (
	// patience is how often others are overruled at once, calm the time after which
	// that is forgotten.
	patience = 3
	calm     = 2 * retryMost
)

// write notes that a release is about to be written, and gives the time to wait
// before.
func (d *dispute) write(hash, release string, now time.Time) time.Duration {
	if d.document != hash || d.release != release || now.Sub(d.at) > calm {
		*d = dispute{document: hash, release: release, at: now}
		return 0
	}
	d.at = now
	d.times++
	if d.times <= patience {
		return 0
	}
	return min(retryLeast<<min(d.times-patience, 16), retryMost)
}

// New makes a Bulletin, which follows the Library from now on.
func New(opts Options) *Bulletin {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bulletin{opts: opts, wake: make(chan struct{}, 1)}
	opts.Library.Changed(func(string) { b.poke() })
	return b
}

// poke has everything looked at again.
func (b *Bulletin) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run posts until ctx ends. What could not be posted is tried again.
func (b *Bulletin) Run(ctx context.Context) {
	pause := time.Duration(0)
	for {
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-again:
		}
		err := b.post(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = 0
		default:
			pause = min(max(2*pause, retryLeast), retryMost)
			b.opts.Logger.Warn("the current releases of streams could not be posted; trying again", "error", err, "pause", pause)
		}
	}
}

// post brings the status of the releases and the ConfigMap up to date.
func (b *Bulletin) post(ctx context.Context) error {
	if err := b.opts.Fresh(ctx); err != nil {
		return err
	}
	var first error
	for _, stream := range b.opts.Library.Streams() {
		if err := b.mark(ctx, stream); err != nil && first == nil {
			first = err
		}
	}
	if b.opts.Name != "" {
		if err := b.postMap(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Observer follows the ConfigMaps: one that somebody has changed is put right.
func (b *Bulletin) Observer() kvstore.Observer { return (*observer)(b) }

type observer Bulletin

func (o *observer) Load([]kvstore.Item)         { (*Bulletin)(o).poke() }
func (o *observer) Put(item kvstore.Item)       { o.touched(item.Key) }
func (o *observer) Delete(key string, _ uint64) { o.touched(key) }

func (o *observer) touched(key string) {
	if key == o.opts.Namespace+"/"+o.opts.Name {
		(*Bulletin)(o).poke()
	}
}
