package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
)

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
	if o.DataDir == "" {
		return nil, bad("data-dir", "is empty: name the folder that the server has")
	}
	if err := checkNATS(o.NATSURL, o.NATS); err != nil {
		return nil, err
	}
	s := &settings{Options: Options{DataDir: o.DataDir, NATSURL: o.NATSURL, NATS: o.NATS}}
	if err := s.checkFiles(warn); err != nil {
		return nil, err
	}
	b, err := openBackend(ctx, s, slog.New(slog.DiscardHandler), nil, true)
	if err != nil {
		return nil, err
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
	if conn := s.backend.js.Conn(); !conn.IsConnected() && conn.LastError() != nil {
		err = conn.LastError()
	}
	return nil, fmt.Errorf("%s does not answer: %w", s.backend.where, err)
}

// Adopt records what is stored now as the truth; see ledger.Keeper.
func (s *Store) Adopt(ctx context.Context, survey *ledger.Survey) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.backend.keeper.Adopt(ctx, s.backend.js, survey)
}

// Init begins a new store where nothing is stored; see ledger.Keeper.
func (s *Store) Init(ctx context.Context, survey *ledger.Survey) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.backend.keeper.Init(ctx, s.backend.js, survey)
}

// Close closes the store and the data directory.
func (s *Store) Close() { s.backend.close() }
