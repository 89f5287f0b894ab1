package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"glowplug/internal/store/ledger"
)

const (
	serverName   = "glowplug"
	startTimeout = 30 * time.Second
)

// Options configures the embedded server.
type Options struct {
	// DataDir is the directory that the store owns. It is made if missing.
	DataDir string
	// Logger takes the server's own messages. Nil discards them.
	Logger *slog.Logger
	// Repair starts although the data and the ledger do not agree, for an operator
	// who says what is right.
	Repair bool
	// Transient are the buckets that hold nothing lasting: where one is damaged, an
	// empty one takes its place.
	Transient []string
}

// Server is a running embedded NATS server. Its Ledger is that of the directory.
type Server struct {
	*ledger.Ledger
	nats     *server.Server
	storeDir string
	room     room
	damages  []*Damage
	log      *slog.Logger
	copying  sync.Mutex // of the streams' meta files

	mu    sync.Mutex
	conns []*nats.Conn
}

// Start locks the data directory, compares its ledger with the data, and starts a
// server on it. It returns once JetStream has recovered every stream and answers.
// The error of a directory that somebody else holds is a *ledger.LockedError.
func Start(ctx context.Context, opts Options) (*Server, error) {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	s := &Server{storeDir: filepath.Join(dir, "nats"), log: logger}
	if s.Ledger, err = ledger.Open(dir, ledger.Options{Data: s.storeDir, Repair: opts.Repair}); err != nil {
		return nil, err
	}
	if err := s.start(ctx, dir, opts.Transient); err != nil {
		s.Ledger.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, dir string, transient []string) error {
	var err error
	if s.damages, err = setAside(dir, s.storeDir, s.Ledger, transient, s.log); err != nil {
		return err
	}
	s.nats, err = server.NewServer(&server.Options{
		ServerName:        serverName,
		DontListen:        true,
		NoSigs:            true,
		JetStream:         true,
		JetStreamMaxStore: maxStore,
		StoreDir:          s.storeDir,
		SyncAlways:        true,
		MaxPayload:        MaxPayload,
	})
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	s.nats.SetLoggerV2(serverLog{s.log}, false, false, false)
	s.nats.Start()
	if err := s.awaitReady(ctx); err != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		return fmt.Errorf("embedded NATS server on %s: %w", s.storeDir, err)
	}
	s.keepAll()
	return nil
}

// awaitReady polls the server's health: it accepts connections before JetStream
// has recovered.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !s.nats.ReadyForConnections(startTimeout) {
		return errors.New("it did not start; its log says why")
	}
	for {
		health := s.nats.Healthz(nil)
		if health.StatusCode == 200 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not healthy: %s", health.Error)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Connect opens a connection through memory. Shutdown closes it.
func (s *Server) Connect() (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(s.nats), nats.Name(serverName), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
	return nc, nil
}

// Shutdown closes the connections, stops the server and unlocks the directory.
// When ctx ends first the lock is kept, since the server may still write.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	for _, nc := range s.conns {
		nc.Close()
	}
	s.conns = nil
	s.mu.Unlock()

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}()
	select {
	case <-stopped:
		s.Ledger.Close()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("embedded NATS server is still stopping: %w", context.Cause(ctx))
	}
}
