package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/keyfile"
	"glowplug/internal/option"
	"glowplug/internal/store/ledger"
)

const (
	// storeTimeout bounds the wait for a store to answer an operator.
	storeTimeout = 15 * time.Second
	storeRetry   = 100 * time.Millisecond
)

// OperatorOptions name a store for an operator, as serve's flags of the same names do.
type OperatorOptions struct {
	Options
	// Existing refuses a data directory that does not exist, instead of making it.
	Existing bool
	// Look opens both without changing anything: only Survey can be called.
	Look bool
	// AcceptLoss puts what can be read of damaged buckets into service.
	AcceptLoss bool
}

// AddFlags declares the flags with their defaults.
func (o *OperatorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", "./glowplug-data", "the server's data directory")
	fs.StringVar(&o.NATSURL, "nats-url", "", "external NATS server or cluster, instead of the embedded store")
	addNATSFlags(fs, &o.NATS)
}

// Store is a store that is open for an operator, who has its data directory alone.
type Store struct{ backend *Backend }

// OpenStore opens the data directory and the store, whether or not they belong together.
// It calls warn for each file or option that is not safe.
func OpenStore(ctx context.Context, o OperatorOptions, warn func(message, remedy string)) (*Store, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.DataDir); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, option.Bad("data-dir", "there is no folder %s: name the folder that the server has", o.DataDir)
	}
	if err := o.checkFilesOfServer(warn); err != nil {
		return nil, err
	}
	purpose := toDecide
	switch {
	case o.Look && o.AcceptLoss:
		purpose = toLookAtLoss
	case o.Look:
		purpose = toLook
	case o.AcceptLoss:
		purpose = toAcceptLoss
	}
	b := newBackend(&o.Options, Deps{Logger: slog.New(slog.DiscardHandler)})
	if err := b.open(ctx, purpose); err != nil {
		b.Close()
		return nil, err
	}
	for _, d := range b.damages {
		switch {
		case d.Accepted:
			warn(d.Error(), "a backup has more: with one, restore the data directory instead; once nothing in that folder "+
				"is needed, remove it")
		case d.Lost:
			warn(d.Error(), "`glowplug store adopt` and `glowplug store init` leave that folder as it is, and the bucket "+
				"stays missing; to give the bucket up, remove the folder and run `glowplug store adopt`")
		}
	}
	return &Store{b}, nil
}

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

// CheckLoss returns the reason why AcceptLoss refuses what is stored.
func (s *Store) CheckLoss(survey *ledger.Survey) error { return survey.CheckLoss() }

// AcceptLoss records what is left of the store as the truth; see ledger.Keeper.
func (s *Store) AcceptLoss(ctx context.Context, survey *ledger.Survey) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.backend.keeper.AcceptLoss(ctx, s.backend.js, survey)
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

// Where names the store.
func (s *Store) Where() string { return s.backend.where }

// Close closes the store and the data directory.
func (s *Store) Close() {
	s.backend.Close()
	_ = keyfile.GiveTree(s.backend.options.DataDir)
}
