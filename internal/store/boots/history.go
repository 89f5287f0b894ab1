package boots

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/objects"
)

const (
	// HistoryStream is the name of the stream of the history.
	HistoryStream = ledger.StreamPrefix + "BOOTHISTORY"
	// historySubjects begins the subject of a message. The namespace and the host of the boot follow.
	historySubjects = "GLOWPLUG.boothistory."

	// callTimeout bounds a question to the server.
	callTimeout = 5 * time.Second
)

// Limits bound the history; 0: there is no bound. The oldest boots are removed first.
type Limits struct {
	Age     time.Duration
	Bytes   int64
	PerHost int64
}

// HistoryOptions are the parts of a History. All may be zero.
type HistoryOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Replicas is how many servers of a cluster are to hold the stream; 0 means 1.
	Replicas int
	// Writable says why nothing must be written now, and Room why so many bytes should not be.
	Writable func() error
	Room     func(bytes int) error
	// Guard is asked before the stream is opened or made; its error says that it must not be touched.
	Guard func(ctx context.Context, js jetstream.JetStream) error
	// Cipher encrypts the boots.
	Cipher *encryption.Cipher
	Keep   Limits
}

// History is the boots that were superseded. No answer to a machine needs it, so a missing stream is made again, and
// a boot that cannot be stored is left out. It lives while Run does.
type History struct {
	// Content is what the machines were given.
	Content *Content

	*keptStream
	kind    kvstore.Kind
	dropped prometheus.Counter

	// writing is held while boots are stored.
	writing sync.Mutex
	// known has the newest message of each host that this process has written to lately, by subject.
	known map[string]position
	// failing is set after a failure, until boots are stored again.
	failing bool
}

// NewHistory makes a History. It needs no server before Run.
func NewHistory(opts HistoryOptions) *History {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Writable == nil {
		opts.Writable = func() error { return nil }
	}
	if opts.Room == nil {
		opts.Room = func(int) error { return nil }
	}
	if opts.Cipher == nil {
		opts.Cipher = (*encryption.Keys)(nil).Of(schema.GroupResource{})
	}
	h := &History{
		kind: objects.Stored(kinds.Of(kinds.Boots)), known: map[string]position{}, Content: newContent(opts),
		dropped: promauto.With(opts.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_history_dropped_total",
			Help: "Boots that were superseded and could not be stored in the history.",
		}),
	}
	h.keptStream = newKeptStream(opts, historyConfig(opts.Keep), "the history of boots", "boots that are superseded")
	return h
}

// Run keeps the history open, and stores content, until ctx ends.
func (h *History) Run(ctx context.Context, js jetstream.JetStream) {
	var running sync.WaitGroup
	running.Go(func() { h.Content.Run(ctx, js) })
	h.keptStream.Run(ctx, js)
	running.Wait()
}

// historyConfig returns the configuration of a new history.
func historyConfig(keep Limits) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               HistoryStream,
		Description:        "boots of machines that were superseded",
		Subjects:           []string{historySubjects + "*.*"},
		Storage:            jetstream.FileStorage,
		Discard:            jetstream.DiscardOld,
		MaxAge:             keep.Age,
		MaxBytes:           cmp.Or(keep.Bytes, -1),
		MaxMsgsPerSubject:  cmp.Or(keep.PerHost, -1),
		MaxMsgs:            -1,
		MaxMsgSize:         -1,
		MaxConsumers:       -1,
		AllowAtomicPublish: true,
	}
}
