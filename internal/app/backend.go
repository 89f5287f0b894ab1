package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/replicas"
)

// backend is the NATS of the stores: embedded, or an external one.
type backend struct {
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
	where     string // for the banner
	close     func()
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
)

// acceptance is what natsd.Options.Accept is.
type acceptance = func(metadata func(bucket string) map[string]string) error

// openBackend opens the data directory and the store. An embedded one has to be accepted before it is
// opened; nil: it is.
func openBackend(ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer,
	purpose purpose, accept acceptance) (*backend, error) {
	var b *backend
	var err error
	if s.NATSURL != "" {
		b, err = dialBackend(s, log, purpose)
	} else {
		b, err = startBackend(ctx, s, log, purpose, accept)
	}
	if err != nil {
		return nil, err
	}
	var buckets []string
	for _, kind := range kinds.All() {
		buckets = append(buckets, objects.Bucket(kind))
	}
	b.keeper = ledger.NewKeeper(b.ledger, ledger.KeeperOptions{
		Buckets: buckets, Replicas: b.replicas, Logger: log, Registerer: metrics, Exempt: b.setAside,
		Former: b.former(log),
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

// former returns what the key logs in the data directory say of a bucket.
func (b *backend) former(log *slog.Logger) func(bucket string) ledger.Former {
	return func(bucket string) ledger.Former {
		f, err := ledger.Former{}, error(nil)
		if bucket == bootlog.Stream {
			f, err = bootlog.Former(b.ledger.KeyDir())
		}
		for _, kind := range kinds.All() {
			if objects.Bucket(kind) == bucket {
				f, err = kvstore.Former(objects.Stored(kind), b.ledger.KeyDir())
			}
		}
		if err != nil {
			log.Warn("what the data directory knows of a bucket cannot be read", "bucket", bucket, "error", err)
		}
		return f
	}
}

// transientBuckets are the buckets whose objects may be lost without an alarm.
func transientBuckets() (buckets []string) {
	for _, kind := range kinds.All() {
		if kind.Transient {
			buckets = append(buckets, objects.Bucket(kind))
		}
	}
	return buckets
}

// setAside reports whether the damaged folder of a bucket was set aside, and the bucket is missing or was made anew.
func (b *backend) setAside(bucket string) bool {
	return slices.ContainsFunc(b.damages, func(d *natsd.Damage) bool {
		return d.Bucket == bucket && (d.Lost || bucket == ledger.Bucket || slices.Contains(transientBuckets(), bucket))
	})
}

// putBack returns the configuration of the stream of a bucket.
func putBack(bucket string) jetstream.StreamConfig {
	for _, kind := range kinds.All() {
		if objects.Bucket(kind) == bucket {
			return kvstore.StreamConfig(objects.Stored(kind))
		}
	}
	return bootlog.StreamConfig()
}

func startBackend(ctx context.Context, s *settings, log *slog.Logger, purpose purpose,
	accept acceptance) (*backend, error) {
	opts := natsd.Options{
		DataDir: s.DataDir, Logger: log, Repair: purpose == toDecide || purpose == toAcceptLoss,
		Look: purpose == toLook || purpose == toLookAtLoss, Transient: transientBuckets(), Accept: accept,
	}
	if purpose == toAcceptLoss || purpose == toLookAtLoss {
		opts.PutBack = putBack
	}
	server, err := natsd.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	b := &backend{
		ledger: server.Ledger, buckets: server, writable: alarming(server.Writable, log),
		room: func(string) func(int) error { return server.Room }, lost: server.Lost,
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

func dialBackend(s *settings, log *slog.Logger, purpose purpose) (*backend, error) {
	known, err := ledger.Open(s.DataDir, ledger.Options{Repair: purpose != toServe})
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
		return nil, bad("nats-url", "%v", err)
	}
	none := func(string) error { return nil }
	b := &backend{
		ledger: known, buckets: known, writable: alarming(known.Writable, log), conn: conn, lost: none,
		replicas: s.NATSReplicas,
		where:    "NATS at " + natsd.Redacted(s.NATSURL),
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
		if slices.Contains(transientBuckets(), bucket) {
			return b.quota.SpareRoom
		}
		return b.quota.Room
	}
	return b, nil
}

// check returns why an external NATS server cannot be read or written; nil: it can.
func (b *backend) check() error {
	switch {
	case b.conn == nil:
		return nil
	case !b.conn.IsConnected():
		return errors.New("the NATS server is away")
	}
	return natsd.CheckServer(b.conn)
}

const (
	usableInterval = 50 * time.Millisecond
	// reconnectInterval is how often a NATS server whose messages are too small is
	// connected to again: it may have another configuration by now.
	reconnectInterval = 2 * time.Second
)

// awaitUsable returns once there is a NATS server that can hold the store, or ctx has
// ended. A server sends its limits when it is connected to, so one whose limits are too
// small is connected to again.
func (b *backend) awaitUsable(ctx context.Context) {
	connected := time.Now()
	_ = wait.PollUntilContextCancel(ctx, usableInterval, true, func(context.Context) (bool, error) {
		if b.check() == nil {
			return true, nil
		}
		if time.Since(connected) > reconnectInterval && b.conn.IsConnected() {
			connected = time.Now()
			_ = b.conn.ForceReconnect()
		}
		return false, nil
	})
}

// addNATSFlags declares the files by which an external NATS is reached.
func addNATSFlags(fs *pflag.FlagSet, a *natsd.Access) {
	fs.StringVar(&a.Creds, "nats-creds", "", "credentials file for --nats-url")
	fs.StringVar(&a.UserFile, "nats-user-file", "",
		"file with the user name for --nats-url (the key username of a kubernetes.io/basic-auth Secret)")
	fs.StringVar(&a.PasswordFile, "nats-password-file", "",
		"file with the password for --nats-url (the key password of such a Secret)")
	fs.StringVar(&a.CAFile, "nats-ca-file", "",
		"PEM file of the CAs that sign the certificate of --nats-url (default: the system's); connects with TLS only")
	fs.StringVar(&a.CertFile, "nats-cert-file", "",
		"PEM file of the client certificate for --nats-url; connects with TLS only")
	fs.StringVar(&a.KeyFile, "nats-key-file", "", "PEM file of the key of --nats-cert-file")
}

// checkNATS checks a list of URLs of NATS servers, which may be empty, and the files
// with the credentials for them.
func checkNATS(urls string, a natsd.Access) error {
	if urls != "" {
		for text := range strings.SplitSeq(urls, ",") {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
				return bad("nats-url", "not a URL such as nats://nats.example:4222")
			}
		}
	}
	for _, pair := range []struct{ flag, file, otherFlag, otherFile string }{
		{"nats-password-file", a.PasswordFile, "nats-user-file", a.UserFile},
		{"nats-user-file", a.UserFile, "nats-password-file", a.PasswordFile},
		{"nats-key-file", a.KeyFile, "nats-cert-file", a.CertFile},
		{"nats-cert-file", a.CertFile, "nats-key-file", a.KeyFile},
	} {
		if pair.file == "" && pair.otherFile != "" {
			return bad(pair.flag, "is empty, and --%s is not: both are needed", pair.otherFlag)
		}
	}
	switch {
	case a.UserFile != "" && a.Creds != "":
		return bad("nats-user-file", "cannot be used together with --nats-creds")
	case a.UserFile != "" && natsd.HoldsSecret(urls):
		return bad("nats-user-file", "cannot be used with a user in --nats-url")
	}
	for _, given := range []struct{ flag, file string }{
		{"nats-creds", a.Creds}, {"nats-user-file", a.UserFile}, {"nats-ca-file", a.CAFile}, {"nats-cert-file", a.CertFile},
	} {
		if urls == "" && given.file != "" {
			return bad(given.flag, "%s", needsURL)
		}
	}
	return nil
}

// needsURL is the reason against an option of an external store where there is none.
const needsURL = "is for an external store: give --nats-url too"

// checkDataDir refuses what cannot be a data directory. It may not exist yet.
func checkDataDir(dir string) error {
	if dir == "" {
		return bad("data-dir", "is empty: name the folder that holds the store")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return bad("data-dir", "%s is a file: name a folder", dir)
	}
	return nil
}

// inArguments reports whether a secret of the NATS URLs is on the command line, which
// every user of the machine can read. Only the own user can read the environment.
func inArguments(urls string) bool {
	given := func(arg string) bool { return strings.Contains(arg, urls) }
	return natsd.HoldsSecret(urls) && slices.ContainsFunc(os.Args, given)
}
