package boots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/batch"
	"glowplug/internal/store/ledger"
)

const (
	// ContentStream is the name of the stream of what machines were given.
	ContentStream = ledger.StreamPrefix + "BOOTCONTENT"
	// contentSubjects begins the subject of a message. The name of the content follows.
	contentSubjects = "GLOWPLUG.bootcontent."

	// maxWaiting bounds the memory of what waits to be stored, and maxContent that of one message, and of one batch.
	maxWaiting, maxContent = 64 << 20, 8 << 20
	pieceCost              = 256 // bytes, without the content
	// maxStored is of how much content it is known when it was stored.
	maxStored = 100_000
	// contentPause is between two batches: what machines are given at the same time is in one.
	contentPause = 500 * time.Millisecond
)

// ErrNotKept is of content that is not stored.
var ErrNotKept = errors.New("it is not kept")

// Content is what machines were given, each once, by a name with its hash: see model.ConfigContent. A message is
// removed after 1.5 times the age of the history. Where a boot begins or goes to the history 0.5 times the age after it
// was stored, it is stored again: so it is there as long as a boot in the history that names it. What was not stored
// before the process ended is lost.
type Content struct {
	*keptStream
	dropped prometheus.Counter
	wake    chan struct{}
	now     func() time.Time

	queueing sync.Mutex
	// stored has the times at which content was stored lately, or was given to this process to be stored.
	stored  map[string]time.Time
	queue   []piece
	waiting int // the memory of the queue, in bytes
	failing bool
}

// piece is content for the stream; with nil content, the stored copy is renewed if it is old.
type piece struct {
	name    string
	content []byte
}

func newContent(opts HistoryOptions) *Content {
	config := historyConfig(Limits{Age: opts.Keep.Age * 3 / 2, Bytes: opts.Keep.Bytes, PerHost: 1})
	config.Name, config.Subjects = ContentStream, []string{contentSubjects + "*"}
	config.Description = "what machines were given"
	return &Content{
		keptStream: newKeptStream(opts, config, "the content of boots", "what machines are given"),
		wake:       make(chan struct{}, 1), now: time.Now, stored: map[string]time.Time{},
		dropped: promauto.With(opts.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_content_dropped_total",
			Help: "Configs and scripts that machines were given and that could not be kept.",
		}),
	}
}

// Keep has content stored soon. It does not block. Nobody may change the content any more.
func (c *Content) Keep(name string, content []byte) {
	if len(content) > 0 {
		c.add(piece{name, content})
	}
}

// renew has what a boot names stored again.
func (c *Content) renew(boot *v1.Boot) {
	c.add(piece{name: model.ScriptContent(boot)})
	c.add(piece{name: model.ConfigContent(boot)})
}

func (c *Content) add(p piece) {
	c.queueing.Lock()
	defer c.queueing.Unlock()
	size := len(p.content) + pieceCost
	switch {
	case p.name == "" || c.isFresh(c.stored[p.name]):
		return
	case size > maxContent || c.waiting+size > maxWaiting:
		c.drop(errors.New("too much waits to be stored"), p)
		return
	case len(c.stored) > maxStored:
		clear(c.stored)
	}
	if p.content != nil {
		c.stored[p.name] = c.now()
	}
	c.queue, c.waiting = append(c.queue, p), c.waiting+size
	notify(c.wake)
}

// isFresh reports whether what was stored at a time need not be stored again.
func (c *Content) isFresh(at time.Time) bool {
	return !at.IsZero() && (c.opts.Keep.Age == 0 || c.now().Sub(at) < c.opts.Keep.Age/2)
}

// drop gives up content.
func (c *Content) drop(err error, pieces ...piece) {
	c.dropped.Add(float64(len(pieces)))
	if !c.failing {
		c.failing = true
		c.opts.Logger.Warn("what machines are given is not kept", "contents", len(pieces), "error", err)
	}
	for _, p := range pieces {
		delete(c.stored, p.name)
	}
}

// Run stores content until ctx ends, and then what waits. While NATS is away, it waits.
func (c *Content) Run(ctx context.Context, js jetstream.JetStream) {
	open, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { c.keptStream.Run(open, js) })
	for ctx.Err() == nil {
		sleep(ctx, idle, c.wake)
		for ctx.Err() == nil && c.waits() {
			sleep(ctx, contentPause, nil)
			c.write(open)
		}
	}
	for c.waits() && c.write(open) { // what has come in the last pause
	}
	end()
	running.Wait()
}

func (c *Content) waits() bool {
	c.queueing.Lock()
	defer c.queueing.Unlock()
	return len(c.queue) > 0
}

// write stores a batch, unless the stream cannot be used.
func (c *Content) write(ctx context.Context) (isOpen bool) {
	js, _, err := c.use()
	if err != nil {
		return false
	}
	pieces, size := c.next()
	msgs, err := c.messages(ctx, pieces)
	if err == nil && len(msgs) > 0 {
		err = errors.Join(c.opts.Writable(), c.opts.Room(size))
	}
	if err == nil && len(msgs) > 0 {
		ctx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		_, err = batch.Publish(ctx, js, msgs)
	}
	c.queueing.Lock()
	defer c.queueing.Unlock()
	if err != nil {
		c.drop(c.noticed(err), pieces...)
	} else if c.failing && len(msgs) > 0 {
		c.failing = false
		c.opts.Logger.Info("what machines are given is kept again")
	}
	return true
}

// next removes the pieces of a batch from the queue, and returns their memory.
func (c *Content) next() (pieces []piece, size int) {
	c.queueing.Lock()
	defer c.queueing.Unlock()
	for len(pieces) < min(len(c.queue), batch.Max) && size < maxContent {
		p := c.queue[len(pieces)]
		pieces, size = append(pieces, p), size+len(p.content)+pieceCost
	}
	c.queue, c.waiting = c.queue[len(pieces):], c.waiting-size
	return pieces, size
}

// messages returns the messages of pieces.
func (c *Content) messages(ctx context.Context, pieces []piece) (msgs []*nats.Msg, err error) {
	for _, p := range pieces {
		if p.content == nil {
			p.content = c.old(ctx, p.name)
		}
		if p.content == nil {
			continue
		}
		msg := nats.NewMsg(contentSubjects + encodeToken(p.name))
		if msg.Data, err = c.opts.Cipher.Encrypt(ctx, p.name, p.content); err != nil {
			return nil, err
		}
		msgs = append(msgs, msg)
	}
	return msgs, nil
}

// old returns what is stored of a name if that is old.
func (c *Content) old(ctx context.Context, name string) []byte {
	c.queueing.Lock()
	at := c.stored[name]
	c.queueing.Unlock()
	if c.isFresh(at) {
		return nil
	}
	content, at, err := c.get(ctx, name)
	if err != nil {
		return nil
	}
	if c.isFresh(at) {
		content = nil
	} else {
		at = c.now()
	}
	c.queueing.Lock()
	defer c.queueing.Unlock()
	c.stored[name] = at
	return content
}

// Get returns the content of a name. The error is ErrNotKept where there is none.
func (c *Content) Get(ctx context.Context, name string) ([]byte, error) {
	content, _, err := c.get(ctx, name)
	return content, err
}

func (c *Content) get(ctx context.Context, name string) (content []byte, at time.Time, err error) {
	if name == "" {
		return nil, at, ErrNotKept
	}
	_, stream, err := c.use()
	if err != nil {
		return nil, at, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	msg, err := stream.GetLastMsgForSubject(ctx, contentSubjects+encodeToken(name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, at, ErrNotKept
	}
	if err != nil {
		return nil, at, c.noticed(fmt.Errorf("reading what machines were given: %w", err))
	}
	content, _, err = c.opts.Cipher.Decrypt(ctx, name, msg.Data)
	return content, msg.Time, err
}
