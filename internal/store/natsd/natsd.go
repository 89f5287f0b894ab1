// Package natsd runs the embedded NATS server that the store lives in, and
// dials an external one.
//
// The embedded server listens on no socket: clients reach it through memory. Its
// data directory is guarded by its ledger, because JetStream guards it not at all:
// a lock keeps a second process out, which would otherwise lose writes that were
// acknowledged, and a record remembers what was ever stored there, so that data
// which went missing is reported instead of being replaced by an empty store.
package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	// Look starts as Repair does and changes nothing that a server or an operator made: no
	// record, no copy and no bucket. NATS may write its indexes anew.
	Look bool
	// Accept is asked before anything in the directory is changed but the file of its lock; its error
	// refuses the start. metadata returns that of a bucket's stream, nil where there is none. Nil: accepted.
	Accept func(metadata func(bucket string) map[string]string) error
	// PutBack, if set, puts copies of the damaged buckets that are missing into service, for an operator who accepts
	// that a part of them is lost. It returns the configuration of a bucket's stream, whose description may be
	// what is damaged.
	PutBack func(bucket string) jetstream.StreamConfig
	// Bulk leaves it to the caller to see to it that the files are on the disk, after Shutdown: writes take a tenth of the
	// time.
	Bulk bool
	// Transient are the buckets that hold nothing lasting: where one is damaged, an
	// empty one takes its place. All others stay missing until they are restored.
	Transient []string
}

// Server is a running embedded NATS server. Its Ledger is that of the directory.
type Server struct {
	*ledger.Ledger
	nats     *server.Server
	storeDir string
	// scratch is the folder that Look makes: empty where nothing is stored, with a copy of a
	// store that a start would change; else "".
	scratch string
	// unbegun is true where an operator decides about a store that had no folder.
	unbegun bool
	room    room
	damages []*Damage
	log     *slog.Logger
	// failed is why the NATS server could not write a stream; it writes nothing more into that one.
	failed  atomic.Pointer[error]
	copying sync.Mutex // of the streams' meta files

	mu    sync.Mutex
	conns []*nats.Conn
}

// Start locks the data directory, compares its ledger with the data, and starts a
// server on it. It returns once JetStream has recovered every stream and answers.
// The error of a directory that somebody else holds is a *ledger.LockedError.
func Start(ctx context.Context, opts Options) (*Server, error) {
	logger := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	s := &Server{storeDir: filepath.Join(dir, "nats"), log: logger}
	if s.Ledger, err = ledger.Open(dir, ledger.Options{Data: s.storeDir, Repair: opts.Repair || opts.Look}); err != nil {
		return nil, err
	}
	if opts.Accept != nil {
		if err := opts.Accept(s.metadata); err != nil {
			s.Ledger.Close()
			return nil, err
		}
	}
	transient := append(slices.Clone(opts.Transient), ledger.Bucket) // the identity is written again
	if opts.Look {
		err = s.look(ctx, dir, &opts, transient)
	} else {
		_, missing := os.Stat(s.storeDir)
		s.unbegun = opts.Repair && errors.Is(missing, fs.ErrNotExist)
		s.damages, err = setAside(dir, s.storeDir, s.Ledger, transient, s.log)
		if err == nil && opts.PutBack != nil {
			err = s.accept(ctx, &opts, filepath.Join(dir, asideDir, stagingDir))
		}
	}
	if err == nil {
		err = s.start(ctx, !opts.Bulk)
	}
	if err != nil {
		s.removeScratch()
		s.Ledger.Close()
		return nil, err
	}
	if !opts.Look {
		s.keepAll()
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, sync bool) error {
	var err error
	s.nats, err = server.NewServer(&server.Options{
		ServerName:        serverName,
		DontListen:        true,
		NoSigs:            true,
		JetStream:         true,
		JetStreamMaxStore: maxStore,
		StoreDir:          s.storeDir,
		SyncAlways:        sync,
		MaxPayload:        MaxPayload,
	})
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	s.nats.SetLoggerV2(serverLog{s.log, s.noteFailure}, false, false, false)
	s.nats.Start()
	if err := s.awaitReady(ctx); err != nil {
		s.stop()
		return fmt.Errorf("embedded NATS server on %s: %w", s.storeDir, err)
	}
	return nil
}

func (s *Server) stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
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
		s.stop()
	}()
	select {
	case <-stopped:
		s.removeScratch()
		s.Ledger.Close()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("embedded NATS server is still stopping: %w", context.Cause(ctx))
	}
}

// criticalError is in the line of a stream that the NATS server could not write. It says so nowhere
// else: it does not answer the write, nor any later one, until it is started again.
const criticalError = "critical write error"

// noteFailure looks for that line.
func (s *Server) noteFailure(line string) {
	if strings.Contains(line, criticalError) {
		err := fmt.Errorf("the store could not be written (%s); see that its disk can be written, and restart the server", line)
		s.failed.CompareAndSwap(nil, &err)
	}
}

// Writable says why nothing must be written into the store now; nil: it may be.
func (s *Server) Writable() error {
	if err := s.Ledger.Writable(); err != nil {
		return err
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// serverLog hands the NATS server's lines to slog, and those of errors to failed. Its notices are of
// no use to an operator of this program, and appear at debug level.
type serverLog struct {
	logger *slog.Logger
	failed func(line string)
}

func (l serverLog) Noticef(format string, v ...any) { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Tracef(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }

func (l serverLog) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.failed(line)
	l.logger.Error(line)
}

// Warnf leaves out the one warning that every start would bring: MaxPayload is
// what the largest object needs, and larger than the server likes.
func (l serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, "Maximum payloads over") {
		level = slog.LevelDebug
	}
	l.logger.Log(context.Background(), level, fmt.Sprintf(format, v...))
}

// Fatalf logs only: the server stops by itself, and this process must not.
func (l serverLog) Fatalf(format string, v ...any) { l.logger.Error(fmt.Sprintf(format, v...)) }
