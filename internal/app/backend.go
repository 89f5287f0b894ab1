package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/store/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/replicas"
)

// backend is the NATS that the stores lie in: embedded, or somebody else's.
type backend struct {
	js     jetstream.JetStream
	ledger *ledger.Ledger
	// buckets is the same for the stores; that of the embedded one knows as well why a
	// bucket is missing.
	buckets kvstore.RevisionLedger
	// keeper guards against another store than the ledger's.
	keeper *ledger.Keeper
	// room returns what a bucket's store asks before it writes.
	room func(bucket string) func(bytes int) error
	// quota and ballast are of an external store; nil for the embedded one.
	quota   *natsd.Quota
	ballast *natsd.Ballast
	// lost says why a bucket of the embedded store is missing; nil: it is not.
	lost    func(bucket string) error
	damages []*natsd.Damage
	// conn is to an external store; nil for the embedded one.
	conn      *nats.Conn
	exclusive bool
	replicas  int
	where     string // for the banner
	close     func()
}

// openBackend opens the data directory and the store. repair is for an operator who
// says what is right: a ledger that does not agree with the data is no error then.
func openBackend(ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer,
	repair bool) (*backend, error) {
	var b *backend
	var err error
	if s.NATSURL != "" {
		b, err = dialBackend(s, log, repair)
	} else {
		b, err = startBackend(ctx, s, log, repair)
	}
	if err != nil {
		return nil, err
	}
	var buckets []string
	for _, kind := range kinds.All() {
		buckets = append(buckets, kind.Bucket)
	}
	b.keeper = ledger.NewKeeper(b.ledger, ledger.KeeperOptions{
		Buckets: buckets, Replicas: b.replicas, Logger: log, Registerer: metrics, Exempt: b.setAside,
	})
	if b.quota != nil {
		b.ballast = natsd.NewBallast(natsd.BallastOptions{
			Quota: b.quota, Guard: b.keeper.Guard, Replicas: replicas.Wanted(b.replicas), Logger: log, Registerer: metrics,
		})
	}
	return b, nil
}

// release is what the stores call to give up ballast; nil where there is none.
func (b *backend) release() func(context.Context, jetstream.JetStream, int) bool {
	if b.ballast == nil {
		return nil
	}
	return b.ballast.Release
}

// setAside reports whether the damaged folder of a bucket was set aside.
func (b *backend) setAside(bucket string) bool {
	return slices.ContainsFunc(b.damages, func(d *natsd.Damage) bool { return d.Bucket == bucket })
}

func startBackend(ctx context.Context, s *settings, log *slog.Logger, repair bool) (*backend, error) {
	server, err := natsd.Start(ctx, natsd.Options{DataDir: s.DataDir, Logger: log, Repair: repair,
		Transient: kinds.Transient})
	if err != nil {
		return nil, err
	}
	b := &backend{
		ledger: server.Ledger, buckets: server, room: always(server.Room), lost: server.Lost,
		damages: server.Damages(), exclusive: true, replicas: 1,
	}
	b.close = func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			log.Error("stopping the store", "error", err)
		}
	}
	if b.where, err = filepath.Abs(s.DataDir); err != nil {
		b.where = s.DataDir
	}
	conn, err := server.Connect()
	if err == nil {
		b.js, err = jetstream.New(conn)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	return b, nil
}

func dialBackend(s *settings, log *slog.Logger, repair bool) (*backend, error) {
	known, err := ledger.Open(s.DataDir, ledger.Options{Repair: repair})
	if err != nil {
		return nil, err
	}
	options, err := s.NATS.Options(log)
	if err != nil {
		known.Close()
		return nil, fmt.Errorf("the connection to NATS: %w", err)
	}
	conn, err := natsd.Dial(s.NATSURL, log, options...)
	if err != nil {
		known.Close()
		return nil, &OptionError{Flag: "nats-url", Reason: err.Error()}
	}
	none := func(string) error { return nil }
	b := &backend{
		ledger: known, buckets: known, conn: conn, lost: none, replicas: s.NATSReplicas,
		where: "NATS at " + natsd.Redacted(s.NATSURL),
	}
	b.close = func() {
		conn.Close()
		known.Close()
	}
	if b.js, err = jetstream.New(conn); err != nil {
		b.close()
		return nil, fmt.Errorf("external store: %w", err)
	}
	b.quota = natsd.NewQuota(b.js, s.natsMaxBytes, replicas.Wanted(s.NATSReplicas))
	b.room = func(bucket string) func(int) error {
		if slices.Contains(kinds.Transient, bucket) {
			return b.quota.SpareRoom
		}
		return b.quota.Room
	}
	return b, nil
}

// always gives every bucket the same room.
func always(room func(int) error) func(string) func(int) error {
	return func(string) func(int) error { return room }
}

// payloadInterval is how often a NATS server whose messages are too small is asked
// again: it may have been given another configuration.
const payloadInterval = 2 * time.Second

// check says why nothing can be read from or written to an external NATS server.
func (b *backend) check() error {
	switch {
	case b.conn == nil:
		return nil
	case !b.conn.IsConnected():
		return errors.New("the NATS server is away")
	}
	return natsd.CheckPayload(b.conn)
}

// awaitUsable returns once there is a NATS server that can hold the store, or ctx has
// ended. A server tells its limits when it is connected to, so one that cannot is
// connected to again.
func (b *backend) awaitUsable(ctx context.Context) {
	for looks := 1; b.check() != nil && ctx.Err() == nil; looks++ {
		select {
		case <-ctx.Done():
		case <-time.After(payloadInterval / 40):
		}
		if looks%40 == 0 && b.conn.IsConnected() {
			_ = b.conn.ForceReconnect()
		}
	}
}
