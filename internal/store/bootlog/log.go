// Package bootlog keeps what machines have done until the status of their hosts
// says it: a log in a JetStream stream of its own. Each of its messages holds the
// states of many hosts, so that one write to the disk makes hundreds of states
// durable; a status for each would take as many writes.
//
// Every state has a position, which rises for each host. The status of a host
// has the position that it includes, so that a state which is read twice, or
// which the server brings back after it was removed, changes nothing.
package bootlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/keylog"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
	"glowplug/internal/store/session"
)

const (
	// Stream is the name of the stream, in NATS and in the ledger.
	Stream = ledger.StreamPrefix + "BOOTSTATES"
	// subjects are those of the messages; the last part is the server's own.
	subjects = "GLOWPLUG.bootstates."

	// callTimeout bounds a question to the server.
	callTimeout = 5 * time.Second
)

var errUnread = errors.New("the boot log was not read yet")

// Record is the state of a host that decides its next boot.
type Record struct {
	Host model.Ref
	UID  string
	// Progress is all of it, not a difference. Its Position is that of the record;
	// Append needs none.
	Progress model.Progress
	// After is the position of the newest record of the host that the writer knew.
	After uint64
	// Config is the config that the host was given last; zero: none since the start.
	Config model.Ref
	Hash   string
}

// Batch is a message of the log.
type Batch struct {
	// Sequence is what Trim counts by.
	Sequence uint64
	// Own is true where this process wrote it, Live where it came after the start.
	Own, Live bool
	Records   []Record
}

// Options are the parts of a Log.
type Options struct {
	// Taken is given every message of the log in order, those of this process
	// included. It must not block.
	Taken func(Batch)
	// Ledger remembers that the stream was made, so that a lost one is never
	// replaced by an empty one. Nil remembers for as long as the process lives.
	Ledger kvstore.Ledger
	// Guard is asked before the log is opened or made; its error says that it must
	// not be touched. Nil: it may.
	Guard func(ctx context.Context, js jetstream.JetStream) error
	// Exclusive says that no other process writes into the log.
	Exclusive bool
	// Writable says why nothing must be written now; nil: it may be.
	Writable func() error
	// Room says why a message of so many bytes should not be written; nil: there is
	// always room.
	Room func(bytes int) error
	// KeyDir is the folder of the file with the newest sequence, by which a log whose
	// end is lost is noticed at the next start; "": it is not.
	KeyDir string
	// Replicas is how many servers of a cluster are to hold the stream; 0 means 1.
	Replicas int
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

// Log is the boot log. It lives while Run does. It is safe for concurrent use.
type Log struct {
	opts    Options
	subject string
	metrics *metrics

	// keys remembers the newest sequence and the floor.
	keys *keylog.Log

	// appending is held while a message is written, so that there is one at a time.
	appending sync.Mutex
	// message has the memory for that message.
	message []byte

	mu sync.Mutex
	js jetstream.JetStream // nil until the log was opened
	// created distinguishes the stream from another of the same name.
	created time.Time
	// last is the newest sequence that is known, taken the newest that Taken was
	// given.
	last, taken uint64
	base, floor uint64
	// holes are sequences between first and last that did not come.
	holes  []hole
	loaded bool
	// doubt is that the stream is another, or an older, one.
	doubt session.Doubt
	// stalls counts the consumers in a row that brought less than there is.
	stalls int
	// down says why the log cannot be used; nil while it can.
	down error
}

// hole are the sequences from one to another that are missing.
type hole struct{ from, to uint64 }

// New makes a Log. It needs no server before Run.
func New(opts Options) *Log {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Replicas = max(opts.Replicas, 1)
	if opts.Writable == nil {
		opts.Writable = func() error { return nil }
	}
	l := &Log{opts: opts, subject: subjects + nuid.Next(), keys: newKeys(opts.KeyDir), down: errUnread}
	l.metrics = newMetrics(opts.Registerer, l)
	return l
}

// Loaded reports whether the log was read once: until then the progress of machines is
// unknown.
func (l *Log) Loaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

// ReadinessCheck says why the log cannot be used; nil: it can.
func (l *Log) ReadinessCheck() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// Run opens the log, reads it, and follows what others write until ctx ends. It
// makes the stream if it never existed.
func (l *Log) Run(ctx context.Context, js jetstream.JetStream) {
	if err := l.keys.Read(); err != nil {
		l.opts.Logger.Error("the newest sequence of the boot log cannot be read; what the log has lost is not noticed",
			"error", err)
	}
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { l.writeKeys(ctx) })

	sessions := &session.Follower{JS: js, Logger: l.opts.Logger, Refused: isRefused,
		Message: "the boot log cannot be used: a boot-complete is answered 503",
		Session: func(ctx context.Context) error {
			info, err := l.open(ctx, js)
			if err != nil {
				return err
			}
			return l.follow(ctx, js, info)
		}}
	sessions.Down = func(err error) {
		if l.ReadinessCheck() == nil {
			sessions.Following()
		}
		l.setDown(err)
	}
	sessions.Run(ctx)
	l.setDown(errors.New("the boot log is closed"))
}

func (l *Log) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

// open finds the stream, or makes it where none ever was.
func (l *Log) open(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if l.opts.Guard != nil {
		if err := l.opts.Guard(ctx, js); err != nil {
			return nil, err
		}
	}
	stream, err := question.Ask(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, Stream) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if l.existed() {
			return nil, l.lost()
		}
		stream, err = replicas.Create(ctx, js, StreamConfig(), l.opts.Replicas)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the stream %s: %w", Stream, err)
	}
	if l.opts.Ledger != nil {
		if err := l.opts.Ledger.Add(Stream); err != nil {
			return nil, fmt.Errorf("recording the stream %s: %w", Stream, err)
		}
	}
	info := stream.CachedInfo()
	if !replicas.Led(info) {
		return nil, errNoLeader
	}
	if has, err := replicas.Raise(ctx, js, info, l.opts.Replicas); err != nil || has < l.opts.Replicas {
		l.opts.Logger.Debug("the boot log has fewer replicas than it should", "replicas", has, "wanted", l.opts.Replicas,
			"error", err)
	}
	if err := l.checkHistory(info); err != nil {
		return nil, err
	}
	l.begin(js, info)
	return info, nil
}

// StreamConfig returns the configuration of a new boot log.
func StreamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:         Stream,
		Description:  "what machines have done, until the status of their hosts says it",
		Subjects:     []string{subjects + "*"},
		Storage:      jetstream.FileStorage,
		Discard:      jetstream.DiscardNew,
		MaxMsgs:      -1,
		MaxBytes:     -1,
		MaxMsgSize:   -1,
		MaxConsumers: -1,
		DenyDelete:   true,
	}
}

type metrics struct {
	records prometheus.Counter
	lost    prometheus.Counter
	seconds *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		records: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_log_records_total", Help: "States of hosts that were written into the boot log.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_log_lost_messages_total",
			Help: "Messages of the boot log that could not be read and that no status includes.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glowplug_boot_log_write_seconds", Help: "Time until a message of the boot log was durable, by outcome.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"outcome"}),
	}
	m.seconds.WithLabelValues("ok")
	m.seconds.WithLabelValues("error")
	reg.MustRegister(m.records, m.lost, m.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_boot_log_up",
		Help: "1 while states of hosts can be written into the boot log; else a boot-complete is answered 503.",
	}, func() float64 {
		if l.ReadinessCheck() == nil {
			return 1
		}
		return 0
	}))
	return m
}

func (m *metrics) wrote(records int, err error, took time.Duration) {
	outcome := "error"
	if err == nil {
		outcome = "ok"
		m.records.Add(float64(records))
	}
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
}
