package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
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
	// room returns the check of a bucket's store before it writes.
	room func(bucket string) func(bytes int) error
	// quota and ballast are of an external store; nil for the embedded one.
	quota   *natsd.Quota
	ballast *natsd.Ballast
	// lost returns why a bucket of the embedded store is missing; nil: it is not.
	lost    func(bucket string) error
	damages []*natsd.Damage
	// erased are the damaged records of the embedded store that were marked as erased now.
	erased map[string]map[string]uint64
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
)

// openBackend opens the data directory and the store.
func openBackend(ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer,
	purpose purpose) (*backend, error) {
	var b *backend
	var err error
	if s.NATSURL != "" {
		b, err = dialBackend(s, log, purpose)
	} else {
		b, err = startBackend(ctx, s, log, purpose)
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
			if kind.Bucket == bucket {
				f, err = kvstore.Former(kind, b.ledger.KeyDir())
			}
		}
		if err != nil {
			log.Warn("what the data directory knows of a bucket cannot be read", "bucket", bucket, "error", err)
		}
		return f
	}
}

// setAside reports whether the damaged folder of a bucket was set aside.
func (b *backend) setAside(bucket string) bool {
	return slices.ContainsFunc(b.damages, func(d *natsd.Damage) bool { return d.Bucket == bucket })
}

func startBackend(ctx context.Context, s *settings, log *slog.Logger, purpose purpose) (*backend, error) {
	server, err := natsd.Start(ctx, natsd.Options{
		DataDir: s.DataDir, Logger: log, Repair: purpose == toDecide, Look: purpose == toLook, Transient: kinds.Transient,
	})
	if err != nil {
		return nil, err
	}
	b := &backend{
		ledger: server.Ledger, buckets: server, room: func(string) func(int) error { return server.Room }, lost: server.Lost,
		damages: server.Damages(), erased: server.AllErased(), exclusive: true, replicas: 1,
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

// check returns why an external NATS server cannot be read or written; nil: it can.
func (b *backend) check() error {
	switch {
	case b.conn == nil:
		return nil
	case !b.conn.IsConnected():
		return errors.New("the NATS server is away")
	}
	return natsd.CheckPayload(b.conn)
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

const (
	// storeTimeout bounds the wait for a store to answer an operator.
	storeTimeout = 15 * time.Second
	storeRetry   = 100 * time.Millisecond
)

// StoreOptions name a store for an operator, as serve's flags of the same names do.
type StoreOptions struct {
	DataDir string
	NATSURL string
	NATS    natsd.Access
	// Existing refuses a data directory that does not exist, instead of making it.
	Existing bool
	// Look opens both without changing anything: only Survey can be called.
	Look bool
}

// AddFlags declares the flags with their defaults.
func (o *StoreOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", "./glowplug-data", "the server's data directory")
	fs.StringVar(&o.NATSURL, "nats-url", "", "external NATS server or cluster, instead of the embedded store")
	addNATSFlags(fs, &o.NATS)
}

// Store is a store that is open for an operator, who has its data directory alone.
type Store struct{ backend *backend }

// OpenStore opens the data directory and the store, whether or not they belong together.
// It calls warn for each file or option that is not safe.
func OpenStore(ctx context.Context, o StoreOptions, warn func(message, remedy string)) (*Store, error) {
	if err := checkDataDir(o.DataDir); err != nil {
		return nil, err
	}
	if err := checkNATS(o.NATSURL, o.NATS); err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.DataDir); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, bad("data-dir", "there is no folder %s: name the folder that the server has", o.DataDir)
	}
	s := &settings{Options: Options{DataDir: o.DataDir, NATSURL: o.NATSURL, NATS: o.NATS}}
	if err := s.checkFiles(warn); err != nil {
		return nil, err
	}
	purpose := toDecide
	if o.Look {
		purpose = toLook
	}
	b, err := openBackend(ctx, s, slog.New(slog.DiscardHandler), nil, purpose)
	if err != nil {
		return nil, err
	}
	for _, d := range b.damages {
		if d.Lost {
			warn(d.Error(), "`glowplug store` leaves that folder as it is, and the bucket stays missing; "+
				"to give the bucket up, remove the folder and run `glowplug store adopt`")
		}
	}
	for _, bucket := range slices.Sorted(maps.Keys(b.erased)) {
		if n := len(b.erased[bucket]); n > 0 {
			hint := "the objects that are lost, or have an older value left, are listed below; apply them again, and look at " +
				"the disk"
			if bucket == bootlog.Stream { // its records are no objects
				hint = "look at hosts whose status.state is not Provisioned although they are, and at the disk"
			}
			warn(fmt.Sprintf("damaged records in %s: %d. A start of the server, and this command without --dry-run, marks them "+
				"as erased, so that those behind them can be read", bucket, n), hint)
		}
	}
	return &Store{backend: b}, nil
}

// Where names the store.
func (s *Store) Where() string { return s.backend.where }

// Survey reads the store and the data directory, once the store answers.
func (s *Store) Survey(ctx context.Context) (*ledger.Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var survey *ledger.Survey
	var err error
	answered := func(context.Context) (bool, error) {
		survey, err = s.backend.keeper.Survey(ctx, s.backend.js)
		return err == nil || errors.As(err, new(*ledger.Mismatch)), nil
	}
	if wait.PollUntilContextCancel(ctx, storeRetry, true, answered) == nil {
		return survey, err
	}
	return nil, s.unanswered(err)
}

// unanswered is the error of a store that does not answer.
func (s *Store) unanswered(err error) error {
	if conn := s.backend.js.Conn(); !conn.IsConnected() {
		err = errors.New("there is no connection")
		if last := conn.LastError(); last != nil && !errors.Is(last, nats.ErrReconnectBufExceeded) {
			err = last
		}
	}
	return fmt.Errorf("%s does not answer: %w", s.backend.where, err)
}

// CheckAdopt returns the reason why Adopt refuses what is stored.
func (s *Store) CheckAdopt(survey *ledger.Survey) error { return survey.CheckAdopt() }

// CheckInit returns the reason why Init refuses what is stored: the folder of a bucket that
// was set aside has objects, too.
func (s *Store) CheckInit(survey *ledger.Survey) error {
	for _, d := range s.backend.damages {
		if d.Lost {
			return &ledger.Mismatch{
				Reason: fmt.Sprintf("this is no place for a new store: the bucket %s was set aside as %s", d.Bucket, d.Aside),
				Remedy: "restore the bucket, or move that folder away",
			}
		}
	}
	return survey.CheckInit()
}

// Adopt records what is stored now as the truth; see ledger.Keeper.
func (s *Store) Adopt(ctx context.Context, survey *ledger.Survey) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.backend.keeper.Adopt(ctx, s.backend.js, survey)
}

// Init begins a new store where nothing is stored; see ledger.Keeper.
func (s *Store) Init(ctx context.Context, survey *ledger.Survey) (id string, err error) {
	if err := s.CheckInit(survey); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.backend.keeper.Init(ctx, s.backend.js, survey)
}

// ForgetCredentials removes what the servers of the store share; see ledger.Keeper.
func (s *Store) ForgetCredentials(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := s.backend.keeper.Forget(ctx, s.backend.js)
	if err != nil && !s.backend.js.Conn().IsConnected() {
		return s.unanswered(err)
	}
	return err
}

// Close closes the store and the data directory.
func (s *Store) Close() { s.backend.close() }
