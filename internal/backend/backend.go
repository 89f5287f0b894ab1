// Package backend chooses the store of a server, embedded or external, and cares for it: its keys, its
// identity, what it has lost, and when it can be read and written.
package backend

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/option"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/replicas"
)

// Deps are what a backend gets from the server.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil for an operator, who opens no stores
	// KeepBoots bounds the history of boots.
	KeepBoots boots.Limits
	// MemoryLimit is that of the process, in bytes.
	MemoryLimit int64
	// Asked counts the requests of machines: a backup rests while it grows; nil: it never does.
	Asked func() uint64
	// TakeFormer takes over what a former release has kept elsewhere, once the objects are read. It is called until it
	// succeeds; then machines are answered, and empty removes what was taken over.
	TakeFormer func(context.Context, jetstream.JetStream) (empty func(context.Context) error, err error)
}

// closeTimeout is how long Close waits for the embedded store.
const closeTimeout = 10 * time.Second

// Backend is an open store.
type Backend struct {
	// Stores are the objects, by resource, and History the boots that have ended. An operator has
	// neither.
	Stores  map[string]*kvstore.Store
	History *boots.History

	options *Options
	deps    Deps
	keys    *encryption.Keys // nil: the store is not encrypted
	madeKey bool             // by --encrypt, now
	aside   decide.Losses    // the kinds whose buckets were missing at the start
	usable  chan struct{}    // closed once NATS can hold the store
	failed  chan error       // the reason why the server cannot go on
	former  atomic.Bool      // TakeFormer has succeeded
	closers []func()         // run in reverse by Close

	js     jetstream.JetStream
	ledger *ledger.Ledger
	// buckets is the ledger of the stores. The embedded server knows as well why a bucket
	// is missing.
	buckets kvstore.RevisionLedger
	// keeper guards against another store than the ledger's.
	keeper *ledger.Keeper
	// writable returns why nothing must be written now: the lock or the disk of the data directory.
	writable func() error
	// room returns the check of a bucket's store before it writes.
	room func(bucket string) func(bytes int) error
	// quota and ballast are of an external store; nil for the embedded one.
	quota   *natsd.Quota
	ballast *natsd.Ballast
	// lost returns why a bucket of the embedded store is missing; nil: it is not.
	lost    func(bucket string) error
	damages []*natsd.Damage
	// conn is to an external store; nil for the embedded one.
	conn      *nats.Conn
	exclusive bool
	replicas  int
	where     string
}

// purpose says what a backend is opened for.
type purpose int

const (
	// toServe refuses a ledger that does not agree with the data.
	toServe purpose = iota
	// toDecide is for an operator who decides which of the two is right.
	toDecide
	// toLook is for an operator who looks at both, and changes nothing.
	toLook
	// toAcceptLoss and toLookAtLoss are the same for damaged buckets as well: what can be read of them is put into
	// service.
	toAcceptLoss
	toLookAtLoss
	// toRestore fills a new store.
	toRestore
)

// Open opens the data directory and the store for a server.
func Open(ctx context.Context, o *Options, deps Deps) (*Backend, error) {
	b := newBackend(o, deps)
	for _, open := range []func() error{
		b.openKeys, func() error { return b.open(ctx, toServe) }, b.makeKey, b.openStores,
	} {
		if err := open(); err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

func newBackend(o *Options, deps Deps) *Backend {
	return &Backend{options: o, deps: deps, usable: make(chan struct{}), failed: make(chan error, 1)}
}

// open opens the data directory and connects to NATS.
func (b *Backend) open(ctx context.Context, purpose purpose) error {
	start := b.start
	if b.options.NATSURL != "" {
		start = b.dial
	}
	if err := start(ctx, purpose); err != nil {
		return err
	}
	var buckets []string
	for _, kind := range kinds.All() {
		buckets = append(buckets, objects.Bucket(kind))
	}
	log, metrics := b.deps.Logger, b.deps.Registerer
	b.keeper = ledger.NewKeeper(b.ledger, ledger.KeeperOptions{
		Buckets: buckets, Replicas: b.replicas, Logger: log, Registerer: metrics, Exempt: b.setAside, Former: b.formerKeys,
	})
	if b.quota != nil {
		b.ballast = natsd.NewBallast(natsd.BallastOptions{
			Quota: b.quota, Guard: b.keeper.Guard, Replicas: replicas.Wanted(b.replicas), Logger: log, Registerer: metrics,
		})
	}
	return nil
}

// Where names the store, for people.
func (b *Backend) Where() string { return b.where }

// Exclusive reports whether no other server has this store.
func (b *Backend) Exclusive() bool { return b.exclusive }

// Encrypted reports whether values are encrypted in the store.
func (b *Backend) Encrypted() bool { return b.keys != nil }

// Server returns the id of this server among those of the store.
func (b *Backend) Server() (string, error) { return b.ledger.Server() }

// Share exchanges what the servers of the store share; see ledger.Keeper.
func (b *Backend) Share(ctx context.Context, merge func(record []byte) ([]byte, error)) error {
	return b.keeper.Share(ctx, b.js, merge)
}

// Leaders returns the records which server of the store leads some work; nil: no other server has the store.
func (b *Backend) Leaders() *ledger.Leaders {
	if b.exclusive {
		return nil
	}
	return b.keeper.Leaders(b.js)
}

// Lag returns how many changes the store is known to have that this server has not read.
func (b *Backend) Lag() (n int64) {
	for _, store := range b.Stores {
		n += kvstore.Lag(store)
	}
	return n
}

// Close closes the store and the data directory.
func (b *Backend) Close() {
	for _, closer := range slices.Backward(b.closers) {
		closer()
	}
	b.closers = nil
}

func (b *Backend) onClose(f func()) { b.closers = append(b.closers, f) }

// formerKeys returns what the key logs in the data directory say of a bucket.
func (b *Backend) formerKeys(bucket string) ledger.Former {
	kind := kindOf(bucket)
	if kind == nil {
		return ledger.Former{}
	}
	f, err := kvstore.Former(objects.Stored(kind), b.ledger.KeyDir())
	if err != nil {
		b.deps.Logger.Warn("what the data directory knows of a bucket cannot be read", "bucket", bucket, "error", err)
	}
	return f
}

// transientBuckets are the buckets whose objects may be lost without an alarm.
func transientBuckets() (buckets []string) {
	for _, kind := range kinds.All() {
		if kind.Transient {
			buckets = append(buckets, objects.Bucket(kind))
		}
	}
	return append(buckets, boots.HistoryStream, boots.ContentStream)
}

// setAside reports whether the damaged folder of a bucket was set aside, and the bucket is missing or was made anew.
func (b *Backend) setAside(bucket string) bool {
	return slices.ContainsFunc(b.damages, func(d *natsd.Damage) bool {
		return d.Bucket == bucket && (d.Lost || bucket == ledger.Bucket || slices.Contains(transientBuckets(), bucket))
	})
}

// streamConfigOf returns the configuration of the stream of a bucket.
func streamConfigOf(bucket string) jetstream.StreamConfig {
	if kind := kindOf(bucket); kind != nil {
		return kvstore.StreamConfig(objects.Stored(kind))
	}
	return boots.FormerConfig()
}

// kindOf returns the kind whose objects a bucket has; nil: it is none of objects.
func kindOf(bucket string) *kinds.Kind {
	for _, kind := range kinds.All() {
		if objects.Bucket(kind) == bucket {
			return kind
		}
	}
	return nil
}

// start starts the embedded store.
func (b *Backend) start(ctx context.Context, purpose purpose) error {
	log := b.deps.Logger
	opts := natsd.Options{
		DataDir: b.options.DataDir, Logger: log, Repair: purpose == toDecide || purpose == toAcceptLoss,
		Look: purpose == toLook || purpose == toLookAtLoss, Transient: transientBuckets(), Bulk: purpose == toRestore,
	}
	if purpose == toServe {
		opts.Accept = b.acceptKeys
	}
	if purpose == toAcceptLoss || purpose == toLookAtLoss {
		opts.PutBack = streamConfigOf
	}
	server, err := natsd.Start(ctx, opts)
	if err != nil {
		return err
	}
	b.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			log.Error("stopping the store", "error", err)
		}
	})
	b.ledger, b.buckets, b.writable = server.Ledger, server, alarming(server.Writable, log)
	b.room = func(bucket string) func(int) error {
		if bucket == boots.HistoryStream {
			return server.SpareRoom
		}
		return server.Room
	}
	b.lost, b.damages = server.Lost, server.Damages()
	b.exclusive, b.replicas = true, 1
	if b.where, err = filepath.Abs(b.options.DataDir); err != nil {
		b.where = b.options.DataDir
	}
	conn, err := server.Connect()
	if err == nil {
		b.js, err = jetstream.New(conn)
	}
	if err != nil {
		return fmt.Errorf("embedded store: %w", err)
	}
	return nil
}

// alarming returns a check that logs when it begins to fail, and when it no longer does.
func alarming(check func() error, log *slog.Logger) func() error {
	var failing atomic.Bool
	return func() error {
		err := check()
		switch {
		case err != nil && failing.CompareAndSwap(false, true):
			log.Error("nothing is written into the store", "error", err)
		case err == nil && failing.CompareAndSwap(true, false):
			log.Info("the store is written again")
		}
		return err
	}
}

// dial opens the data directory, and connects to an external store.
func (b *Backend) dial(_ context.Context, purpose purpose) error {
	o, log := b.options, b.deps.Logger
	known, err := ledger.Open(o.DataDir, ledger.Options{Repair: purpose != toServe})
	if err != nil {
		return err
	}
	b.onClose(known.Close)
	options, err := o.NATS.Options(log)
	if err != nil {
		return fmt.Errorf("the connection to NATS: %w", err)
	}
	if b.conn, err = natsd.Dial(o.NATSURL, log, options...); err != nil {
		return option.Bad("nats-url", "%v", err)
	}
	b.onClose(b.conn.Close)
	if b.js, err = jetstream.New(b.conn); err != nil {
		return fmt.Errorf("external store: %w", err)
	}
	b.ledger, b.buckets, b.writable = known, known, alarming(known.Writable, log)
	b.lost = func(string) error { return nil }
	b.replicas, b.where = o.NATSReplicas, "NATS at "+natsd.Redacted(o.NATSURL)
	b.quota = natsd.NewQuota(b.js, o.natsMaxBytes(), replicas.Wanted(b.replicas))
	b.room = func(bucket string) func(int) error {
		if slices.Contains(transientBuckets(), bucket) {
			return b.quota.SpareRoom
		}
		return b.quota.Room
	}
	return nil
}
